"""Trace single documents through a run: kept, dropped, quarantined, or a duplicate of another."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fsspec.core import has_magic

from dcurate.core.public import modules_of_subjects
from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames.excerpts import ID_COLUMNS, excerpt
from dcurate.fs.stores import Directory
from dcurate.io.optouts import REASON as REMOVED
from dcurate.io.receipts import receipts
from dcurate.io.rejections import DUPLICATE_OF, REASON, SCORE, STAGE
from dcurate.io.rows import Row, is_readable, rows_with
from dcurate.io.tracing import TracedPiece, TraceHook
from dcurate.runs.documents import Fate, Traced
from dcurate.runs.inspect import RunPlaces, evidence_columns, evidence_of, keeps_of
from dcurate.runs.load import RecordedRun, read_run

#: Columns of groups of duplicates, see `dcurate.FuzzyDuplicates`.
_KEPT_ID, _SIMILARITY, _KEPT = "kept_id", "similarity", "kept"
#: The same of `dcurate.SemanticDuplicates`.
_MAX_ID, _COSINE, _DUPLICATE = "max_id", "cosine_sim_score", "is_duplicate"
_ERROR = ("_dcurate_error", "error")
#: What the name of a split has after that of its file, for a part of the file.
_PART = re.compile(r"@\d{5,}$")


def trace(
    output: str | RunPlaces, ids: Sequence[str] = (), *, id_field: str | None = None, tokens: Sequence[str] = ()
) -> Traced:
    """Return the fate of documents at each stage of a run.

    Quarantine, the rejected documents, groups of duplicates and the output are searched, in this order, each file once
    for all ids and a piece at a time: of Parquet the column of ids alone, of JSON the lines that mention an id.

    Args:
        output: the directory that the run wrote to, or `RunPlaces`.
        ids: ids of the documents, as text; or one.
        id_field: the column with ids; the first of ``id``, ``doc_id``, ``url`` and the like if None.
        tokens: places in shards that `dcurate.TokenWriter` wrote, such as ``"tokens-00000:17"``, whose documents are
            traced as well.

    Raises:
        PipelineError: no id; no such place, or one that holds padding.
        DataError: files cannot be read, or there is nothing at the address.

    Examples:
        >>> import tempfile
        >>> import pandas as pd
        >>> from dcurate import DocumentBatch, InlineExecutor, JsonlWriter, Pipeline, ScoreFilter
        >>> from dcurate.text import WordCountFilter
        >>> rows = DocumentBatch(data=pd.DataFrame({"id": ["a", "b"], "text": ["one", "two words"]}))
        >>> folder = tempfile.TemporaryDirectory()
        >>> stages = [ScoreFilter(WordCountFilter(min_words=2)), JsonlWriter(folder.name)]
        >>> run = Pipeline("demo", stages=stages).run(InlineExecutor(), initial_tasks=[rows], observers=[])
        >>> trace(folder.name, ["b"]).fates[0].outcome
        'kept'
        >>> folder.cleanup()
    """
    ids, tokens = ([given] if isinstance(given, str) else given for given in (ids, tokens))
    if not ids and not tokens:
        raise PipelineError("no id to look for; give at least one")
    places = output if isinstance(output, RunPlaces) else RunPlaces(output)
    hooks: list[TraceHook] = [module.HOOK for module in modules_of_subjects("trace_hook")]
    wanted = [*map(str, ids), *(_document_at(places, hooks, token) for token in tokens)]
    search = _Search(places, _recorded(places), id_field, dict.fromkeys(wanted), hooks)
    return search.result()


def _document_at(places: RunPlaces, hooks: Sequence[TraceHook], token: str) -> str:
    wrote = (hook for hook in hooks if hook.wrote(places.root, places.storage_options))
    return next(wrote, hooks[0]).document_at(places.root, token, places.storage_options)


def _recorded(places: RunPlaces) -> RecordedRun | None:
    """Return the records of the run; None if there are files but no report yet."""
    try:
        return read_run(places.output, places.storage_options)
    except DataError:
        if not places.at(places.root).files(own=True):
            raise
        return None


@dataclass
class _Search:
    """A search for the fates of documents."""

    places: RunPlaces
    run: RecordedRun | None
    id_field: str | None
    ids: Mapping[str, None]
    hooks: Sequence[TraceHook]
    fates: dict[str, Fate] = field(default_factory=dict)
    looked: list[str] = field(default_factory=list)

    def result(self) -> Traced:
        """All of it."""
        root = self.places.root
        self._look(f"{self.places.at(root).records}/quarantine", self._quarantined)
        rejected = self.places.rejected or (self.run.report.rejected_path if self.run else None)
        if rejected is not None:
            self._look(rejected, self._dropped)
        else:
            self.looked.append("no rejected documents, which the run did not keep (run with rejected=)")
        for groups in self.places.group_folders(self.run.about.get("stages", ()) if self.run else ()):
            self._look(groups, self._duplicate, everyone=True)
        for hook in self.hooks:
            self._look_at_pieces(root, hook)
        self._look(root, self._kept)
        for folder in [root, *([] if rejected is None else [rejected])]:
            self._look_at_removals(folder)
        self._look_at_examples()
        fates = tuple(self.fates.get(document_id) or Fate(document_id, "not found") for document_id in self.ids)
        return Traced(fates, tuple(self.looked), self._compared())

    def _compared(self) -> str:
        """Say which column was searched."""
        if self.id_field is not None:
            return f"ids were compared with the column {self.id_field!r}"
        return (
            f"ids were compared with one column of each file, the first of {listed(ID_COLUMNS)}; name another with "
            "--id-field COLUMN, in Python id_field="
        )

    def _look(self, url: str, take: Callable[[Directory, Row], None], everyone: bool = False) -> None:
        """Collect all rows with a wanted id."""
        directory = self.places.at(url)
        names = [name for name in directory.files() if is_readable(name)]
        untraced = {document_id: None for document_id in self.ids if document_id not in self.fates}
        wanted = self.ids if everyone else untraced
        if not wanted:
            return
        self.looked.append(f"{len(names):,} files of {url}")
        for name in names:
            for row in rows_with(directory, name, self.id_field, wanted):
                take(directory, row)
            if not everyone:
                wanted = {document_id: None for document_id in wanted if document_id not in self.fates}
            if not wanted:
                return

    def _id_of(self, row: Row) -> str:
        candidates = (str(row.values[name]) for name in self._columns(row) if name in row.values)
        return next((value for value in candidates if value in self.ids), "")

    def _columns(self, row: Row) -> Sequence[str]:
        return [self.id_field] if self.id_field is not None else list(row.values)

    def _taken_out(self, directory: Directory, row: Row, outcome: str) -> Fate:
        values = row.values
        stage = str(values.get(STAGE, ""))
        return Fate(
            id=self._id_of(row),
            outcome=outcome,
            place=_place(directory, row),
            stage=stage,
            reason=str(values.get(REASON, "")),
            passed=self._before(stage),
            score=values.get(SCORE),
            keeps=keeps_of(self.run, stage, str(values.get(REASON, ""))) if self.run else (),
            evidence=evidence_of(values, evidence_columns(self.run)) if self.run else {},
            error=next((str(values[name]) for name in _ERROR if values.get(name)), ""),
            duplicate_of=str(values.get(DUPLICATE_OF) or ""),
            excerpt=_excerpt(values),
        )

    def _dropped(self, directory: Directory, row: Row) -> None:
        fate = self._taken_out(directory, row, "dropped")
        self.fates.setdefault(fate.id, fate)

    def _quarantined(self, directory: Directory, row: Row) -> None:
        fate = self._taken_out(directory, row, "quarantined")
        self.fates.setdefault(fate.id, fate)

    def _kept(self, directory: Directory, row: Row) -> None:
        if STAGE in row.values:
            return  # rejected rows may be kept in a folder of the output
        document_id = self._id_of(row)
        passed = tuple(stage.name for stage in self.run.report.stages) if self.run else ()
        self.fates.setdefault(
            document_id, Fate(document_id, "kept", _place(directory, row), passed=passed, excerpt=_excerpt(row.values))
        )

    def _duplicate(self, directory: Directory, row: Row) -> None:
        """A member of a group of duplicates: the one that stays is known by itself."""
        values, document_id = row.values, self._id_of(row)
        kept = values.get(_KEPT_ID) if _KEPT_ID in values else values.get(_MAX_ID)
        stays = values.get(_KEPT) if _KEPT_ID in values else not values.get(_DUPLICATE)
        if kept is None or stays or str(kept) == document_id:
            return
        before = self.fates.get(document_id) or Fate(document_id, "duplicate", _place(directory, row))
        similarity = values.get(_SIMILARITY, values.get(_COSINE))
        known = similarity is not None and not math.isnan(similarity)
        self.fates[document_id] = replace(before, duplicate_of=str(kept), similarity=similarity if known else None)

    def _look_at_removals(self, url: str) -> None:
        """Search the receipts of documents that were removed by request."""
        for receipt in receipts(self.places.at(url)):
            why = f", {receipt['why']}" if receipt["why"] else ""
            for match in receipt["removed"]:
                document_id = str(match["id"])
                if document_id in self.ids:
                    place = f"{match['file']}, row {match['row']} (counted from 0), until then"
                    fate = Fate(document_id, REMOVED, place, removed=f"{receipt['when']}, by {match['by']}{why}")
                    self.fates.setdefault(document_id, fate)

    def _look_at_pieces(self, root: str, hook: TraceHook) -> None:
        """Search an output that does not hold rows, where a document may be several times."""
        all_pieces, looked = hook.pieces(root, self.ids, self.places.storage_options)
        pieces: dict[str, list[TracedPiece]] = {}
        for piece in all_pieces:
            pieces.setdefault(piece.doc, []).append(piece)
        passed = tuple(dict.fromkeys(self._passed(self.run))) if pieces else ()
        for document_id, of_document in pieces.items():
            first = of_document[0]
            place = self._in_input(document_id, first.source)
            place = place or f"{first.source}, row {first.row} (counted from 0)"
            at = tuple(piece.place for piece in of_document)
            self.fates.setdefault(document_id, Fate(document_id, "kept", place, passed=passed, tokens=at))
        self.looked += [looked] if looked else []

    def _in_input(self, document_id: str, split: str) -> str:
        """The place of a document in the file that it was read from; empty if that is not there any more."""
        name = _PART.sub("", split)
        for root in self._inputs(self.run):
            folder = str(root).rstrip("/").removesuffix(f"/{name}")
            if not is_readable(name) or has_magic(folder):
                continue
            directory = self.places.at(folder)
            try:
                row = next(rows_with(directory, name, self.id_field, {document_id: None}), None)
            except DataError:  # the input was moved or changed since
                continue
            if row is not None:
                return _place(directory, row)
        return ""

    def _inputs(self, run: RecordedRun | None) -> Iterator[str]:
        """The inputs of a run, and where they do not hold rows those of the runs that wrote them."""
        for root in map(str, run.about.get("inputs", ()) if run else ()):
            yield root
            earlier = self._earlier(root)
            if earlier is not None:
                yield from self._inputs(earlier)

    def _earlier(self, root: str) -> RecordedRun | None:
        """The run that wrote a folder without rows, such as one of tokens; None if there are rows, or no records."""
        try:
            options = self.places.storage_options
            without_rows = not has_magic(root) and any(hook.wrote(root, options) for hook in self.hooks)
            return read_run(root, options) if without_rows else None
        except DataError:
            return None

    def _passed(self, run: RecordedRun | None) -> Iterator[str]:
        """The stages of a run, after those of the runs that wrote the folders without rows that it read."""
        for root in map(str, run.about.get("inputs", ()) if run else ()):
            yield from self._passed(self._earlier(root))
        yield from (stage.name for stage in run.report.stages) if run else ()

    def _look_at_examples(self) -> None:
        """Search the examples in the report, for runs that did not keep dropped documents."""
        if self.run is None:
            return
        for stage in self.run.report.stages:
            for reason, examples in stage.examples.items():
                for example in examples:
                    document_id = str(example.get("id", ""))
                    if document_id in self.ids and document_id not in self.fates:
                        self.fates[document_id] = Fate(
                            id=document_id,
                            outcome="dropped" if reason in stage.dropped else "quarantined",
                            place=f"the report in {self.run.address}",
                            stage=stage.name,
                            reason=reason,
                            passed=self._before(stage.name),
                            score=example.get("score"),
                            keeps=keeps_of(self.run, stage.name, reason),
                            excerpt=str(example.get("excerpt", "")),
                        )

    def _before(self, stage: str) -> tuple[str, ...]:
        """The stages that a document passed before one took it out."""
        names = [stats.name for stats in self.run.report.stages] if self.run else []
        return tuple(names[: names.index(stage)]) if stage in names else ()


def _place(directory: Directory, row: Row) -> str:
    return f"{directory.path(row.file)}, row {row.number} (counted from 0)"


def _excerpt(values: Mapping[str, Any]) -> str:
    text = values.get("text")
    return excerpt(text) if isinstance(text, str) else ""
