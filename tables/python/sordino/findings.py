"""The types of what `sordino explain --json` prints. Times are nanoseconds since 1970, lengths are nanoseconds."""

from typing import Literal, NotRequired, TypedDict

# The version of the schema that these types describe.
VERSION = 2


class Thread(TypedDict):
    tid: int
    comm: str | None
    priority: int | None
    is_recorder: NotRequired[bool]


class Fiber(TypedDict):
    number: int
    name: str | None
    is_doubtful: NotRequired[bool]


class Waker(TypedDict):
    """What woke a thread, or sent an interrupt or a signal."""

    kind: Literal["thread", "interrupt", "fiber", "unknown"]
    thread: NotRequired[Thread]
    fiber: NotRequired[Fiber]
    cause: NotRequired["Cause"]
    cpu: NotRequired[int | None]


class Cause(TypedDict):
    """What took time. The keys besides `kind` depend on it."""

    kind: str
    call: NotRequired[str]
    signal: NotRequired[str]
    sender: NotRequired[Waker]
    reason: NotRequired[Literal["missing", "write_protected"] | None]
    huge: NotRequired[bool]
    number: NotRequired[int]
    name: NotRequired[str]
    handler: NotRequired[str]
    after: NotRequired[Literal["preemption", "wake_up"]]
    # A fiber, if the kind is `fiber_wait`.
    behind: NotRequired[Thread | Fiber | None]
    syscall: NotRequired[str | None]
    limit: NotRequired[Literal["control_group", "real_time", "deadline"]]
    state: NotRequired[str]
    in_page_fault: NotRequired[bool]
    in_slack: NotRequired[bool]
    on: NotRequired[str | None]
    events: NotRequired[Literal["kernel", "switches"]]


class Inside(TypedDict):
    function: str
    time_ns: int


class Quota(TypedDict):
    group: str | None
    runtime_ns: int
    period_ns: int


class Behind(TypedDict):
    thread: Thread | None
    time_ns: int


class Sender(TypedDict):
    by: Waker
    function: str | None
    count: int


class ReadFile(TypedDict):
    device: str
    inode: int
    by: Thread | None
    time_ns: int


class Link(TypedDict):
    level: int
    thread: Thread
    ran_ns: int
    slept_ns: int
    throttled_ns: int
    stopped_ns: int
    waited: list[Behind]


class Woken(TypedDict):
    by: Waker
    lock: Literal["held", "inferred"] | None
    count: int
    time_ns: int
    chain: list[Link]


class Part(TypedDict):
    """The time of one cause in an interval, without interruptions, which are parts of their own."""

    cause: Cause
    time_ns: int
    usual_ns: int
    entry_ns: int
    count: int
    longest_ns: int
    longest_at_ns: int
    certainty: Literal["known", "inferred", "estimated"]
    may_be_stolen: bool
    inside: list[Inside]
    quota: Quota | None
    beside: list[Behind]
    senders: list[Sender]
    files: list[ReadFile]
    wakers: list[Woken]


class Main(TypedDict):
    """The part that made an interval long: its index, and its time beyond the usual."""

    part: int
    excess_ns: int | None
    others: int
    others_ns: int


class Inversion(TypedDict):
    how: Literal["runnable", "in_syscall", "held_up"]
    call: NotRequired[str]
    behind: NotRequired[Thread]
    by: Thread
    time_ns: int


# `from` and `to` are numbers of CPUs. A class can't have `from`, which is a word of Python's.
Migration = TypedDict("Migration", {"at_ns": int, "from": int, "to": int})


class Loss(TypedDict):
    cpu: int | None
    pid: int | None
    cause: str
    count: int
    uncounted: int
    from_ns: int
    to_ns: int


class Stolen(TypedDict):
    cpu: int
    time_ns: int
    from_ns: int
    to_ns: int


class Explanation(TypedDict):
    """One interval and the parts of its time, which add up to its length."""

    begin_ns: int
    end_ns: int
    tid: int
    pid: int | None
    begin_cpu: int | None
    end_cpu: int | None
    thread: Thread
    fiber: NotRequired[Fiber]
    length_ns: int
    begin_fields: dict[str, int | float | str]
    end_fields: dict[str, int | float | str]
    stages: list["Stage"]
    parts: list[Part]
    main: Main | None
    inversions: list[Inversion]
    migrations: list[Migration]
    migrations_count: int
    lost: list[Loss]
    stolen: list[Stolen]


# The events that begin and end a stage of a request.
Ends = TypedDict("Ends", {"from": str, "to": str})


class Stage(Explanation, Ends):
    """A stage of a request, explained by its own thread."""


class Statistics(TypedDict):
    count: int
    min_ns: int
    median_ns: int
    p99_ns: int
    p99_9_ns: int
    max_ns: int


class Ranked(TypedDict):
    """A cause in all intervals above the limit."""

    cause: Cause
    time_ns: int
    excess_ns: int
    count: int
    intervals: int
    longest_ns: int
    longest_at_ns: int


class Other(TypedDict):
    rule: str
    intervals: int


class Choice(TypedDict):
    why: Literal["npt", "pair", "regular", "frequent"]
    others: list[Other]


class Unpaired(TypedDict):
    begins: int
    ends: int
    without_key: int
    without_thread: int


class Broken(TypedDict):
    count: int
    longest_ns: int


class Contradicted(TypedDict):
    kind: str
    count: int
    at_ns: int
    pid: int | None
    text: str


class MissingSwitches(TypedDict):
    cpu: int
    count: int


class Findings(TypedDict):
    """The longest intervals, longest first, and the causes of all above the limit."""

    schema: str
    version: int
    rule: str
    choice: NotRequired[Choice]
    statistics: Statistics
    limit_ns: int
    ranked: int
    more: bool
    intervals: list[Explanation]
    ranking: list[Ranked]
    unpaired: Unpaired
    broken: Broken
    lost: list[Loss]
    disorders: int
    contradictions: NotRequired[list[Contradicted]]
    missing_switches: list[MissingSwitches]
    missing: list[str]
