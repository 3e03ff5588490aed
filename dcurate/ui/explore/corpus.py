"""The documents of a finished run, to be searched, compared and marked."""

from __future__ import annotations

import itertools
import math
import os
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames.excerpts import excerpt
from dcurate.fs.locks import lock
from dcurate.fs.stores import Directory
from dcurate.io.document_index import DocumentIndex, DocumentIndexWriter
from dcurate.io.rejections import REASON, SCORE, STAGE
from dcurate.io.rows import is_readable, rows_in
from dcurate.runs.inspect import RunPlaces
from dcurate.runs.load import RecordedRun, read_run
from dcurate.ui.explore.facets import Facet, Facets
from dcurate.ui.explore.pictures import FilePictures

#: Documents of a page, documents that are read at most unless another number is given, and groups of a page.
PAGE, MOST, GROUPS = 25, 1_000_000, 50
#: Where the largest score is at least this and half are below a tenth of it, the scale of a histogram is logarithmic.
_WIDE = 100
#: Bars of a histogram.
BARS = 40
#: Characters of a document in a list, and of one that is shown whole.
SHOWN, WHOLE = 600, 200_000
#: Characters that are searched for at most.
LONGEST_WORDS = 500
#: The file of marks, among the records of the run.
MARKS = "marks.jsonl"
#: The marks that the page offers unless others are given, and characters of a mark.
BUTTONS = ("good", "bad", "look again")
LONGEST_MARK = 40
#: Groups of duplicates that are read at most.
_GROUPS = 200_000
#: The column of what rules made of the documents that they dropped; each has scores of its own kind.
_SCORE = "score"
_KEPT, _DROPPED, _QUARANTINED = "kept", "dropped", "quarantined"


class FateKind(NamedTuple):
    """What became of documents: kept, or dropped or quarantined by a stage for a reason."""

    outcome: str
    stage: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Query:
    """Which documents are asked for.

    Args:
        outcome, stage, reason: fate of the documents; any if empty.
        words: words that the id or the text contains.
        facets: values of columns of a few texts; a document without a value has an empty one.
        ranges: the lowest and the highest value of columns of numbers.
        sort: a column of numbers to sort by; the order of the files if empty.
        descending: the highest first.
    """

    outcome: str = ""
    stage: str = ""
    reason: str = ""
    words: str = ""
    ranges: tuple[tuple[str, float, float], ...] = ()
    facets: tuple[tuple[str, str], ...] = ()
    sort: str = ""
    descending: bool = False


class DocumentPlace(NamedTuple):
    """A document: its id, which others may have, too, and where it is."""

    id: str
    file: str
    row: int


@dataclass
class UserMarks:
    """Marks that people gave to documents, kept among the records of the run; several sessions may write them."""

    directory: Directory
    found: dict[DocumentPlace, dict[str, Any]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def load(self) -> None:
        """Read the marks of all sessions."""
        lines = (self.directory.read(MARKS) or b"").splitlines()
        marks = [mark for mark in map(orjson.loads, lines) if isinstance(mark, dict)]
        self.found = {
            DocumentPlace(str(mark.get("id")), str(mark.get("file")), mark.get("row", -1)): mark for mark in marks
        }

    def put(self, place: DocumentPlace, mark: str, note: str, fate: FateKind) -> None:
        """Mark a document; an empty mark takes it back.

        Raises:
            DataError: they cannot be written.
        """
        with self._lock, self._alone():
            self.load()  # another session may have marked documents since
            self.found.pop(place, None)
            if mark:
                self.found[place] = {**place._asdict(), "mark": mark, "note": note, **fate._asdict()}
            self.directory.write(MARKS, self.lines())

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other processes of this host from writing marks."""
        if not self.directory.local:
            yield
            return
        self.directory.create()
        folder = os.open(self.directory.address, os.O_RDONLY)
        try:
            with suppress(OSError):  # a file system without locks
                lock(folder)
            yield
        finally:
            os.close(folder)

    def lines(self) -> bytes:
        """Return the marks as JSON Lines."""
        return b"".join(orjson.dumps(mark) + b"\n" for mark in self.found.values())


class ExploredCorpus:
    """The documents that a run kept and dropped, in an index on the local disk.

    Args:
        places: where they are.
        run: its records.
        index: index of all documents.
        fates: the different ones, and for each document the number of its own.
        missing: what is not there, in sentences.
        facets: columns of a few texts.

    Attributes:
        buttons: the marks that the page offers.
    """

    def __init__(
        self,
        places: RunPlaces,
        run: RecordedRun,
        index: DocumentIndex,
        fates: tuple[Sequence[FateKind], npt.NDArray[np.int32]],
        missing: Sequence[str] = (),
        *,
        facets: Mapping[str, Facet] | None = None,
    ) -> None:
        self.places, self.index, self.run, self.missing = places, index, run, list(missing)
        self.fates, self._codes = fates
        self.facets = {name: (facet.values, facet.codes(len(index))) for name, facet in (facets or {}).items()}
        self.marks = UserMarks(Directory(places.at(places.root).records, places.storage_options))
        self.marks.load()
        self.buttons: Sequence[str] = BUTTONS
        self.numbers = {(_SCORE if name == SCORE else name): values for name, values in index.numbers.items()}
        self.pictures = FilePictures(run.about)
        self._matches = lru_cache(8)(_Matches)
        self._groups: list[dict[str, Any]] | None = None

    def summary(self) -> dict[str, Any]:
        """The run, the numbers of documents by fate, and a histogram of each column of numbers."""
        counts = np.bincount(self._codes, minlength=len(self.fates)).tolist()
        fates = [{**fate._asdict(), "documents": count} for fate, count in zip(self.fates, counts, strict=True)]
        return {
            "run": self.run.report.pipeline,
            "output": self.places.root,
            "documents": len(self.index),
            "fates": sorted(fates, key=lambda fate: (fate["outcome"] != _KEPT, -fate["documents"])),
            "columns": [self._column(name) for name in self.numbers if name != _SCORE],
            "facets": [self._facet(name) for name in self.facets],
            "rules": self._rules(),
            "groups": bool(self._group_folders()),
            "marks": list(self.buttons),
            "missing": self.missing,
        }

    def page(self, query: Query, page: int = 0) -> dict[str, Any]:
        """A page of the documents that a query asks for; ``total`` is None where the search has not seen all.

        Raises:
            PipelineError: the column does not exist, or the words are too long.
        """
        if len(query.words) > LONGEST_WORDS:  # longer ones may take the square of their length and that of the texts
            raise PipelineError(f"{len(query.words):,} characters are searched for; give at most {LONGEST_WORDS}")
        matches = self._matches(self, query)
        start = page * PAGE
        numbers = matches.first(start + PAGE + 1)
        return {
            "documents": [self.shown(number, words=query.words) for number in numbers[start : start + PAGE]],
            "more": len(numbers) > start + PAGE,
            "total": matches.total,
        }

    def shown(self, number: int, characters: int = SHOWN, words: str = "") -> dict[str, Any]:
        """A document as the page shows it: the beginning of its text, or what is around the words."""
        document = self.index.document(number)
        fate = self.fates[self._codes[number]]
        values = {name: value for name, value in document["values"].items() if not name.startswith("_dcurate_")}
        score = document["values"].get(SCORE)
        return {
            "n": number,
            "id": document["id"],
            **fate._asdict(),
            "place": f"{document['file']}, row {document['row']}",
            "score": score,
            "file": self.pictures.name(values),
            "numbers": {name: value for name, value in values.items() if isinstance(value, int | float)},
            "values": values if characters > SHOWN else {},
            "text": document["text"][:characters] if characters > SHOWN else _around(document["text"], words),
            "characters": len(document["text"]),
            "mark": self.marks.found.get(self._place(number), {}),
        }

    def whole(self, number: int) -> dict[str, Any]:
        """A document with all of its values, and its text up to 200,000 characters.

        Raises:
            PipelineError: there is none of this number.
        """
        if not 0 <= number < len(self.index):
            raise PipelineError(f"document {number} does not exist; there are {len(self.index):,}")
        return self.shown(number, WHOLE)

    def picture(self, number: int) -> str:
        """The picture of the file that a document refers to, as a ``data:`` address; empty if it cannot be drawn.

        Raises:
            PipelineError: no document has this number, or it refers to no file.
        """
        return self.pictures.picture(self.whole(number)["values"])

    def threshold(self, stage: str, column: str, low: float, high: float) -> dict[str, Any]:
        """What a rule would do with other thresholds, by the scores that are known; no text is read.

        Args:
            stage: the one that dropped documents by the rule.
            column: the column in which kept documents have the score; none if empty.
            low, high: scores to keep, both included.
        """
        dropped = self._mask(Query(_DROPPED, stage))
        scores = self.numbers.get(_SCORE, np.full(len(self.index), np.nan))
        back = dropped & (scores >= low) & (scores <= high)
        kept = self._mask(Query(_KEPT))
        known = self.numbers.get(column)
        gone = np.zeros_like(kept) if known is None else kept & ~((known >= low) & (known <= high)) & ~np.isnan(known)
        return {
            "kept": int(kept.sum()),
            "dropped": int(dropped.sum()),
            "unknown": int((dropped & np.isnan(scores)).sum()),
            "known_of_kept": known is not None,
            "back": int(back.sum()),
            "gone": int(gone.sum()),
            "examples_back": [self.shown(number) for number in np.flatnonzero(back)[:5].tolist()],
            "examples_gone": [self.shown(number) for number in np.flatnonzero(gone)[:5].tolist()],
        }

    def groups(self, page: int = 0) -> dict[str, Any]:
        """Groups of duplicates, the largest first."""
        groups = self._all_groups()
        some = groups[page * GROUPS : (page + 1) * GROUPS]
        return {"groups": some, "total": len(groups), "more": len(groups) > (page + 1) * GROUPS}

    def group(self, kept: str) -> dict[str, Any]:
        """The documents of a group of duplicates, side by side."""
        members: list[dict[str, Any]] = next(
            (group["members"] for group in self._all_groups() if group["kept"] == kept), []
        )
        numbers = [(member, self.index.number_of(member["id"])) for member in members[:PAGE]]
        return {
            "kept": kept,
            "documents": [
                {**member, **(self.shown(number, WHOLE) if number is not None else {"text": None})}
                for member, number in numbers
            ],
        }

    def mark(self, number: int, mark: str, note: str) -> dict[str, Any]:
        """Mark a document, and keep the mark among the records of the run.

        Raises:
            PipelineError: the document does not exist.
            DataError: the mark cannot be written.
        """
        self.whole(number)
        place = self._place(number)
        self.marks.put(place, mark[:LONGEST_MARK], note[:2000], self.fates[self._codes[number]])
        return self.marks.found.get(place, {})

    def marked(self) -> Iterator[tuple[dict[str, Any], str]]:
        """Yield each marked document that is here, as `DocumentIndex.document` gives it, and its mark."""
        numbers: dict[tuple[str, int], list[int]] = {}
        for number, file_and_row in enumerate(self.index.places):
            numbers.setdefault(file_and_row, []).append(number)
        for place, mark in self.marks.found.items():
            documents = map(self.index.document, numbers.get((place.file, place.row), ()))
            for document in documents:
                if document["id"] == place.id:
                    yield document, mark["mark"]
                    break

    def _place(self, number: int) -> DocumentPlace:
        document = self.index.document(number)
        return DocumentPlace(document["id"], document["file"], document["row"])

    def _mask(self, query: Query) -> npt.NDArray[np.bool_]:
        """The documents that a query asks for, but for its words."""
        fits = [
            query.outcome in ("", fate.outcome)
            and query.stage in ("", fate.stage)
            and query.reason in ("", fate.reason)
            for fate in self.fates
        ]
        mask = np.array(fits, np.bool_)[self._codes] if fits else np.zeros(0, np.bool_)
        for name, low, high in query.ranges:
            mask &= (self._numbers(name) >= low) & (self._numbers(name) <= high)
        for name, value in query.facets:
            if name not in self.facets:
                raise PipelineError(f"no column {name!r} of a few texts, but {listed(self.facets) or 'none'}")
            values, codes = self.facets[name]
            mask &= codes == values.get(value, -1)
        return mask

    def _facet(self, name: str) -> dict[str, Any]:
        """The values of a column of a few texts, the most frequent first, with how many documents were kept of them."""
        values, codes = self.facets[name]
        kept = np.bincount(codes[self._mask(Query(_KEPT))], minlength=len(values))
        all_of_it = np.bincount(codes, minlength=len(values))
        counts = [
            {"value": value, "documents": int(all_of_it[code]), "kept": int(kept[code])}
            for value, code in values.items()
            if all_of_it[code]
        ]
        return {"name": name, "values": sorted(counts, key=lambda count: (-count["documents"], count["value"]))}

    def _numbers(self, name: str) -> npt.NDArray[np.float64]:
        if name not in self.numbers:
            raise PipelineError(f"no column {name!r} of numbers, but {listed(self.numbers) or 'none'}")
        return self.numbers[name]

    def _column(self, name: str) -> dict[str, Any]:
        values = self.numbers[name]
        present = ~np.isnan(values)
        kept = self._mask(Query(_KEPT)) & present
        low, high = (float(values[present].min()), float(values[present].max())) if present.any() else (0.0, 0.0)
        wide = low >= 0 and high >= _WIDE and float(np.median(values[present])) < high / 10
        bins = np.linspace(low, high if high > low else low + 1, BARS + 1)
        if wide:
            bins = np.expm1(np.linspace(np.log1p(low), np.log1p(high), BARS + 1))
            bins[[0, -1]] = low, high
        return {
            "name": name,
            "low": low,
            "high": high,
            "wide": wide,
            "kept": np.histogram(values[kept], bins)[0].tolist(),
            "dropped": np.histogram(values[present & ~kept], bins)[0].tolist(),
        }

    def _rules(self) -> list[dict[str, Any]]:
        """The rules with thresholds, and the column in which documents that were kept have the score."""
        return [
            {
                "stage": stage,
                "rule": rule,
                "column": self._score_column(stage, rule),
                "keeps": [cut["keeps"] for cut in cuts],
            }
            for stage, rules in self.run.about.get("thresholds", {}).items()
            for rule, cuts in rules.items()
        ]

    def _score_column(self, stage: str, rule: str) -> str:
        """The column with the scores of a rule: the ``score_field`` of its stage, or one that `Annotate` added."""
        settings = (
            stage_record.get("settings", {})
            for stage_record in self.run.about.get("stages", ())
            if stage_record.get("name") == stage
        )
        fields = [name.strip("'") for options in settings for name in (str(options.get("score_field", "")),)]
        names = [*fields, rule, *(name for name in self.numbers if name.endswith(f"_{rule}"))]
        return next((name for name in names if name in self.numbers), "")

    def _group_folders(self) -> list[str]:
        return self.places.group_folders(self.run.about.get("stages", ()))

    def _all_groups(self) -> list[dict[str, Any]]:
        if self._groups is None:
            self._groups = sorted(
                _groups_of(self.places, self._group_folders()),
                key=lambda group: (-len(group["members"]), group["kept"]),
            )
        return self._groups


class _Matches:
    """The documents that a query asks for, found as far as they were asked for."""

    def __init__(self, corpus: ExploredCorpus, query: Query) -> None:
        numbers = np.flatnonzero(corpus._mask(query))
        if query.sort:
            values = corpus._numbers(query.sort)[numbers]
            order = np.argsort(-values if query.descending else values, kind="stable")
            numbers = numbers[order]
        self.total: int | None = None if query.words else len(numbers)
        self._found: list[int] = []
        self._rest: Iterator[int] = iter(numbers.tolist())
        self._lock = threading.Lock()
        if query.words and query.sort:
            held = set(corpus.index.find(query.words, np.sort(numbers)))
            self._rest, self.total = (number for number in numbers.tolist() if number in held), len(held)
        elif query.words:
            self._rest = corpus.index.find(query.words, numbers)

    def first(self, count: int) -> list[int]:
        """The first of them."""
        with self._lock:
            self._found += itertools.islice(self._rest, max(0, count - len(self._found)))
            if len(self._found) < count and self.total is None:
                self.total = len(self._found)
            return self._found[:count]


def _around(text: str, words: str) -> str:
    at = text.lower().find(words.lower()) if words else 0
    start = max(0, at - SHOWN // 3)
    return ("… " if start else "") + excerpt(text[start:], SHOWN)


def _groups_of(places: RunPlaces, folders: Sequence[str]) -> Iterator[dict[str, Any]]:
    members: dict[str, list[dict[str, Any]]] = {}
    count = 0
    for folder in folders:
        directory = places.at(folder)
        for name in filter(is_readable, sorted(directory.files())):
            for row in rows_in(directory, name):
                values = row.values
                kept, document_id = values.get("kept_id"), values.get("id")
                if kept is None or document_id is None or count >= _GROUPS:
                    continue
                count += 1
                similarity = values.get("similarity")
                known = isinstance(similarity, float) and not math.isnan(similarity)
                member = {
                    "id": str(document_id),
                    "stays": str(document_id) == str(kept),
                    "similarity": similarity if known else None,
                }
                members.setdefault(str(kept), []).append(member)
    return (
        {"kept": kept, "members": group_members} for kept, group_members in members.items() if len(group_members) > 1
    )


def load_corpus(
    places: RunPlaces,
    folder: Path,
    *,
    text_field: str = "text",
    most: int = MOST,
    progress: Callable[[int], None] | None = None,
) -> ExploredCorpus:
    """Read the documents of a finished run into an index.

    Args:
        places: places of the run.
        folder: for the index, on a local disk with enough space for the documents.
        text_field: the column with the text.
        most: the largest number of documents; half of them kept ones, where there are more.
        progress: called now and then with the number of documents read.

    Raises:
        DataError: there is no report of a run, or files cannot be read.
    """
    run = read_run(places.output, places.storage_options)
    writer = DocumentIndexWriter(folder / "documents.arrow", text_field)
    reader = _CorpusReader(writer, most, progress, Facets(text_field))
    rejected = places.rejected or run.report.rejected_path
    missing = [] if rejected else ["the run did not keep dropped documents; run it with --rejected PATH to see them"]
    quarantine = f"{places.at(places.root).records}/quarantine"
    dropping = [(rejected, _DROPPED)] if rejected else []
    for url, outcome in (*dropping, (quarantine, _QUARANTINED)):
        reader.read(places.at(url), outcome, most // 2)
    reader.read(places.at(places.root), _KEPT, most - len(writer))
    missing += reader.left_out
    if not len(writer):
        raise DataError(f"{places.root!r} holds no documents as JSON Lines or Parquet; name the output of a run")
    fates = (list(reader.fates), np.array(reader.codes, np.int32))
    facets = reader.facets.chosen(len(reader.codes))
    return ExploredCorpus(places, run, writer.finish(), fates, missing, facets=facets)


class _CorpusReader:
    def __init__(
        self, writer: DocumentIndexWriter, most: int, progress: Callable[[int], None] | None, facets: Facets
    ) -> None:
        self.writer, self.most, self.progress, self.facets = writer, most, progress, facets
        self.fates: dict[FateKind, int] = {}
        self.codes = array("i")
        self.left_out: list[str] = []
        self._said = time.monotonic()

    def read(self, directory: Directory, outcome: str, most: int) -> None:
        """Read the documents of a folder, up to a number."""
        names = sorted(filter(is_readable, directory.files()))
        rows = itertools.chain.from_iterable(rows_in(directory, name) for name in names)
        before = len(self.codes)
        for row in rows:
            if len(self.codes) - before >= most:
                self.left_out.append(f"only the first {most:,} {outcome} documents are here; see --most")
                return
            self.facets.add(len(self.codes), row.values)
            self.codes.append(self.fates.setdefault(_fate(row.values, outcome), len(self.fates)))
            self.writer.add(row)
            if self.progress is not None and time.monotonic() - self._said > 0.5:
                self._said = time.monotonic()
                self.progress(len(self.writer))


def _fate(values: Mapping[str, Any], outcome: str) -> FateKind:
    if outcome == _KEPT:
        return FateKind(_KEPT)
    return FateKind(outcome, str(values.get(STAGE, "")), str(values.get(REASON, "")))
