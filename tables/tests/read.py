"""Reads an export with pyarrow or DuckDB, and prints what the tests compare with sordino's own listing, as JSON.

usage: read.py pyarrow|duckdb DIRECTORY
"""

import json
import sys


def with_pyarrow(directory):
    import pyarrow.compute as compute
    import pyarrow.dataset as dataset

    def table(name):
        return dataset.dataset(f"{directory}/{name}", format="parquet", partitioning="hive").to_table()

    def pairs(rows, key, value):
        return {str(row[key]): row[value] for row in rows.to_pylist()}

    events, intervals, latencies = table("events"), table("intervals"), table("latencies")
    running = intervals.filter(compute.equal(intervals["state"], "running"))
    first = events.slice(0, 100).to_pylist()
    return {
        "names": pairs(events.group_by("name").aggregate([([], "count_all")]), "name", "count_all"),
        "running": pairs(running.group_by("tid").aggregate([("length_ns", "sum")]), "tid", "length_ns_sum"),
        "latencies": [latencies.num_rows, compute.sum(latencies["length_ns"]).as_py() or 0],
        "lost": compute.sum(table("losses")["count"]).as_py() or 0,
        "hosts": sorted({str(host) for host in events["host"].to_pylist()}),
        "events": [
            [row["time_ns"], row["name"], *(dict(row[kind]) for kind in ("integers", "texts"))] for row in first
        ],
    }


def with_duckdb(directory):
    import duckdb

    def query(text):
        return duckdb.sql(text).fetchall()

    for name in ("events", "intervals", "latencies", "losses"):
        files = f"{directory}/{name}/**/*.parquet".replace("'", "''")
        duckdb.sql(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{files}', hive_partitioning = true)")
    [(count, length)] = query("SELECT count(*), coalesce(sum(length_ns), 0)::BIGINT FROM latencies")
    [(lost,)] = query("SELECT coalesce(sum(count), 0)::BIGINT FROM losses")
    running = "SELECT tid, sum(length_ns)::BIGINT FROM intervals WHERE state = 'running' GROUP BY tid"
    first = "SELECT time_ns, name, integers, texts FROM events ORDER BY filename, file_row_number LIMIT 100"
    first = first.replace("events", f"read_parquet('{directory}/events/**/*.parquet', filename = true, file_row_number = true)")
    return {
        "names": dict(query("SELECT name, count(*) FROM events GROUP BY name")),
        "running": {str(tid): length for tid, length in query(running)},
        "latencies": [count, length],
        "lost": lost,
        "hosts": sorted(str(host) for (host,) in query("SELECT DISTINCT host FROM events")),
        "events": [list(row) for row in query(first)],
    }


readers = {"pyarrow": with_pyarrow, "duckdb": with_duckdb}
print(json.dumps(readers[sys.argv[1]](sys.argv[2])))
