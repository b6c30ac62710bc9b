"""Sums the text of trace-cmd report --profile in a file, to be compared with 'sordino query': prints JSON, for each interrupt and
softirq the number of its handlers and their total in nanoseconds. trace-cmd has a line for each in each task."""

import json
import re
import sys
from collections import defaultdict

LINE = re.compile(r"^\s+Event: (softirq|irq_handler)_entry:(\S+) \((\d+)\)(?: Total: (\d+) )?")

sums = {"irqs": defaultdict(lambda: [0, 0]), "softirqs": defaultdict(lambda: [0, 0])}
for line in open(sys.argv[1], encoding="utf-8", errors="replace"):
    if found := LINE.match(line):
        kind, name, count, total = found.groups()
        # trace-cmd has the numbers of interrupts, and the names of softirqs.
        of = sums["softirqs"][name] if kind == "softirq" else sums["irqs"][str(int(name, 16))]
        of[0] += int(count)
        of[1] += int(total or 0)
print(json.dumps(sums))
