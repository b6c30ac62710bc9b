"""Sums the text of perf sched timehist --state --next in a file, to be compared with 'sordino query': prints JSON, for each
thread its time on CPUs, and its delays from a wake-up to a CPU, in microseconds. Each time is cut to a microsecond."""

import json
import re
import sys
from collections import defaultdict

LINE = re.compile(r"^\s*\d+\.\d+ \[(\d+)\]\s+(.*?)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+(\S)\s+next: (.*?)\s*$")
TASK = re.compile(r"\[(\d+)(?:/\d+)?\]$")


def number(task):
    """Returns the thread of a task's name; the idle thread's has no number."""
    found = TASK.search(task)
    return int(found[1]) if found else 0


def micros(text):
    return int(text.replace(".", ""))


threads = defaultdict(lambda: {"lines": 0, "runs": 0, "delays": 0, "count": 0, "first": 0, "touched": False})
asleep, last = {}, {}
for line in open(sys.argv[1], encoding="utf-8", errors="replace"):
    match = LINE.match(line)
    if not match:
        continue
    cpu, task, _, delay, run, state, following = match.groups()
    tid = number(task)
    expected = last.get(cpu, tid)
    if expected != tid:
        # The kernel's tracer missed a switch: the run of one thread has another's begin.
        threads[tid]["touched"] = threads[expected]["touched"] = True
    last[cpu] = number(following)
    if not tid:
        continue
    thread = threads[tid]
    thread["runs"] += micros(run)
    if tid not in asleep:
        # Whether the thread was asleep before is not in the text.
        thread["first"] = micros(delay)
    elif asleep[tid]:
        thread["delays"] += micros(delay)
        thread["count"] += 1
    thread["lines"] += 1
    asleep[tid] = state != "R"
for tid in last.values():
    # The last wait of a thread that still runs is not in the text.
    threads[tid]["touched"] = True
threads.pop(0, None)
print(json.dumps(threads))
