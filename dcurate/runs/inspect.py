"""Sample the documents that a stage dropped."""

from __future__ import annotations

import hashlib
import heapq
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeAlias

import orjson

from dcurate.core.secrets import HidesSecrets
from dcurate.errors import PipelineError, listed, nearest
from dcurate.events import StageStats
from dcurate.frames.excerpts import excerpt, id_column
from dcurate.fs.stores import Directory, output_of
from dcurate.io.rejections import REASON, SCORE, STAGE
from dcurate.io.rows import Row, is_readable, rows_in
from dcurate.runs.documents import Document, Inspected
from dcurate.runs.load import RecordedRun, read_run

#: Limits of a sample: bytes of files to read; files with such documents; the first documents of each file; and how many
#: times the wanted number to find before reading ends.
MOST_BYTES, FILES, PER_FILE, PLENTY = 2**28, 10, 200, 10
#: Characters of a text that are shown of a document that is looked at.
SHOWN = 480

#: Says of the values of a row whether it is one that is asked for.
Wanted: TypeAlias = Callable[[Mapping[str, Any]], bool]


@dataclass(frozen=True)
class RunPlaces(HidesSecrets):
    """Where the documents of a run are stored.

    Args:
        output: the directory that it wrote to.
        rejected: where it kept what rules dropped; that of its report if None.
        groups: folders with groups of duplicates, besides those that its report names.
        storage_options: for fsspec.

    Examples:
        >>> RunPlaces("s3://bucket/out", rejected="s3://bucket/dropped", storage_options={"anon": True}).output
        's3://bucket/out'
    """

    output: str
    rejected: str | None = None
    groups: Sequence[str] = ()
    storage_options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.rejected is not None:
            vars(self)["rejected"] = os.fspath(self.rejected)
        vars(self).update(output=os.fspath(self.output), groups=tuple(map(os.fspath, self.groups)))

    def at(self, url: str) -> Directory:
        """A directory with these options."""
        return Directory(url, self.storage_options)

    def group_folders(self, stages: Iterable[Mapping[str, Any]]) -> list[str]:
        """The folders with groups of duplicates, each once: the given ones, and those that stages wrote.

        Args:
            stages: stages in the manifest of the run.
        """
        written = [str(stage["groups"]) for stage in stages if stage.get("groups")]
        return list({self.at(url).address: url for url in (*self.groups, *written)})

    @property
    def root(self) -> str:
        """The output directory, also where the folder of its records was named."""
        return output_of(self.output)


def inspect(
    output: str | RunPlaces,
    dropped_by: str,
    *,
    n: int = 10,
    reason: str | None = None,
    kept: int | None = None,
    seed: int = 0,
    find: str | None = None,
    text_field: str = "text",
) -> Inspected:
    """Documents that a stage dropped, drawn by hash, and some that the run kept, for contrast.

    They are read from where the run kept them (``rejected=``, or quarantine for those that a stage could not process);
    of a run that kept none the few examples in its report are shown. Reading ends when there are plenty to draw from,
    so it takes seconds however large the output is.

    Args:
        output: the directory that the run wrote to, or `RunPlaces`.
        dropped_by: name of the stage.
        n: the number of documents.
        reason: only those dropped for this reason.
        kept: the number of kept documents; half of ``n`` if None.
        seed: seed of the sample; the same seed draws the same documents.
        find: a regular expression; excerpts are cut around its first match.
        text_field: the column with the text.

    Raises:
        PipelineError: the run has no such stage, or it dropped nothing, or not for this reason.
        DataError: there is no report of a run, or files cannot be read.

    Examples:
        >>> import tempfile
        >>> import pandas as pd
        >>> from dcurate import DocumentBatch, InlineExecutor, JsonlWriter, Pipeline, ScoreFilter
        >>> from dcurate.text import WordCountFilter
        >>> rows = DocumentBatch(data=pd.DataFrame({"id": ["a", "b"], "text": ["one", "two words"]}))
        >>> folder = tempfile.TemporaryDirectory()
        >>> stages = [ScoreFilter(WordCountFilter(min_words=2)), JsonlWriter(folder.name)]
        >>> run = Pipeline("demo", stages=stages).run(InlineExecutor(), initial_tasks=[rows], observers=[])
        >>> inspect(folder.name, "word_count").rows
        1
        >>> folder.cleanup()
    """
    places = output if isinstance(output, RunPlaces) else RunPlaces(output)
    run = read_run(places.output, places.storage_options)
    stage = _stage(run, dropped_by, reason)
    show = _Show(text_field, _pattern(find), score_fields(run), evidence_columns(run))
    faulty = reason in stage.faulty if reason is not None else not stage.dropped
    folder = run.report.quarantine_path if faulty else places.rejected or run.report.rejected_path
    if folder is None:
        dropped, looked = _examples(stage, reason, n)
    else:
        draw = _Draw(places.at(folder), seed, n, f'"{STAGE}":{orjson.dumps(stage.name).decode()}'.encode())
        rows = draw.rows(lambda row: row.get(STAGE) == stage.name and reason in (None, row.get(REASON)))
        dropped = [show.document(row) for row in rows]
        looked = draw.description(dropped)
    wanted = (n + 1) // 2 if kept is None else kept
    kept_rows = _Draw(places.at(places.root), seed, wanted).rows(lambda row: STAGE not in row) if wanted else []
    return Inspected(
        stage=stage.name,
        rows=_rows(stage.faulty if faulty else stage.dropped, reason),
        rows_in=stage.rows_in,
        keeps=keeps_of(run, stage.name, reason or ""),
        dropped=tuple(replace(document, keeps=keeps_of(run, stage.name, document.reason)) for document in dropped),
        kept=tuple(map(show.document, kept_rows)),
        looked=looked,
    )


def keeps_of(run: RecordedRun, stage: str, reason: str = "") -> tuple[str, ...]:
    """The scores that a stage keeps, in words; those of the filter that is the reason, if it has several.

    It is empty where that is not known.
    """
    cuts = run.about.get("thresholds", {}).get(stage, {})
    filter_cuts = next(iter(cuts.values())) if len(cuts) == 1 else cuts.get(reason, ())
    return tuple(cut["keeps"] for cut in filter_cuts)


def _pattern(find: str | None) -> re.Pattern[str] | None:
    try:
        return None if find is None else re.compile(find)
    except re.error as error:
        raise PipelineError(f"find={find!r} is not a regular expression: {error}") from error


def _stage(run: RecordedRun, name: str, reason: str | None) -> StageStats:
    """Return the requested stage."""
    stages = {stage.name: stage for stage in run.report.stages}
    dropping = [stage.name for stage in stages.values() if stage.dropped or stage.faulty]
    if name not in dropping:
        problem = f"stage {name!r} dropped nothing" if name in stages else f"the run has no stage {name!r}"
        meant = "" if name in stages else nearest(name, stages)
        raise PipelineError(
            f"{problem}; documents were dropped by {listed(dropping) if dropping else 'no stage'}{meant}"
        )
    reasons = (*stages[name].dropped, *stages[name].faulty)
    if reason is not None and reason not in reasons:
        raise PipelineError(f"stage {name!r} dropped nothing for {reason!r}; its reasons: {listed(reasons)}")
    return stages[name]


def _rows(counts: Mapping[str, int], reason: str | None) -> int:
    return counts[reason] if reason is not None else sum(counts.values())


def score_fields(run: RecordedRun) -> list[str]:
    """Return the score columns of the stages, according to the report."""
    score_settings = (str(stage.get("settings", {}).get("score_field", "")) for stage in run.about.get("stages", ()))
    return [name for text in score_settings for name in re.findall(r"'([^']+)'", text)]


def evidence_columns(run: RecordedRun) -> dict[str, str]:
    """Return what the columns say that dropped rows get from the stages of a run, by their names."""
    stages = run.about.get("stages", ())
    return {column: words for stage in stages for column, words in stage.get("evidence", {}).items()}


def evidence_of(values: Mapping[str, Any], columns: Mapping[str, str]) -> dict[str, Any]:
    """Return what a row says of why it was dropped.

    Args:
        values: values of the row.
        columns: what `evidence_columns` returned.
    """
    return {words: values[name] for name, words in columns.items() if STAGE in values and values.get(name) is not None}


def _examples(stage: StageStats, reason: str | None, n: int) -> tuple[list[Document], str]:
    """Return the examples of documents that a stage dropped from the report, and a sentence about them."""
    documents = [
        Document(
            id=str(example.get("id", example.get("source", ""))),
            place=str(example.get("source", "")),
            excerpt=str(example.get("excerpt", "")),
            score=example.get("score"),
            stage=stage.name,
            reason=why,
        )
        for why, rows in stage.examples.items()
        for example in rows
        if reason in (None, why)
    ]
    return documents[:n], "examples from the report; to look at more, run with rejected= (dcurate run --rejected PATH)"


@dataclass(frozen=True)
class _Show:
    """Turns rows into documents for display."""

    text_field: str
    find: re.Pattern[str] | None = None
    score_fields: Sequence[str] = ()
    evidence: Mapping[str, str] = field(default_factory=dict)

    def document(self, row: Row) -> Document:
        values, place = row.values, f"{row.file}, row {row.number}"
        id_field = id_column(list(values))
        return Document(
            id=str(values[id_field]) if id_field else place,
            place=place,
            excerpt=self.excerpt(values),
            score=values.get(SCORE),
            stage=str(values.get(STAGE, "")),
            reason=str(values.get(REASON, "")),
            scores={name: values[name] for name in self.score_fields if values.get(name) is not None},
            evidence=evidence_of(values, self.evidence),
        )

    def excerpt(self, values: Mapping[str, Any]) -> str:
        """Return an excerpt of the text: around the search term, or its beginning."""
        texts = (value for name, value in values.items() if isinstance(value, str) and not name.startswith("_dcurate_"))
        text = values.get(self.text_field)
        text = text if isinstance(text, str) else max(texts, key=len, default="")
        match = self.find.search(text) if self.find else None
        if match is None:
            return excerpt(text, SHOWN)
        start = max(0, match.start() - SHOWN // 3)
        return ("… " if start else "") + excerpt(text[start:], SHOWN)


class _Draw:
    """Draws rows from the files of a directory by hash, and stops when there are plenty to draw from.

    Args:
        directory: with the files.
        seed: another draws other rows.
        count: the number of rows.
        mention: bytes that a line of JSON must hold to be looked at.
    """

    def __init__(self, directory: Directory, seed: int, count: int, mention: bytes = b"") -> None:
        self.directory, self.seed, self.count, self.mention = directory, seed, count, mention
        self.files = self.read = self.seen = 0

    def rows(self, wanted: Wanted) -> list[Row]:
        """The rows; the same ones as long as the files are the same."""
        files = {name: entry for name, entry in self.directory.files().items() if is_readable(name)}
        self.files = len(files)
        best: list[tuple[int, int, Row]] = []
        nbytes = hits = 0
        for name in sorted(files, key=self._place):
            if nbytes >= MOST_BYTES or (hits >= FILES and self.seen >= PLENTY * self.count):
                break
            before = self.seen
            self.read += 1
            nbytes += files[name].size
            for row in self._some(name, wanted):
                item = (-self._place(f"{name}\t{row.number}"), -self.seen, row)
                (heapq.heappush if len(best) < self.count else heapq.heappushpop)(best, item)
            hits += self.seen > before
        return [row for _, _, row in sorted(best, key=lambda item: (-item[0], -item[1]))]

    def _some(self, name: str, wanted: Wanted) -> Iterator[Row]:
        """The first of them in a file, so that several files are drawn from."""
        matches = (row for row in rows_in(self.directory, name, self.mention) if wanted(row.values))
        for row in islice(matches, max(self.count, PER_FILE)):
            self.seen += 1
            yield row

    def _place(self, words: str) -> int:
        key = f"{self.seed}\t{words}".encode(errors="surrogatepass")
        return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest())

    def description(self, drawn: Sequence[Document]) -> str:
        """Return a sentence about what was read."""
        return f"{len(drawn)} drawn from {self.seen:,} in {self.read:,} of {self.files:,} files of {self.directory.url}"
