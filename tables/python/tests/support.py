"""What the tests of the Python package share: recordings, and sordino's own listing of them."""

import collections
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

SORDINO = os.environ["SORDINO"]


def run(*words, cwd=None):
    """Runs sordino, and returns what it printed."""
    ended = subprocess.run([SORDINO, *map(str, words)], cwd=cwd, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def record(path, loops):
    """Records a program with the kernel's scheduler, if this user may; otherwise the program alone."""
    program = [SORDINO, "npt", "--prio", "0", "--warm-up", "0", "--loops", loops]
    # It starts a thread that sleeps, so that there are wake-ups.
    try:
        run("record", "-o", path, "--kernel", "sched,irq", "--", *program)
    except AssertionError:
        shutil.rmtree(path, ignore_errors=True)
        run("record", "-o", path, "--", *program)


class Place:
    """A temporary directory with the recording `rec`."""

    def __init__(self, loops=3000):
        self._directory = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self._directory.name)
        self.recording = self.path / "rec"
        record(self.recording, loops)

    def close(self):
        self._directory.cleanup()

    def listed(self):
        """The events as `sordino events --json` lists them."""
        items = map(json.loads, run("events", "--json", self.recording).splitlines())
        return [item for item in items if item.get("type") == "event"]

    def measured(self, measure):
        """The count and the sum of the times of a measure's rows, by thread."""
        found = json.loads(run("query", self.recording, measure, "--per", "thread", "--json"))
        rows = found["tables"][0]["rows"]
        number = lambda row: int(row["labels"][0].rpartition("/")[2])
        return {number(row): (row["summary"]["count"], row["summary"]["total_ns"]) for row in rows}


def counted(values):
    return dict(collections.Counter(values))
