"""Take out of the texts of a site what most of its pages repeat."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from dcurate.core.batch import BatchKey, FilePart
from dcurate.core.stage import BarrierStage, ProcessingStage, Spec, Stage
from dcurate.dedup.span_shuffle import CutSpans, SpanFinder, SpanWriter, at_least
from dcurate.dedup.spans import NORMAL_FORMS, UnitFinder
from dcurate.errors import DataError, PipelineError, nearest
from dcurate.frames.columns import numbers, table_of, values
from dcurate.frames.document import DocumentBatch
from dcurate.frames.text import text_column
from dcurate.fs.stores import Directory
from dcurate.kernels.repeated_lines import lines_that_go
from dcurate.kernels.stretches import LINES, stretches_of
from dcurate.kernels.units import SpanLimits, Spans
from dcurate.shuffle.keys import scale_keys
from dcurate.shuffle.ranges import FILE, ShuffleIndex
from dcurate.shuffle.spill import DOC_ID, SpilledRows, read_row_offsets
from dcurate.shuffle.writer import ShuffleWriter

#: Folder of the hashes of lines, below that of the round.
LINES_OF_SITES = "lines/"
_LINE, _CHECK, _PAGES, _ROW, _KEY = "line", "check", "pages", "row", "_dcurate_key"
#: Target bytes of hashes in one partition.
_BLOCK = 2**26
_WWW = "www."

Words = npt.NDArray[np.uint64]


@dataclass
class RemoveSiteBoilerplate(BarrierStage[DocumentBatch]):
    """Take lines out of texts that most pages of their site repeat: menus, notices, names of sections.

    Place it after an extractor, whichever it is, and after exact duplicates are removed. A line is *shared* if at
    least ``min_pages`` pages of its site have it, and at least ``min_fraction`` of all its pages. Of the shared lines
    of a text those go that form a run at its beginning or its end, and runs within it of at least ``min_chars``
    characters; so a short heading that all pages have, such as "Ingredients", stays where its text is. Code, tables
    and formulas are not taken apart: lines in fences of Markdown, lines that begin with ``|``, and indented ones stay.
    The heading of Markdown before the first line that stays does, too. A site is the host of an address, without
    ``www.``

    Lines are compared by 96-bit hashes, which are shuffled in ranges, so that memory grows neither with the dataset
    nor with the largest site. The result is the same for any number of workers and any cut of the files. What went is
    counted in the report, as lines and bytes; a text of which nothing is left is dropped, as ``nothing left``.

    Args:
        text_field: column with the texts; nulls stay null.
        url_field: column with the addresses; a page without one, or without a host in it, stays as it is.
        min_pages: least number of pages that share a line; a site with fewer is left alone.
        min_fraction: least part of the pages of the site that share it, 0 to 1.
        min_chars: number of characters from which on a run of shared lines goes that is within a text.
        normalize: what does not matter when lines are compared: see `SpanDuplicates`.
        name: name of the stage.

    Raises:
        PipelineError: a setting that is unknown, or out of range.

    Examples:
        >>> RemoveSiteBoilerplate(min_pages=20).inputs()
        ([], ['text', 'url'])
    """

    rounds: ClassVar[int] = 2

    text_field: str = "text"
    url_field: str = "url"
    min_pages: int = 10
    min_fraction: float = 0.8
    min_chars: int = 40
    normalize: Sequence[str] = ("case", "whitespace")
    name: str = "remove_site_boilerplate"

    def __post_init__(self) -> None:
        at_least(self.name, "min_pages", self.min_pages, 2)
        at_least(self.name, "min_chars", self.min_chars, 0)
        if isinstance(self.min_fraction, bool) or not 0 < self.min_fraction <= 1:
            raise PipelineError(f"{self.name}: min_fraction={self.min_fraction!r} must be above 0 and at most 1")
        if isinstance(self.normalize, str):
            raise PipelineError(f"{self.name}: normalize={self.normalize!r} must be a list, such as ['case']")
        self.normalize = tuple(self.normalize)
        for form in self.normalize:
            if form not in NORMAL_FORMS:
                raise PipelineError(f"{self.name}: unknown normalize {form!r}{nearest(str(form), NORMAL_FORMS)}")

    def inputs(self) -> Spec:
        return [], [self.text_field, self.url_field]

    def finder(self) -> UnitFinder:
        """Return the finder of the lines."""
        return UnitFinder("line", SpanLimits(1, 0, 0), tuple(sorted(set(self.normalize))))

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        return [
            SiteLineWriter(
                url,
                mode="overwrite",
                storage_options=dict(options),
                finder=self.finder(),
                text_field=self.text_field,
                url_field=self.url_field,
                name=f"{self.name}_to_disk",
            )
        ]

    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> list[Stage]:
        folder = Directory(url, options)
        spilled = SpilledRows.written(folder, splits)
        lines = ShuffleIndex.of(folder, spilled.sibling_files(LINES_OF_SITES))
        return [
            lines.reader(lines.partitions_for(_BLOCK), _LINE, f"{self.name}_lines"),
            CountPages(url, dict(options), self.min_pages, name=f"{self.name}_counts"),
            MarkSharedLines(spilled, self, name=f"{self.name}_marks"),
        ]


class SiteLines(NamedTuple):
    """The lines of texts, with keys that differ between sites; and the key of the site of each text, 0 for none."""

    lines: Spans
    texts: npt.NDArray[np.int64]
    sites: Words

    @classmethod
    def of(cls, table: Any, text_field: str, url_field: str, finder: SpanFinder) -> SiteLines:
        """Find the lines of the texts of a table.

        Raises:
            DataError: the column of addresses has other values than text.
        """
        lines = finder.spans(text_column(table, text_field))
        sites = _site_keys(values(table, url_field), url_field)
        texts = np.repeat(np.arange(len(sites)), np.diff(lines.bounds))
        return cls(lines._replace(keys=lines.keys ^ sites[texts]), texts, sites)


def _site_keys(urls: Sequence[Any], url_field: str) -> Words:
    """Return a hash of the site of each address; 0 for an address without a host."""
    keys: dict[str, int] = {"": 0}
    out = np.zeros(len(urls), np.uint64)
    for row, url in enumerate(urls):
        if url is None:
            continue
        if not isinstance(url, str):
            raise DataError(
                f"column {url_field!r} has {type(url).__name__} values, not addresses; choose another url_field"
            )
        site = site_of(url)
        if site not in keys:
            digest = hashlib.blake2b(site.encode("utf-8", "replace"), digest_size=8).digest()
            keys[site] = int.from_bytes(digest, "little")
        out[row] = keys[site]
    return out


def site_of(url: str) -> str:
    """Return the site of an address: its host, without ``www.``; empty if it has none.

    Examples:
        >>> [site_of(url) for url in ("https://WWW.Example.org:8080/a", "/a", "http://[1")]
        ['example.org', '', '']
    """
    try:
        return (urlsplit(url).hostname or "").removeprefix(_WWW)
    except ValueError:
        return ""


@dataclass
class SiteLineWriter(SpanWriter):
    """Writes rows, and beside them the different lines of each site with the number of its pages that have them.

    The key of the site itself counts its pages.
    """

    url_field: str = "url"
    name: str = "site_line_writer"

    def inputs(self) -> Spec:
        return [], [self.text_field, self.url_field]

    def _write(self, table: Any, key: BatchKey, folder: str) -> Iterator[FilePart]:
        yield self.rows(table, key)
        parts = SiteLines.of(table, self.text_field, self.url_field, self.finder)
        yield self.ranges(pages_with(parts), key, _LINE, LINES_OF_SITES)


def pages_with(parts: SiteLines) -> Any:
    """Return a table of the different lines of sites, with how many texts have each, and the first of these."""
    pages = np.flatnonzero((parts.sites != 0) & (np.diff(parts.lines.bounds) > 0))
    counted = parts.sites[parts.texts] != 0
    keys = np.concatenate([parts.lines.keys[counted], parts.sites[pages]])
    checks = np.concatenate([parts.lines.checks[counted], np.zeros(len(pages), np.uint32)])
    texts = np.concatenate([parts.texts[counted], pages])
    order = np.lexsort((texts, checks, keys))
    keys, checks, texts = keys[order], checks[order], texts[order]
    first = np.ones(len(keys), np.bool_)
    first[1:] = _differs(keys, checks)
    fresh = first.copy()
    fresh[1:] |= texts[1:] != texts[:-1]
    starts = np.flatnonzero(first)
    counts = np.add.reduceat(fresh.astype(np.int64), starts) if len(starts) else starts
    return table_of({_LINE: keys[starts], _CHECK: checks[starts], _PAGES: counts, _ROW: texts[starts].astype(np.int32)})


def _differs(keys: Words, checks: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
    """Return whether each line but the first is another than the one before it."""
    return np.asarray((keys[1:] != keys[:-1]) | (checks[1:] != checks[:-1]))


@dataclass
class CountPages(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Counts the pages with each line among those of one range.

    Args:
        url: folder of the round in which lines were written.
        min_pages: least number of pages of a line that is passed on.
    """

    url: str
    options: dict[str, Any] = field(default_factory=dict)
    min_pages: int = 2
    name: str = "count_pages"

    def settings(self) -> dict[str, Any]:
        return {"min_pages": self.min_pages}

    def process(self, task: DocumentBatch) -> DocumentBatch | None:
        table = task.to_arrow()
        keys, checks = numbers(table, _LINE), numbers(table, _CHECK)
        order = np.lexsort((checks, keys))
        keys, checks, pages = keys[order], checks[order], numbers(table, _PAGES)[order]
        starts = np.flatnonzero(np.concatenate([[True], _differs(keys, checks)]))
        sizes = np.diff(np.append(starts, len(keys)))
        totals = np.repeat(np.add.reduceat(pages, starts), sizes)
        many = totals >= self.min_pages
        if not many.any():
            return None
        row_offsets = read_row_offsets(self.url, self.options)
        documents = (row_offsets[numbers(table, FILE)] + numbers(table, _ROW))[order][many]
        marks = {
            _KEY: scale_keys(documents, int(row_offsets[-1])),
            _LINE: keys[many],
            _CHECK: checks[many],
            _PAGES: totals[many],
        }
        return task.with_data(table_of(marks))


@dataclass
class MarkSharedLines(BarrierStage[DocumentBatch]):
    """The last round: shuffles the counts of lines to the splits of their documents."""

    spilled: SpilledRows
    wanted: RemoveSiteBoilerplate
    name: str

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        name = f"{self.name}_to_disk"
        return [ShuffleWriter(url, mode="overwrite", storage_options=dict(options), by=_KEY, name=name)]

    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> list[Stage]:
        wanted = self.wanted
        marks = ShuffleIndex.written(Directory(url, options), splits).partitions(self.spilled.edges(), _KEY, self.name)
        cut = CutSharedLines(
            marks,
            self.spilled.documents,
            wanted.finder(),
            wanted.text_field,
            url_field=wanted.url_field,
            min_fraction=wanted.min_fraction,
            min_chars=wanted.min_chars,
            name=wanted.name,
        )
        return [self.spilled.reader(f"{wanted.name}_from_disk"), cut]


@dataclass
class CutSharedLines(CutSpans):
    """Cut shared lines out of texts, and drop texts of which nothing is left.

    Args:
        url_field, min_fraction, min_chars: settings of `RemoveSiteBoilerplate`.
    """

    url_field: str = field(default="url", kw_only=True)
    min_fraction: float = field(default=1.0, kw_only=True)
    min_chars: int = field(default=0, kw_only=True)
    name: str = "cut_shared_lines"

    def settings(self) -> dict[str, Any]:
        further = {"url_field": self.url_field, "min_fraction": self.min_fraction, "min_chars": self.min_chars}
        return {**super().settings(), **further}

    def process(self, task: DocumentBatch) -> DocumentBatch:
        rows = task.to_arrow()
        table = rows.drop_columns([DOC_ID])
        if not table.num_rows:
            return task.with_data(table)
        first = scale_keys(numbers(rows, DOC_ID)[:1], self.documents)
        marks = self.marks.read(self.marks.partition_with(int(first[0])))
        if not marks.num_rows:
            return task.with_data(table)
        parts = SiteLines.of(table, self.text_field, self.url_field, self.finder)
        counts = _PageCounts.of(marks)
        with_line = counts.pages(parts.lines.keys, parts.lines.checks)
        of_site = counts.pages(parts.sites, np.zeros(len(parts.sites), np.uint32))[parts.texts]
        known = (parts.sites[parts.texts] != 0) & (with_line > 0)
        shared = known & (with_line / np.maximum(of_site, 1) >= self.min_fraction)
        column = text_column(table, self.text_field)
        gone = lines_that_go(*column, parts.lines, shared, self.min_chars)
        if not gone.any():
            return task.with_data(table)
        cut = stretches_of(*column, parts.lines, gone, LINES)
        left = self._left(task, table, column, cut)
        return replace(left, found={"lines": int(gone.sum()), "bytes cut": int((cut.stops - cut.starts).sum())})


class _PageCounts(NamedTuple):
    """Numbers of pages by line, in the order of the keys."""

    keys: Words
    checks: npt.NDArray[np.uint32]
    counts: npt.NDArray[np.int64]

    @classmethod
    def of(cls, marks: Any) -> _PageCounts:
        keys, first = np.unique(numbers(marks, _LINE), return_index=True)
        return cls(keys, numbers(marks, _CHECK)[first], numbers(marks, _PAGES)[first])

    def pages(self, keys: Words, checks: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
        """Return the number of pages with each line; 0 for lines that are not listed."""
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        same = (self.keys[at] == keys) & (self.checks[at] == checks)
        return np.asarray(np.where(same, self.counts[at], 0))
