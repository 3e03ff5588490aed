"""An output directory: its lock, its files and their names."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

import orjson

from dcurate.core.batch import BatchKey
from dcurate.errors import DataError, PipelineError, listed
from dcurate.fs.compression import ending_of
from dcurate.fs.paths import check_reachable
from dcurate.fs.stores import META_DIR, RUNS, TMP, Directory
from dcurate.io.labels import LABELS, RunLabel, superseded, write_label
from dcurate.io.lock import LOCK
from dcurate.io.name_set import NameSet
from dcurate.io.receipts import OPTOUTS
from dcurate.io.replacing import JOURNAL, finish_replacing

Mode = Literal["error", "overwrite", "ignore", "append"]
MODES = ("error", "overwrite", "ignore", "append")

_RECORD = f"{META_DIR}/output.json"
#: Folder of what each run whose rows are in the directory has read; see `dcurate.runs.lineages.record`.
LINEAGE = f"{META_DIR}/lineage/"
#: Says that the last run that wrote to the directory has finished.
FINISHED = f"{META_DIR}/finished.json"
_LEDGER = f"{META_DIR}/ledger/"
_COMPLETED = f"{META_DIR}/completed.json"

_QUARANTINE = f"{META_DIR}/quarantine/"
#: Folder of empty files, each of which reserves the number of an appending run.
_GENERATIONS = f"{META_DIR}/generations/"
#: Holds the input of the finished runs whose rows are in the directory; see `mark_ended`.
ENDED = f"{META_DIR}/ended.json"

#: Holds the id of the run that wrote to the directory last.
RUNNING = f"{META_DIR}/running"
#: The folder beside the output in which what passes between rounds waits, a folder for each stage that has rounds.
ROUNDS = "rounds"
#: Where files are put that are of no finished split.
STRAYS = f"{META_DIR}/strays"

_OURS = re.compile(
    r".+-[0-9a-f]{12}(-g\d+)?(-\d{4,})?\.((jsonl|csv|tsv|tar)(\.(gz|bz2|zst|xz))?|parquet|chunks|vectors)"
    r"|(audio|manifest)_\d{15}\.(tar|json)"
    r"|tokens(-g\d+)?-\d{5,}\.(bin|idx|ds(\.(index|metadata|loss))?|((cu_seqlens|loss)\.)?npy|csv\.gz|mds|parquet)"
)
#: Folders that are files of one batch.
_OUR_FOLDER = re.compile(r".+-[0-9a-f]{12}(-\d{4,})?")
#: The number of an appending run in the name of a file; see `file_name`.
_GENERATION = re.compile(r"(?:-[0-9a-f]{12}-g(\d+)(?:-\d{4,})?|tokens-g(\d+)-\d{5,})\.[^/]*$")
_PART = re.compile(r"(@\d{5,}|\+\d+-[0-9a-f]{8})$")
#: Bytes of the hash of a path.
_HASH = 8
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


@dataclass(frozen=True)
class _OutputRecord:
    """What is known of the run that writes to a directory, or wrote to it last.

    Args:
        generation: number in the names of its files; 0 for none.
        alone: whether the directory was empty when the run began.
        finished: number of finished runs with rounds that it appends to.
        clears: its mode while files of earlier runs are still to be removed; empty afterwards.
        label: name of its rows, by which a later run replaces them; empty for none.
    """

    generation: int = 0
    alone: bool = False
    finished: int = 0
    clears: str = ""
    label: str = ""

    def write(self, directory: Directory) -> None:
        values = {name: value for name, value in asdict(self).items() if name not in ("clears", "label") or value}
        directory.write(_RECORD, orjson.dumps(values))


def prepare(directory: Directory, mode: Mode, resume: bool, label: str = "") -> int:
    """Make a directory ready to be written to, or refuse. It may be killed at any time, and be called again.

    ``error``: it must be empty. ``overwrite``: what an earlier run wrote is deleted. ``ignore``: files are
    written beside what is there, those of equal name are replaced. ``append``: all that is there stays, and new
    names differ from old ones. With ``resume`` what an earlier run wrote stays in any mode.

    Returns:
        The number in the names of the files of the run; 0 for none.

    Raises:
        DataError: the directory holds what may not be touched, or cannot be written.
    """
    existing = _look(directory)
    if JOURNAL in existing.records:
        finish_replacing(directory)
        existing = _look(directory)
    record = _read(directory)
    if record is None or not resume:
        _refuse(directory, mode, existing)
        record = replace(_begun(directory, mode, existing, record, bool(label)), label=label)
        record.write(directory)  # before anything is removed: no number may be used by two runs that finish
    if record.label:
        write_label(directory, RunLabel(record.generation, record.label))
    if record.clears:
        _clear(directory, record)
        record = replace(record, clears="")
        record.write(directory)
    else:
        directory.remove([name for name in existing.records if name.startswith(f"{TMP}/")])
    directory.create()
    return record.generation


def begin_beside(directory: Directory, mode: Mode) -> None:
    """Note that a run writes to a directory side by side with others, so that it removes nothing."""
    if _read(directory) is None:
        _OutputRecord(alone=mode != "ignore").write(directory)


def _begun(
    directory: Directory, mode: Mode, contents: _There, before: _OutputRecord | None, labelled: bool
) -> _OutputRecord:
    """Return the record of a new run; the files of a labelled one have a number in any case."""
    if mode != "append":
        return _OutputRecord(alone=mode != "ignore", clears=mode)
    named = [int(match[1] or match[2]) for match in map(_GENERATION.search, contents.outputs) if match]
    generation = max([before.generation if before else 0, *named]) + bool(before or contents.outputs or labelled)
    while not directory.create_file(f"{_GENERATIONS}{generation}"):
        generation += 1
    if before is None:  # counts all earlier runs as finished, so that their entries in an index are not replaced
        return _OutputRecord(generation, finished=generation, clears=mode)
    ended = FINISHED in contents.records and not before.clears
    return _OutputRecord(generation, finished=before.finished + ended, clears=mode)


def _clear(directory: Directory, record: _OutputRecord) -> None:
    """Remove what the mode of a new run does not leave."""
    contents = _look(directory)
    if record.clears == "overwrite":
        directory.remove(contents.ours)  # records say which files are ours, so they go last
    # What was removed on request stays away.
    kept = {_RECORD, *(name for name in contents.records if name.startswith(OPTOUTS))}
    if record.clears == "append":
        numbers = {name: name.removeprefix(_GENERATIONS) for name in contents.records if name.startswith(_GENERATIONS)}
        later = {name for name, number in numbers.items() if number.isdigit() and int(number) >= record.generation}
        rejected = {name for name in contents.records if name.startswith(_QUARANTINE)}  # their rows are nowhere else
        kept |= {ENDED, *later, *rejected}
        # What runs that died had still to replace, and what they had not replaced yet.
        remove_runs(directory, superseded(directory) - {record.generation})
    if record.clears in ("append", "ignore"):
        kept |= {name for name in contents.records if name.startswith((LABELS, LINEAGE))}
    directory.remove([name for name in contents.records if name not in kept])


def files_of_runs(directory: Directory, generations: Collection[int]) -> list[str]:
    """Return the names of the files that runs with these numbers wrote."""
    if not generations:
        return []
    return [
        name
        for name in directory.files()
        if (match := _GENERATION.search(name)) and int(match[1] or match[2]) in generations and _is_ours(name)
    ]


def remove_runs(directory: Directory, generations: Collection[int]) -> None:
    """Remove what labelled runs wrote, and then their labels; it may be killed at any time, and be called again."""
    if generations:
        ends = tuple(f"-g{generation}.jsonl" for generation in generations)
        rejected = [name for name in directory.files(_QUARANTINE.rstrip("/")) if name.endswith(ends)]
        begins = tuple(f"{LINEAGE}{lineage_mark(generation)}" for generation in generations)
        lineage = [name for name in directory.files(LINEAGE.rstrip("/")) if name.startswith(begins)]
        directory.remove([*files_of_runs(directory, generations), *rejected, *lineage])
        directory.remove([f"{LABELS}{generation}" for generation in generations])


def lineage_mark(generation: int) -> str:
    """Return what the names in `LINEAGE` begin with of the run with this number."""
    return f"g{generation}-"


def complete_label(directory: Directory) -> None:
    """Note that all rows of the present run are written, if it has a label: they count, and no others of the label.

    What is `superseded` from here on is removed by a later run if this one dies.
    """
    record = _read(directory) or _OutputRecord()
    if record.label:
        write_label(directory, RunLabel(record.generation, record.label, complete=True))


def label_of(directory: Directory) -> str:
    """Return the label of the run that writes to a directory, or wrote to it last; empty for none."""
    return (_read(directory) or _OutputRecord()).label


def check(directory: Directory, mode: Mode) -> None:
    """Refuse a directory that `prepare` would refuse; nothing is written.

    Raises:
        DataError: the directory holds what may not be touched.
    """
    _refuse(directory, mode, _look(directory))


def claim(directory: Directory, run: str) -> None:
    """Note in an output directory which run writes to it."""
    directory.write(RUNNING, run.encode())


def check_claim(directory: Directory, run: str, written: Iterable[str], generation: int = 0) -> None:
    """Check that a directory is still the output of this run.

    Args:
        written: addresses of the files that must be there.
        generation: the number in the names of the files of this run; 0 for none.

    Raises:
        DataError: it was deleted, or another run wrote to it.
    """
    running = directory.read(RUNNING)
    files = {directory.path(name) for name in directory.files()}
    if running is None or not files.issuperset(written):
        raise DataError(f"{directory.url!r} was deleted while the run wrote to it; run again")
    if running != run.encode():
        raise another_run(directory, generation)


def is_taken_over(directory: Directory, run: str) -> bool:
    """Whether another run has begun to write to the output directory of a run; False if that cannot be read."""
    with suppress(DataError):
        return directory.read(RUNNING) not in (None, run.encode())
    return False


def another_run(directory: Directory, generation: int) -> DataError:
    """Return the error for a directory to which another run wrote at the same time."""
    if directory.run:
        return DataError(
            f"another process goes on with this run, which writes to {directory.url!r}; let the other one end"
        )
    if generation:
        return DataError(
            f"another run wrote to {directory.url!r} at the same time, so its records are not those of this run; "
            f"delete the files of this run, which have '-g{generation}' in their names, and append again when the "
            "other run has ended"
        )
    return DataError(
        f"another run wrote to {directory.url!r} at the same time, so what is there may be of either; "
        "name another directory for one of them"
    )


@dataclass(frozen=True)
class EndedInput:
    """The input of finished runs whose rows are in a directory.

    Args:
        generation: number of the last of these runs.
        inputs: pipeline and input of that run, as `dcurate.io.input_manifest.InputManifest.digest` gives them.
        files: hashes of the paths of all input files of these runs.
    """

    generation: int
    inputs: str
    files: frozenset[bytes]


def mark_ended(directory: Directory, inputs: str, paths: Iterable[str]) -> None:
    """Note that the run that writes to a directory has finished.

    Args:
        inputs: pipeline and input of the run.
        paths: paths of the input files that it has read.
    """
    before = ended_input(directory)
    files = {path_hash(path) for path in paths} | (before.files if before else set())
    packed = base64.b64encode(b"".join(sorted(files))).decode()
    generation = (_read(directory) or _OutputRecord()).generation
    directory.write(ENDED, orjson.dumps({"generation": generation, "inputs": inputs, "files": packed}))


def ended_input(directory: Directory) -> EndedInput | None:
    """Return the input of the finished runs that a directory has rows of; None if no run has finished.

    Raises:
        DataError: the record of it is damaged.
    """
    data = directory.read(ENDED)
    if data is None:
        return None
    try:
        known = orjson.loads(data)
        packed = base64.b64decode(known["files"])
        files = frozenset(packed[at : at + _HASH] for at in range(0, len(packed), _HASH))
        return EndedInput(int(known["generation"]), str(known["inputs"]), files)
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{directory.path(ENDED)!r} is damaged; name another directory") from error


def is_prepared(directory: Directory) -> bool:
    """Whether a run has begun to write to a directory."""
    return _read(directory) is not None


def is_final(directory: Directory, mode: Mode) -> bool:
    """Whether the last run that wrote to a directory has finished, and appended or is appended to."""
    record, ended = _read(directory) or _OutputRecord(), ended_input(directory)
    adds = mode == "append" or record.generation > 0
    return adds and not record.clears and ended is not None and ended.generation == record.generation


def ended_runs(directory: Directory) -> list[str]:
    """Return the ids of the finished runs of an output with records for each run."""
    name = ENDED.removeprefix(META_DIR)
    return [path.split("/")[2] for path in directory.files(f"{META_DIR}/{RUNS}") if path.endswith(name)]


def path_hash(path: str) -> bytes:
    """Return a short hash of the path of an input file."""
    return hashlib.blake2b(path.encode(errors="surrogateescape"), digest_size=_HASH).digest()


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
    records = [name for name in files if name.startswith(f"{META_DIR}/") and name != LOCK]
    outputs = [name for name in files if not name.startswith((f"{META_DIR}/", "."))]
    completed = orjson.loads(directory.read(_COMPLETED) or b"[]") if _COMPLETED in records else []
    ours = [name for name in outputs if records and (_is_ours(name) or name in completed)]
    return _There(records, outputs, ours)


def _is_ours(name: str) -> bool:
    """Whether a name is one that writers give: of a file, or of a folder that a file of any name is in."""
    *folders, file = name.split("/")
    return bool(_OURS.fullmatch(file)) or any(map(_OUR_FOLDER.fullmatch, folders))


def _refuse(directory: Directory, mode: Mode, existing: _There) -> None:
    """Raise if the mode does not allow to begin in a directory with these files."""
    outputs, ours = existing.outputs, existing.ours
    foreign = sorted(set(outputs) - set(ours))
    if mode in ("error", "overwrite") and foreign:
        more = f" and {len(foreign) - 3} more" if len(foreign) > 3 else ""
        also = " or use mode='ignore' to write beside them" if mode == "error" else ""
        raise DataError(
            f"{directory.url!r} holds files that dcurate did not write: {listed(foreign[:3])}{more}; "
            f"name an empty directory{also}"
        )
    if mode == "error" and ours:
        ledger = any(name.startswith(_LEDGER) for name in existing.records)
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


def advice_to_begin_anew(appends: bool) -> str:
    """Return what to do if an earlier run cannot be resumed.

    Args:
        appends: whether rows of other runs may be in the output.
    """
    if appends:
        return (
            "run again without resume=True, and with mode='append' to add to the rows that are there or "
            "mode='overwrite' to replace them all"
        )
    return "start afresh with mode='overwrite'"


def is_added_to(directory: Directory, mode: Mode) -> bool:
    """Whether the run that writes to a directory, or one that goes on with it in this mode, adds to rows of others."""
    return mode == "append" or (_read(directory) or _OutputRecord()).generation > 0


def name_in_indexes(directory: Directory) -> str:
    """Return what distinguishes the present run from others that append: its label, or the number of those before.

    Empty for the first.
    """
    record = _read(directory) or _OutputRecord()
    if record.label:
        return f"-{folder_name(f'label={record.label}')}"
    return f"-{record.finished}" if record.finished else ""


def generation(directory: Directory) -> int:
    """The number in the names of the files of the run that writes to the directory; 0 for none.

    Raises:
        PipelineError: the directory was not prepared.
    """
    record = _read(directory)
    if record is None:
        raise PipelineError(f"{directory.url!r} was not made ready; call prepare(resume=False) of the writer first")
    return record.generation


def move_strays(directory: Directory, known: Iterable[str]) -> list[str]:
    """Move files to `STRAYS` that have names of ours and are in folders of known files; returns their names.

    Only where the run began in an empty directory: else they may be of another one.
    """
    if not (_read(directory) or _OutputRecord()).alone:
        return []
    folders: set[str] = set()

    def named() -> Iterator[str]:
        for name in known:
            folders.add(os.path.dirname(name))
            yield name

    names = NameSet.of(named())
    listed_names = directory.files()
    strays = [name for name in listed_names if name not in names and os.path.dirname(name) in folders]
    strays = [name for name in strays if _is_ours(name)]
    for name in strays:
        directory.write(f"{STRAYS}/{name}", directory.read(name) or b"")
        directory.remove([name])
    return strays


def _read(directory: Directory) -> _OutputRecord | None:
    """Return the record of the run that writes to a directory, or wrote to it last."""
    data = directory.read(_RECORD)
    if data is None:
        return None
    try:
        known = orjson.loads(data)
        return _OutputRecord(
            int(known["generation"]),
            bool(known.get("alone", False)),
            int(known.get("finished", 0)),
            str(known.get("clears", "")),
            str(known.get("label", "")),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{directory.path(_RECORD)!r} is damaged; name another directory") from error
