"""An output directory: its lock, its files and their names."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, cast
from urllib.parse import quote

import orjson

from dcurate.core.batch import BatchKey
from dcurate.errors import DataError, PipelineError, listed
from dcurate.fs.compression import ending_of
from dcurate.fs.paths import check_reachable
from dcurate.fs.stores import META_DIR, TMP, Directory

Mode = Literal["error", "overwrite", "ignore", "append"]
MODES = ("error", "overwrite", "ignore", "append")

_RECORD = f"{META_DIR}/output.json"
#: Says that the last run that wrote to the directory has finished.
FINISHED = f"{META_DIR}/finished.json"
_LEDGER = f"{META_DIR}/ledger/"
_COMPLETED = f"{META_DIR}/completed.json"

#: Holds the id of the run that wrote to the directory last.
RUNNING = f"{META_DIR}/running"
#: Where files are put that are of no finished split.
STRAYS = f"{META_DIR}/strays"

_OURS = re.compile(
    r".+-[0-9a-f]{12}(-g\d+)?(-\d{4,})?\.((jsonl|tar)(\.(gz|bz2|zst|xz))?|parquet|chunks|vectors)"
    r"|tokens(-g\d+)?-\d{5,}\.(bin|idx|ds(\.(index|metadata|loss))?|((cu_seqlens|loss)\.)?npy|csv\.gz|mds|parquet)"
)
_PART = re.compile(r"(@\d{5,}|\+\d+-[0-9a-f]{8})$")
_LONGEST_STEM = 48
_LONGEST_FOLDER = 180


def file_name(key: BatchKey, suffix: str, generation: int = 0, number: int = 0) -> str:
    """The name of the ``number``-th file of a batch: it follows from the key alone.

    Examples:
        >>> file_name(BatchKey("books/part-00.jsonl.gz", (3,)), ".parquet")
        'part-00-102f3d4d4319.parquet'
        >>> file_name(BatchKey("part-00.jsonl"), ".jsonl", generation=2, number=1)
        'part-00-554f530902ef-g2-0001.jsonl'
    """
    mark = f"-g{generation}" if generation else ""
    further = f"-{number:04d}" if number else ""
    return f"{stem(key.split)}-{key.digest}{mark}{further}{suffix}"


def stem(name: str) -> str:
    """The readable part of a split's name, safe in any file system and never hidden."""
    base = _PART.sub("", name).rpartition("/")[2]
    base = base[: len(base) - len(ending_of(base))]
    safe = re.sub(r"[^A-Za-z0-9.-]+", "-", os.path.splitext(base)[0])
    return safe[:_LONGEST_STEM].strip("-.") or "part"


def folder_name(value: Any) -> str:
    """Return the folder for a value of a column: the value, with special characters escaped.

    No two values share one. Null is ``%null``, empty text ``%empty``; a value too long for a name ends in a digest.

    Examples:
        >>> [folder_name(value) for value in ("en", "a/b", "_x", None, "", 3)]
        ['en', 'a%2Fb', '%5Fx', '%null', '%empty', '3']
    """
    if value is None:
        return "%null"
    safe = quote(str(value), safe=" ,;+@=") or "%empty"
    if safe[0] in "._":
        safe = f"%{ord(safe[0]):02X}{safe[1:]}"
    if len(safe) <= _LONGEST_FOLDER:
        return safe
    digest = hashlib.blake2b(safe.encode(), digest_size=8).hexdigest()
    return f"{safe[:_LONGEST_FOLDER]}%{digest}"


def prepare(directory: Directory, mode: Mode, resume: bool) -> None:
    """Make a directory ready to be written to, or refuse.

    ``error``: it must be empty. ``overwrite``: what an earlier run wrote is deleted. ``ignore``: files are
    written beside what is there, those of equal name are replaced. ``append``: all that is there stays, and new
    names differ from old ones. With ``resume`` what an earlier run wrote stays in any mode.

    Raises:
        DataError: the directory holds what may not be touched, or cannot be written.
    """
    there = _look(directory)
    records, outputs, ours = there
    going_on = resume and bool(records)
    if not going_on:
        _refuse(directory, mode, there)
    generation = _generation(directory)
    finished = _look_up(directory, "finished", 0)
    alone = _look_up(directory, "alone", False) if going_on else mode in ("error", "overwrite")
    if going_on:
        stale = [name for name in records if name.startswith(f"{TMP}/")]
    elif mode == "overwrite":
        stale, generation, finished = [name for name in records if name.startswith(_LEDGER)] + ours + records, 0, 0
    else:
        stale = [name for name in records if name != _RECORD]
        generation += mode == "append" and bool(outputs)
        finished = finished + (FINISHED in records) if mode == "append" else 0
    record = orjson.dumps({"generation": generation, "alone": alone, "finished": finished})
    if mode == "append":  # before the mark that it counts is removed: no number may be used by two runs that finish
        directory.write(_RECORD, record)
    directory.remove(list(dict.fromkeys(stale)))
    directory.write(_RECORD, record)
    directory.create()


def check(directory: Directory, mode: Mode) -> None:
    """Refuse a directory that `prepare` would refuse; nothing is written.

    Raises:
        DataError: the directory holds what may not be touched.
    """
    _refuse(directory, mode, _look(directory))


def claim(directory: Directory, run: str) -> None:
    """Note in an output directory which run writes to it."""
    directory.write(RUNNING, run.encode())


def check_claim(directory: Directory, run: str, written: Iterable[str]) -> None:
    """Check that a directory is still the output of this run.

    Args:
        written: addresses of the files that must be there.

    Raises:
        DataError: it was deleted, or another run wrote to it.
    """
    there = directory.read(RUNNING)
    files = {directory.path(name) for name in directory.files()}
    if there is None or not files.issuperset(written):
        raise DataError(f"{directory.url!r} was deleted while the run wrote to it; run again")
    if there != run.encode():
        raise DataError(
            f"another run wrote to {directory.url!r} at the same time, so what is there may be of either; "
            "let one of them write to it, afresh with mode='overwrite'"
        )


class _There(NamedTuple):
    """Names of files in an output directory: our records, other files, and which of those we wrote."""

    records: list[str]
    outputs: list[str]
    ours: list[str]


def _look(directory: Directory) -> _There:
    check_reachable(directory.url)
    if directory.is_file():
        raise DataError(f"{directory.url!r} is a file, and output goes to a directory; name another path")
    files = directory.files(own=True)
    records = [name for name in files if name.startswith(f"{META_DIR}/")]
    outputs = [name for name in files if not name.startswith((f"{META_DIR}/", "."))]
    completed = orjson.loads(directory.read(_COMPLETED) or b"[]") if _COMPLETED in records else []
    ours = [name for name in outputs if records and (_OURS.fullmatch(os.path.basename(name)) or name in completed)]
    return _There(records, outputs, ours)


def _refuse(directory: Directory, mode: Mode, there: _There) -> None:
    """Raise if the mode does not allow to begin in a directory with these files."""
    outputs, ours = there.outputs, there.ours
    foreign = sorted(set(outputs) - set(ours))
    if mode in ("error", "overwrite") and foreign:
        more = f" and {len(foreign) - 3} more" if len(foreign) > 3 else ""
        also = " or use mode='ignore' to write beside them" if mode == "error" else ""
        raise DataError(
            f"{directory.url!r} holds files that dcurate did not write: {listed(foreign[:3])}{more}; "
            f"name an empty directory{also}"
        )
    if mode == "error" and ours:
        ledger = any(name.startswith(_LEDGER) for name in there.records)
        begun = "finished or unfinished run" if ledger else "run"
        raise DataError(
            f"{directory.url!r} holds the output of a {begun}; go on with it with resume=True, "
            f"replace it with mode='overwrite', add to it with mode='append', or name another directory"
        )


def write_completed(directory: Directory, files: Mapping[str, bytes]) -> None:
    """Write the files that say what is in a directory, by name; see `dcurate.core.stage.SinkStage.complete`."""
    directory.write(_COMPLETED, orjson.dumps(sorted(files)))
    for name, data in files.items():
        directory.write(name, data)


def finished_before(directory: Directory) -> int:
    """The number of finished runs that the present one appends to; 0 in another mode."""
    return _look_up(directory, "finished", 0)


def generation(directory: Directory) -> int:
    """The number of earlier runs that appended to the directory.

    Raises:
        PipelineError: the directory was not prepared.
    """
    if directory.read(_RECORD) is None:
        raise PipelineError(f"{directory.url!r} was not made ready; call prepare(resume=False) of the writer first")
    return _generation(directory)


def move_strays(directory: Directory, known: set[str]) -> list[str]:
    """Move files to `STRAYS` that have names of ours and are in folders of known files; returns their names.

    Only where the run began in an empty directory: else they may be of another one.
    """
    if not _look_up(directory, "alone", False):
        return []
    folders = {os.path.dirname(name) for name in known}
    names = [name for name in directory.files() if name not in known and os.path.dirname(name) in folders]
    strays = [name for name in names if _OURS.fullmatch(os.path.basename(name))]
    for name in strays:
        directory.write(f"{STRAYS}/{name}", directory.read(name) or b"")
        directory.remove([name])
    return strays


def _generation(directory: Directory) -> int:
    return _look_up(directory, "generation", 0)


def _look_up(directory: Directory, key: str, default: int) -> int:
    record = directory.read(_RECORD)
    try:
        known = orjson.loads(record) if record is not None else {"generation": 0}
        return cast(int, known[key] if key == "generation" else known.get(key, default))
    except (ValueError, KeyError) as error:
        raise DataError(f"{directory.path(_RECORD)!r} is damaged; name another directory") from error
