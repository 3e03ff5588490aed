"""`way_back`: follow a document or a token over several runs to the file that it came from, and its place there."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias

from rich.console import Console, ConsoleOptions, RenderResult
from rich.jupyter import JupyterMixin
from rich.table import Table
from rich.text import Text

from dcurate.core.public import modules_of_subjects
from dcurate.errors import DataError, PipelineError
from dcurate.frames.excerpts import ID_COLUMNS
from dcurate.fs.stores import Directory
from dcurate.io.rows import Row, is_readable, line_bytes, rows_with
from dcurate.io.tracing import TracedPiece, TraceHook
from dcurate.runs.lineages.graph import lineage
from dcurate.runs.lineages.result import Lineage, LineageRun

#: What a row is looked for by: columns and values, the first that is there.
_Keys: TypeAlias = tuple[tuple[str | None, str], ...]
#: Columns that `dcurate.WarcReader` makes: the file, and the byte at which the record begins.
_FILE, _OFFSET = "source_id", "offset"


@dataclass(frozen=True)
class WayStep:
    """A place that a document has or had.

    Args:
        output: the output, or the input, that holds it; ``run`` is the run that wrote it, and ``pipeline`` its name.
        file: path of the file.
        row: number of the row in the file, from 0.
        start: first byte of it in the file, and ``stop`` one past its last; None where that is not known.
        tokens: its tokens, as shard, first token and one past the last.
        member: its name in an archive.
    """

    output: str
    file: str
    run: str = ""
    pipeline: str = ""
    row: int | None = None
    start: int | None = None
    stop: int | None = None
    tokens: str = ""
    member: str = ""

    @property
    def place(self) -> str:
        """The place in words."""
        bytes_ = "" if self.start is None else f"byte {self.start:,}" + (f" to {self.stop:,}" if self.stop else " on")
        row = "" if self.row is None else f"row {self.row:,} (counted from 0)"
        member = f"member {self.member!r}" if self.member else ""
        return ", ".join(filter(None, (self.file, self.tokens, member, row, bytes_)))


@dataclass(frozen=True)
class WayBack:
    """The way of one document.

    Args:
        id: of the document.
        steps: its places, from the output back.
        complete: whether the last of them is in a file that no run made.
        why: what ended the way; empty if nothing did.
    """

    id: str
    steps: tuple[WayStep, ...] = ()
    complete: bool = False
    why: str = ""


@dataclass(frozen=True)
class WaysBack(JupyterMixin):
    """The ways of several documents, to be printed.

    Attributes:
        ways: in the order in which they were asked for.

    Examples:
        >>> way = WayBack("a", (WayStep("in", "in/a.jsonl", row=3, start=40, stop=52),), complete=True)
        >>> WaysBack((way,)).ways[0].steps[-1].place
        'in/a.jsonl, row 3 (counted from 0), byte 40 to 52'
    """

    ways: tuple[WayBack, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        return asdict(self)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for way in self.ways:
            yield Text(way.id, "bold")
            table = Table.grid(padding=(0, 2))
            for step in way.steps:
                table.add_row(Text(step.pipeline or "source", "cyan"), Text(step.place, overflow="fold"))
            yield table
            if way.why:
                yield Text(way.why, "yellow", overflow="fold")


def way_back(
    output: str,
    ids: Sequence[str] = (),
    *,
    tokens: Sequence[str] = (),
    id_field: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> WaysBack:
    r"""Follow documents from an output over the runs that made it to the files that they came from.

    A document is found in the output of the run before by its id, and in a web archive by the columns ``source_id``
    and ``offset`` of `dcurate.WarcReader`, in other containers by the reference that `dcurate.media.MediaReader` gives.
    Files are read until it is found, a piece at a time.

    Args:
        output: the output directory of a run.
        ids: ids of documents, as text.
        tokens: places in shards, such as ``"tokens-00000:17"``, whose documents are followed as well.
        id_field: the column with ids; the first of ``id``, ``doc_id``, ``url`` and the like if None.
        storage_options: for fsspec.

    Raises:
        PipelineError: no id; no such place, or one that holds padding.
        DataError: no run left records of the output, or files cannot be read.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from dcurate import InlineExecutor, JsonlReader, JsonlWriter, Pipeline
        >>> folder = tempfile.TemporaryDirectory()
        >>> _ = Path(folder.name, "in.jsonl").write_text('{"id": "a"}\n{"id": "b"}\n')
        >>> stages = [JsonlReader(f"{folder.name}/in.jsonl"), JsonlWriter(f"{folder.name}/out")]
        >>> _ = Pipeline("copy", stages=stages).run(InlineExecutor(), observers=[])
        >>> [way] = way_back(f"{folder.name}/out", ["b"]).ways
        >>> way.steps[-1].row, way.steps[-1].start, way.steps[-1].stop
        (1, 12, 24)
        >>> folder.cleanup()
    """
    if not ids and not tokens:
        raise PipelineError("no document to follow; give an id, or the place of a token")
    options = storage_options or {}
    search = _WaySearch(lineage(output, storage_options=options, check=False), options, id_field)
    return WaysBack((*map(search.of_id, map(str, ids)), *map(search.of_token, tokens)))


@dataclass(frozen=True)
class _Sighting:
    """A document at a place: how it is looked for before that, in which file first, and where it said it was read."""

    step: WayStep
    keys: _Keys
    hint: str = ""
    origin: tuple[str, int, int | None, str] | None = None


@dataclass
class _WaySearch:
    graph: Lineage
    options: Mapping[str, Any]
    id_field: str | None

    def __post_init__(self) -> None:
        self.hooks: list[TraceHook] = [module.HOOK for module in modules_of_subjects("trace_hook")]

    def of_id(self, document_id: str) -> WayBack:
        """The way of a document."""
        first = _Sighting(WayStep("", ""), ((self.id_field, document_id),))
        return self._way(document_id, self._in_output(self.graph.output, first))

    def of_token(self, token: str) -> WayBack:
        """The way of the document of a token."""
        output = self.graph.output
        hook = next((hook for hook in self.hooks if hook.wrote(output, self.options)), None)
        if hook is None:
            raise PipelineError(f"{output!r} holds no tokens; name a folder that TokenWriter wrote")
        document_id = hook.document_at(output, token, self.options)
        pieces, _ = hook.pieces(output, [document_id], self.options)
        return self._way(document_id, self._in_output(output, self._of_piece(output, _holding(token, pieces))))

    def _way(self, document_id: str, here: _Sighting | None) -> WayBack:
        if here is None:
            return WayBack(document_id, why=f"no row of {self.graph.output!r} has this id; {self._by()}")
        steps, seen = [here.step], {here.step.output}
        while True:
            output = here.step.output
            runs = self.graph.makers(output)
            before = next(self._before(here, runs, seen), None)
            if before is None:
                return WayBack(document_id, tuple(steps), why=self._why(here, runs))
            steps.append(before.step)
            if not self.graph.makers(before.step.output):
                return WayBack(document_id, tuple(steps), complete=True)
            seen.add(before.step.output)
            here = before

    def _before(self, here: _Sighting, runs: Sequence[LineageRun], seen: set[str]) -> Iterator[_Sighting]:
        """The document in what the runs read that may have written it."""
        for run in runs:
            for read in run.reads:
                if read.role not in ("input", "table") or read.address in seen:
                    continue
                there = self._in_output(read.address, here) if read.made else self._in_source(run, read.address, here)
                if there is not None:
                    yield there

    def _in_output(self, output: str, wanted: _Sighting) -> _Sighting | None:
        """The document in the output of a run."""
        if wanted.step.output == output:  # of a token
            return wanted
        hook = next((hook for hook in self.hooks if hook.wrote(output, self.options)), None)
        if hook is not None:
            pieces, _ = hook.pieces(output, [value for _, value in wanted.keys], self.options)
            return self._of_piece(output, pieces[0]) if pieces else None
        directory = Directory(output, self.options)
        return self._in_files(output, directory, sorted(filter(is_readable, directory.files())), wanted)

    def _in_source(self, run: LineageRun, address: str, wanted: _Sighting) -> _Sighting | None:
        """The document in files that no run made."""
        folder = address.rstrip("/") + "/"
        files = [file.path for file in run.record.input_files(self.options)]
        files = [path for path in files if path == address or path.startswith(folder)]
        if wanted.origin is not None:
            name, start, stop, member = wanted.origin
            path = next((path for path in files if path == name or path.endswith(f"/{name}")), None)
            if path is not None:
                return _Sighting(WayStep(address, path, start=start, stop=stop, member=member), wanted.keys)
        directory = Directory(os.path.dirname(address) if files == [address] else address, self.options)
        below = directory.address.rstrip("/") + "/"
        names = [path.removeprefix(below) for path in files if path.startswith(below) and is_readable(path)]
        here = self._in_files(address, directory, names, wanted)
        if here is None or here.step.row is None:
            return here
        span = line_bytes(directory, here.step.file.removeprefix(below), here.step.row)
        return replace(here, step=replace(here.step, start=span[0], stop=span[1])) if span else here

    def _in_files(self, output: str, directory: Directory, names: Sequence[str], wanted: _Sighting) -> _Sighting | None:
        """The document in files of rows: first in the one that is known to have held it, then in the others."""
        first = [name for name in names if wanted.hint and f"/{name}".endswith(f"/{wanted.hint}")]
        for column, value in wanted.keys:
            for name in dict.fromkeys([*first, *names]):
                try:
                    row = next(rows_with(directory, name, column, {value}), None)
                except DataError:  # it was moved or changed since
                    continue
                if row is not None:
                    return self._of_row(output, directory, row, wanted)
        return None

    def _of_row(self, output: str, directory: Directory, row: Row, before: _Sighting) -> _Sighting:
        known = [(name, str(row.values[name])) for name in ID_COLUMNS if row.values.get(name) is not None]
        keys: _Keys = tuple(dict.fromkeys([before.keys[0], *known]))
        step = WayStep(output, directory.path(row.file), *self._writer(output), row=row.number)
        return _Sighting(step, keys, origin=_origin(row.values) or before.origin)

    def _of_piece(self, output: str, piece: TracedPiece) -> _Sighting:
        shard = piece.place.rpartition(":")[0]
        step = WayStep(output, f"{output.rstrip('/')}/{shard}", *self._writer(output), tokens=f"tokens {piece.place}")
        return _Sighting(step, ((None, piece.doc), (self.id_field, piece.doc)), piece.source.partition("@")[0])

    def _writer(self, output: str) -> tuple[str, str]:
        """The run that wrote an output, where it is one, and the name of its pipeline."""
        runs = self.graph.makers(output)
        return (runs[0].record.run if len(runs) == 1 else "", runs[0].record.pipeline) if runs else ("", "")

    def _by(self) -> str:
        return (
            f"ids were compared with the column {self.id_field!r}"
            if self.id_field
            else "name the column of ids with id_field="
        )

    def _why(self, here: _Sighting, runs: Sequence[LineageRun]) -> str:
        """A sentence on what ended the way."""
        reads = [read for run in runs for read in run.reads if read.role in ("input", "table")]
        places = ", ".join(sorted({repr(read.address) for read in reads}))
        values = ", ".join(dict.fromkeys(value for _, value in here.keys))
        names = [file.path for run in runs for file in run.record.input_files(self.options)]
        if here.origin is None and names and not any(map(is_readable, names)):
            return (
                f"the way ends here: files of {places} are found by the columns {_FILE!r} and {_OFFSET!r}, or by a "
                f"reference, and the rows of {here.step.output!r} do not have them; keep these columns"
            )
        return (
            f"the way ends here: no row of {places} has the id {values}; the ids were made by a later stage, their "
            "column was dropped, or the files have changed"
        )


def _holding(token: str, pieces: Sequence[TracedPiece]) -> TracedPiece:
    """The piece that a token is in."""
    shard, _, offset = token.rpartition(":")
    for piece in pieces:
        of, _, span = piece.place.rpartition(":")
        start, _, end = span.partition("-")
        if of == shard and int(start) <= int(offset) < int(end):
            return piece
    raise DataError(f"no table of spans has the document of token {token!r}; write the folder again")


def _origin(values: Mapping[str, Any]) -> tuple[str, int, int | None, str] | None:
    """Where a row says that it was read: file, first byte, one past the last, and member of an archive."""
    if isinstance(values.get(_FILE), str) and isinstance(values.get(_OFFSET), int):
        return values[_FILE], values[_OFFSET], None, ""
    for value in values.values():
        if isinstance(value, Mapping) and isinstance(value.get("path"), str) and isinstance(value.get("offset"), int):
            size = value.get("size")
            stop = value["offset"] + size if isinstance(size, int) else None
            return value["path"], value["offset"], stop, str(value.get("member") or "")
    return None
