"""The tables of the Python package agree with sordino's own listing, whichever library reads them."""

import os
import shutil
import subprocess
import sys
import time
import unittest

import duckdb
import pandas
import polars
import pyarrow
import pyarrow.compute as compute

import sordino
import support


class Tables(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = support.Place()
        cls.addClassCleanup(cls.place.close)
        cls.recording = sordino.open(cls.place.recording)

    def test_each_library_finds_the_events_of_the_listing(self):
        listed = self.place.listed()
        names = support.counted(event["name"] for event in listed)
        events = self.recording.table("events")
        self.assertEqual(support.counted(pyarrow.table(events)["name"].to_pylist()), names)
        self.assertEqual(support.counted(polars.DataFrame(events)["name"]), names)
        self.assertEqual(pandas.DataFrame.from_arrow(events)["name"].value_counts().to_dict(), names)
        found = duckdb.sql("SELECT name, count(*) FROM events GROUP BY name").fetchall()
        self.assertEqual(dict(found), names)

    def test_events_have_the_times_the_threads_and_the_fields_of_the_listing(self):
        rows = pyarrow.table(self.recording.table("events")).to_pylist()
        listed = self.place.listed()
        self.assertEqual(len(rows), len(listed))
        for row, event in zip(rows, listed):
            for name in ("time_ns", "name", "cpu", "tid"):
                self.assertEqual(row[name], event.get(name), event)
            kinds = {int: dict(row["integers"]), float: dict(row["reals"]), str: dict(row["texts"])}
            for name, value in event["fields"].items():
                if type(value) in kinds:
                    self.assertEqual(kinds[type(value)][name], value, event)

    def test_sums_of_durations_are_those_of_queries(self):
        runs = {tid: total for tid, (_, total) in self.place.measured("slices").items()}
        latencies = self.place.measured("latency").values()
        intervals = self.recording.table("intervals", columns=["state", "tid", "length_ns"])
        found = "SELECT tid, sum(length_ns)::BIGINT FROM intervals WHERE state = 'running' GROUP BY tid"
        self.assertEqual(dict(duckdb.sql(found).fetchall()), runs)
        frame = polars.DataFrame(intervals).filter(polars.col("state") == "running")
        sums = frame.group_by("tid").agg(polars.col("length_ns").sum())
        self.assertEqual(dict(sums.iter_rows()), runs)
        lengths = pyarrow.table(self.recording.table("latencies"))["length_ns"]
        wanted = (sum(count for count, _ in latencies), sum(total for _, total in latencies))
        self.assertEqual((len(lengths), compute.sum(lengths).as_py() or 0), wanted)

    def test_columns_are_those_that_were_named_in_their_order(self):
        for name in ("events", "latencies"):
            table = pyarrow.table(self.recording.table(name, columns=["host", "cpu"]))
            self.assertEqual(table.column_names, ["host", "cpu"])
            self.assertEqual(table.num_rows, pyarrow.table(self.recording.table(name)).num_rows)
        whole = self.recording.table("losses")
        self.assertEqual(pyarrow.schema(whole).names, whole.columns)

    def test_options_select_events_and_a_time_as_on_the_command_line(self):
        loops = [event["time_ns"] for event in self.place.listed() if event["name"] == "npt:loop"]
        seconds = lambda number: f"{number // 10**9}.{number % 10**9:09}"
        limits = {"from": seconds(loops[500]), "until": seconds(loops[2500])}
        some = sordino.open(self.place.recording, event="npt:loop", from_=limits["from"], until=limits["until"])
        times = pyarrow.table(some.table("events", columns=["time_ns"]))["time_ns"].to_pylist()
        self.assertEqual(times, loops[500:2501])

    def test_mistakes_are_exceptions_with_the_readers_message(self):
        path = self.place.recording
        for wrong, words in [
            (lambda: sordino.open(self.place.path / "nowhere"), "nowhere"),
            (lambda: sordino.open(path, event="npt:lop"), "did you mean npt:loop"),
            (lambda: sordino.open(path, where="duration >"), "--where"),
            (lambda: sordino.open(path, from_="yesterday"), "'yesterday' for '--from"),
            (lambda: sordino.open(path, from_="1s", around="2s"), "cannot be used with"),
        ]:
            with self.assertRaisesRegex(sordino.Error, words) as raised:
                wrong()
            self.assertNotIn("Usage", str(raised.exception))
        with self.assertRaisesRegex(ValueError, "no table 'event': it has events, intervals"):
            self.recording.table("event")
        with self.assertRaisesRegex(ValueError, "no column 'nme': it has time_ns, "):
            self.recording.table("events", columns=["nme"])
        with self.assertRaisesRegex(ValueError, "'cpu' is there twice"):
            self.recording.table("events", columns=["cpu", "cpu"])

    def damaged(self, name):
        path = self.place.path / name
        shutil.copytree(self.place.recording, path)
        self.addCleanup(shutil.rmtree, path)
        return path

    def test_bytes_that_make_no_sense_are_a_loss(self):
        path = self.damaged("bytes")
        stream = max(path.glob("user/*/cpu*"), key=lambda stream: stream.stat().st_size)
        with stream.open("r+b") as file:
            file.seek(stream.stat().st_size // 2)
            file.write(b"\xff" * 8192)
        recording = sordino.open(path)
        rows = pyarrow.table(recording.table("events")).num_rows
        self.assertTrue(0 < rows < pyarrow.table(self.recording.table("events")).num_rows)
        losses = pyarrow.table(recording.table("losses")).to_pylist()
        self.assertIn("bytes do not make sense", [loss["cause"] for loss in losses])
        self.assertEqual(recording.lost[0], len(losses))

    def test_a_trace_that_cannot_be_read_is_an_error_unless_parts_are_wanted(self):
        path = self.damaged("metadata")
        next(path.glob("user/*/metadata")).write_text("/* CTF 1.8 */ no metadata")
        with self.assertRaisesRegex((OSError, pyarrow.ArrowException), "metadata"):
            pyarrow.table(sordino.open(path).table("losses"))
        partial = sordino.open(path, partial=True)
        self.assertEqual(pyarrow.table(partial.table("losses")).num_rows, 0)
        self.assertRegex(" ".join(partial.problems), "user/.*/metadata")


# Prints by how much the memory of the process grew at most while it read the events of a second recording.
GROWTH = """
import pyarrow, resource, sordino, sys, time
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
def read(path, wait):
    reader = pyarrow.RecordBatchReader.from_stream(sordino.open(path).table("events"))
    rows = reader.read_next_batch().num_rows
    # The pass must not run ahead meanwhile.
    time.sleep(wait)
    return rows + sum(batch.num_rows for batch in reader)
read(sys.argv[1], 0)
before = peak()
print(read(sys.argv[2], 3), peak() - before)
"""


class Streams(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Many more batches than are read ahead.
        cls.few = support.Place(100_000)
        cls.addClassCleanup(cls.few.close)

    def test_a_stream_that_is_left_ends_its_pass(self):
        threads = lambda: len(os.listdir("/proc/self/task"))
        before = threads()
        reader = pyarrow.RecordBatchReader.from_stream(sordino.open(self.few.recording).table("events"))
        self.assertGreater(reader.read_next_batch().num_rows, 0)
        del reader
        until = time.monotonic() + 10
        while threads() > before and time.monotonic() < until:
            time.sleep(0.01)
        self.assertEqual(threads(), before)

    def test_a_stream_of_ten_times_the_events_needs_no_more_memory(self):
        many = support.Place(1_000_000)
        self.addCleanup(many.close)
        words = [sys.executable, "-c", GROWTH, self.few.recording, many.recording]
        output = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        rows, growth_kib = map(int, output.split())
        # Under load some are lost.
        self.assertGreater(rows, 500_000)
        # All rows in memory take more than 100 bytes each.
        self.assertLess(growth_kib, 20_000)


if __name__ == "__main__":
    unittest.main()
