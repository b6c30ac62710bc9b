"""Recordings of sordino, and of LTTng, as tables of Arrow.

>>> recording = sordino.open("rec")
>>> table = pyarrow.table(recording.table("latencies"))
>>> table.num_rows == len(table["length_ns"])
True
"""

import json
import os
import shutil
import subprocess
import typing
from collections.abc import Mapping, Sequence

from ._sordino import Error, Recording, Table
from .findings import VERSION, Findings

__all__ = ["Error", "Findings", "Recording", "Table", "explain", "open"]

# A path, as Python's own functions take it.
_Path = str | os.PathLike[str]


def open(
    path: _Path | None = None,
    *,
    event: str | Sequence[str] = (),
    where: str | None = None,
    statedump: bool = False,
    from_: str | None = None,
    until: str | None = None,
    around: str | None = None,
    partial: bool = False,
) -> Recording:
    """Opens a recording: by default the newest in the current directory.

    The arguments are the options of `sordino events`: `event` and `where` select events; `from_`, `until` and `around`
    select a time, for all tables; `statedump` adds the state dump.

    If a part of the recording can't be read, reading a table ends with an error that names the part. With `partial`, it
    does not, and the reasons are in `problems` of the recording. Records that were lost while recording are no error:
    they are the table "losses".

    >>> recording = sordino.open("rec", event="npt:loop", where="duration >= 0")
    >>> set(pyarrow.table(recording.table("events", columns=["name"]))["name"].to_pylist())
    {'npt:loop'}
    >>> sordino.open("rec", event="npt:lop")
    Traceback (most recent call last):
    sordino.Error: --event 'npt:lop': the recording has no event of that name; did you mean npt:loop, npt:stop?
    """
    events = [event] if isinstance(event, str) else list(event)
    words = _options({"event": events, "where": where, "statedump": statedump})
    words += _options({"from": from_, "until": until, "around": around})
    return Recording(path, words, partial)


def explain(
    path: _Path | None = None, *, program: _Path | None = None, **options: str | int | bool | Sequence[str] | None
) -> Findings:
    """Explains the causes of the longest intervals in a recording, as `sordino explain --json` does.

    The options are those of that command: `event`, `begin`, `end`, `by`, `thread`, `syscalls`, `irqs`, `fiber`,
    `deadline`, `where`, `from_`, `until`, `around`, `top`, `over`. An option without a value is `True`.

    The program `sordino` is looked for in `PATH`, unless `program` is its path.

    >>> findings = sordino.explain("rec", event="npt:loop", top=2)
    >>> len(findings["intervals"])
    2
    >>> longest = findings["intervals"][0]
    >>> sum(part["time_ns"] for part in longest["parts"]) == longest["length_ns"]
    True
    """
    found = os.fspath(program) if program is not None else shutil.which("sordino")
    if found is None:
        raise Error("sordino is not in PATH: install it (sudo make install), or name the program with program=")
    # A directory whose name begins with a dash is no option.
    directory = [] if path is None else [os.path.join(os.curdir, os.fspath(path))]
    words = [found, "explain", *directory, "--json", *_options(options)]
    try:
        ended = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError as error:
        raise Error(f"can't run {found}: {error.strerror}") from error
    # 1 is the answer that an interval is longer than a limit.
    if ended.returncode not in (0, 1):
        # The usage of a command line is no help here.
        text = ended.stderr.decode(errors="replace").partition("\n\nUsage")[0].strip()
        text = text.removeprefix("sordino: ").removeprefix("error: ")
        raise Error(text or f"{found}: status {ended.returncode}")
    findings: dict[str, object] = json.loads(ended.stdout)
    if findings.get("version") != VERSION:
        raise Error(
            f"{found} writes version {findings.get('version')} of its findings, this package reads {VERSION}: "
            "install both from the same source"
        )
    return typing.cast(Findings, findings)


def _options(options: Mapping[str, object]) -> list[str]:
    """Returns the words of a command line for these options."""
    words = []
    for name, value in options.items():
        name = name.strip("_").replace("_", "-")
        values = value if isinstance(value, (list, tuple)) else [value]
        for each in values:
            if each is True:
                words.append(f"--{name}")
            elif each is not None and each is not False:
                words.append(f"--{name}={each}")
    return words
