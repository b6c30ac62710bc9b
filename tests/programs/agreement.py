"""Measures the text of babeltrace2 --clock-seconds in a file, to be compared with 'sordino query': prints JSON, for each measure
the name of each row with the number of its spans, their total and their maximum in nanoseconds."""

import json
import re
import sys
from collections import defaultdict

LINE = re.compile(r"^\[(\d+)\.(\d{9})\] \([^)]*\) (?:\S+ )?([a-z_0-9]+): \{(.*)$")
FIELD = re.compile(r"(\w+) = (\"(?:[^\"\\]|\\.)*\"|-?\w+)")
VECTORS = ("local_timer", "reschedule", "call_function", "call_function_single", "irq_work")

measures = {name: defaultdict(list) for name in ("slices", "latency", "syscalls", "irqs", "softirqs")}
running, asleep, woken = {}, {}, {}
calls, handlers, names = {}, defaultdict(list), {}
# The threads that have the CPUs, where events do not name theirs.
on_cpu = {}


def enter(kind, cpu, name, time):
    handlers[kind, cpu].append((name, time))


def leave(kind, cpu, name, time):
    if handlers[kind, cpu] and handlers[kind, cpu][-1][0] == name:
        measures[kind][name].append(time - handlers[kind, cpu].pop()[1])


def switch(field, cpu, time):
    prev, following, state = int(field["prev_tid"]), int(field["next_tid"]), int(field["prev_state"], 0)
    if prev:
        if prev in running:
            measures["slices"][prev].append(time - running.pop(prev))
        asleep.pop(prev, None)
        # Its switch to the CPU is missing.
        woken.pop(prev, None)
        if state & 0xFF and not state & 0x30:
            asleep[prev] = time
    on_cpu[cpu] = following
    if following:
        running[following] = time
        asleep.pop(following, None)
        if following in woken:
            measures["latency"][following].append(time - woken.pop(following))


for line in open(sys.argv[1], encoding="utf-8", errors="replace"):
    match = LINE.match(line)
    if not match:
        continue
    time = int(match[1]) * 1_000_000_000 + int(match[2])
    name, field = match[3], {key: value.strip('"') for key, value in FIELD.findall(match[4])}
    if "cpu_id" not in field:
        continue
    cpu = field["cpu_id"]
    thread = field.get("tid", on_cpu.get(cpu))
    if name == "sched_switch":
        switch(field, cpu, time)
    elif name in ("sched_waking", "sched_wakeup", "sched_wakeup_new"):
        # The thread of the event comes first in the line, the one that is woken last.
        tid = int(field["tid"])
        if tid in asleep:
            del asleep[tid]
            woken[tid] = time
    elif name == "task_newtask":
        asleep[int(field["tid"])] = time
    elif name == "sched_process_fork":
        asleep[int(field["child_tid"])] = time
    elif name == "sched_process_free":
        for known in (asleep, woken, running):
            known.pop(int(field["tid"]), None)
    elif name.startswith(("sys_enter_", "syscall_entry_")):
        calls[thread] = (name.split("_", 2)[2], time)
    elif name.startswith("sys_") and not name.startswith("sys_exit_"):
        calls[thread] = (name.removeprefix("sys_"), time)
    elif name.startswith(("sys_exit_", "syscall_exit_")) or name == "exit_syscall":
        if thread in calls:
            call, begin = calls.pop(thread)
            measures["syscalls"][call].append(time - begin)
    elif name == "irq_handler_entry":
        names[field["irq"]] = field["irq"] + " " + field["name"]
        enter("irqs", cpu, names[field["irq"]], time)
    elif name == "irq_handler_exit":
        leave("irqs", cpu, names.get(field["irq"]), time)
    elif name in ("softirq_entry", "irq_softirq_entry"):
        enter("softirqs", cpu, field["vec"], time)
    elif name in ("softirq_exit", "irq_softirq_exit"):
        leave("softirqs", cpu, field["vec"], time)
    elif name.endswith(("_entry", "_exit")):
        vector, side = name.removeprefix("x86_irq_vectors_").rsplit("_", 1)
        if vector in VECTORS:
            (enter if side == "entry" else leave)("irqs", cpu, vector, time)

summed = {
    name: {str(row): [len(spans), sum(spans), max(spans)] for row, spans in rows.items()}
    for name, rows in measures.items()
}
json.dump(summed, sys.stdout)
