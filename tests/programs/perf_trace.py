"""Reads the text of perf trace -s in a file, to be compared with 'sordino query syscalls': prints JSON, for each thread and
system call the number of calls, their total and the longest in microseconds, as perf rounds them."""

import json
import re
import sys

THREAD = re.compile(r"^ .*\((\d+)\), \d+ events, ")
CALL = re.compile(r"^   (\S+)\s+(\d+)\s+\d+\s+(\d+\.\d+)\s+\d+\.\d+\s+\d+\.\d+\s+(\d+\.\d+)\s")


def micros(text):
    return int(text.replace(".", ""))


calls, thread = {}, None
for line in open(sys.argv[1], encoding="utf-8", errors="replace"):
    if found := THREAD.match(line):
        thread = found[1]
    elif thread and (found := CALL.match(line)):
        name, count, total, longest = found.groups()
        calls[f"{thread} {name}"] = [int(count), micros(total), micros(longest)]
print(json.dumps(calls))
