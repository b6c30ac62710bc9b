"""Reads an export with pyarrow, DuckDB or Spark, and prints what the tests compare with sordino's own listing, as JSON.

usage: read.py pyarrow|duckdb|spark DIRECTORY EVENTS, the number of the first events that are printed whole
"""

import json
import math
import os
import sys


def with_pyarrow(directory, number):
    import pyarrow.compute as compute
    import pyarrow.dataset as dataset

    def table(name):
        return dataset.dataset(f"{directory}/{name}", format="parquet", partitioning="hive").to_table()

    def pairs(rows, key, value):
        return {str(row[key]): row[value] for row in rows.to_pylist()}

    events, intervals, latencies = table("events"), table("intervals"), table("latencies")
    running = intervals.filter(compute.equal(intervals["state"], "running"))
    first = events.slice(0, number).to_pylist()
    return {
        "names": pairs(events.group_by("name").aggregate([([], "count_all")]), "name", "count_all"),
        "running": pairs(running.group_by("tid").aggregate([("length_ns", "sum")]), "tid", "length_ns_sum"),
        "latencies": [latencies.num_rows, compute.sum(latencies["length_ns"]).as_py() or 0],
        "lost": compute.sum(table("losses")["count"]).as_py() or 0,
        "hosts": sorted({str(host) for host in events["host"].to_pylist()}),
        "events": [
            [row["time_ns"], row["name"], *(dict(row[kind]) for kind in ("integers", "texts", "reals"))] for row in first
        ],
    }


def with_sql(query, first):
    """Returns what `query` finds, a function of a text in SQL that returns rows; `first` selects the first events."""
    [(count, length)] = query("SELECT count(*), CAST(coalesce(sum(length_ns), 0) AS BIGINT) FROM latencies")
    [(lost,)] = query("SELECT CAST(coalesce(sum(count), 0) AS BIGINT) FROM losses")
    running = "SELECT tid, CAST(sum(length_ns) AS BIGINT) FROM intervals WHERE state = 'running' GROUP BY tid"
    return {
        "names": dict(query("SELECT name, count(*) FROM events GROUP BY name")),
        "running": {str(tid): length for tid, length in query(running)},
        "latencies": [count, length],
        "lost": lost,
        "hosts": sorted(str(host) for (host,) in query("SELECT DISTINCT host FROM events")),
        "events": [list(row) for row in query(first)],
    }


def with_duckdb(directory, number):
    import duckdb

    for name in ("events", "intervals", "latencies", "losses"):
        files = f"{directory}/{name}/**/*.parquet".replace("'", "''")
        duckdb.sql(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{files}', hive_partitioning = true)")
    files = f"read_parquet('{directory}/events/**/*.parquet', filename = true, file_row_number = true)"
    first = f"""SELECT time_ns, name, integers, texts, reals FROM {files}
        ORDER BY filename, file_row_number LIMIT {number}"""
    return with_sql(lambda text: duckdb.sql(text).fetchall(), first)


def with_spark(directory, number):
    # The workers' address, too: the machine's name may have none.
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"{directory}/../warehouse",
        # As docs/tables.md says.
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        # Small files are divided among the workers, too.
        "spark.sql.files.maxPartitionBytes": "16384",
    }
    # Two workers with a core and 1 GiB each, which are processes of their own.
    builder = SparkSession.builder.master("local-cluster[2,1,1024]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for name in ("events", "intervals", "latencies", "losses"):
        rows = spark.read.parquet(f"{directory}/{name}").selectExpr("*", "_metadata.file_path", "_metadata.row_index")
        rows.createOrReplaceTempView(name)
    first = f"SELECT time_ns, name, integers, texts, reals FROM events ORDER BY file_path, row_index LIMIT {number}"
    found = with_sql(lambda text: [tuple(row) for row in spark.sql(text).collect()], first)
    # One of them is the driver.
    found["workers"] = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
    spark.stop()
    return found


def printable(row):
    """Returns an event with None for real numbers that JSON does not have."""
    *others, reals = row
    reals = {name: value if math.isfinite(value) else None for name, value in reals.items()}
    return [*others, reals]


readers = {"pyarrow": with_pyarrow, "duckdb": with_duckdb, "spark": with_spark}
found = readers[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
found["events"] = [printable(row) for row in found["events"]]
print(json.dumps(found, allow_nan=False))
