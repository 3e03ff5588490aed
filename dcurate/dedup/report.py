"""Measure duplication in a sample, and the accuracy of settings against all pairs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from dcurate.dedup.minhash import MinHash
from dcurate.dedup.near import Search, Verification
from dcurate.dedup.quality import BANDS, MARGIN, PairScores, score_pairs, share
from dcurate.dedup.sample import Removal, SimilaritySample, read_texts
from dcurate.dedup.shingles import Shingles
from dcurate.errors import PipelineError
from dcurate.io.files import as_list

_USUAL = MinHash().num_hashes

#: What is tried: numbers of hashes and what is done with candidates, the one to be preferred first. Fewer hashes than
#: the default are reported, but not preferred: more dissimilar pairs become candidates, and their number grows with the
#: square of the dataset, which a sample does not show.
TRIED: tuple[tuple[int, Verification], ...] = (
    (_USUAL, "exact"),
    (2 * _USUAL, "exact"),
    (4 * _USUAL, "exact"),
    (_USUAL // 2, "exact"),
    (_USUAL, "estimated"),
    (_USUAL, "none"),
)

#: Thresholds that are reported beside the one asked for.
THRESHOLDS = (0.7, 0.8, 0.9)

#: What a recommended setting reaches: of the duplicates; of those clearly above the threshold; of what it finds.
RECALL, RECALL_ABOVE, PRECISION = 0.95, 0.98, 0.995

#: Fewer duplicates than this measure nothing; then the chances that follow from bands and rows count.
ENOUGH = 100


@dataclass(frozen=True)
class Setting:
    """A setting with its results.

    Attributes:
        search: the setting.
        scores: what of the duplicates it found.
        candidates: pairs that it compared.
    """

    search: Search
    scores: PairScores
    candidates: int

    def expected(self, margin: float = 0.0) -> float:
        """The chance that a pair so far above the threshold is compared; it follows from bands and rows."""
        return float(self.search.bands.probability(min(self.search.threshold + margin, 1.0)))

    @property
    def measured(self) -> bool:
        """Whether there were enough duplicates to measure it."""
        return self.scores.duplicates >= ENOUGH

    @property
    def good(self) -> bool:
        """Whether the setting is accurate enough to recommend."""
        if not self.measured:
            likely = self.expected() >= RECALL and self.expected(MARGIN) >= RECALL_ABOVE
            return likely and self.search.verification == "exact"
        recall, above, precision = self.scores.recall, self.scores.recall_above, self.scores.precision
        return (recall or 0) >= RECALL and (above is None or above >= RECALL_ABOVE) and (precision or 0) >= PRECISION

    def to_dict(self) -> dict[str, Any]:
        """All figures as plain values."""
        minhash, scores = self.search.minhash, self.scores
        return {
            "num_hashes": minhash.num_hashes,
            "bands": self.search.bands.bands,
            "rows": self.search.bands.rows,
            "verification": self.search.verification,
            "precision": scores.precision,
            "recall": scores.recall,
            f"recall_above_{scores.threshold + MARGIN:.2f}": scores.recall_above,
            "expected_recall_at_threshold": self.expected(),
            "expected_recall_above": self.expected(MARGIN),
            "candidates": self.candidates,
            "by_similarity": [band._asdict() for band in scores.bands],
        }


@dataclass(frozen=True)
class DedupReport:
    """The result of `dedup_report`.

    Attributes:
        source: what was looked at.
        whole: whether the sample is all of it.
        unreadable: lines that could not be read.
        threshold: pairs that are at least so similar are duplicates.
        sample: the documents, and all pairs.
        removals: what would be removed at several thresholds.
        settings: what was tried.
        recommended: the first of them that finds enough; if none does, the one that finds most.
        seconds: how long it took.
    """

    source: str
    whole: bool
    unreadable: int
    threshold: float
    sample: SimilaritySample
    removals: tuple[Removal, ...]
    settings: tuple[Setting, ...]
    recommended: Setting
    seconds: float

    @property
    def copies(self) -> int:
        """Documents that have exactly the shingles of one before them."""
        return int(self.sample.copies.sum()) - len(self.sample.texts)

    @property
    def stage(self) -> str:
        """The stage that is recommended, as it is written in Python."""
        search, shingles = self.recommended.search, self.recommended.search.minhash.shingles
        settings = {
            "threshold": (f"{self.threshold!r}", "0.8"),
            "shingles": (f"Shingles({shingles.size}, {shingles.unit!r})", "Shingles(5, 'words')"),
            "num_hashes": (f"{search.minhash.num_hashes}", f"{_USUAL}"),
            "verification": (f"{search.verification!r}", "'exact'"),
        }
        unusual = [f"{name}={value}" for name, (value, usual) in settings.items() if value != usual]
        return f"FuzzyDuplicates({', '.join(unusual)})"

    def to_dict(self) -> dict[str, Any]:
        """All figures as plain values."""
        bands = self.settings[0].scores.bands
        return {
            "source": self.source,
            "documents": self.sample.documents,
            "whole": self.whole,
            "unreadable": self.unreadable,
            "without_words": self.sample.without_words,
            "copies": self.copies,
            "threshold": self.threshold,
            "pairs": [{"low": band.low, "high": band.high, "pairs": band.pairs} for band in bands],
            "removals": [_plain(removal, self.sample.documents) for removal in self.removals],
            "settings": [setting.to_dict() for setting in self.settings],
            "recommended": {
                **self.recommended.to_dict(),
                "measured": self.recommended.measured,
                "stage": self.stage,
            },
            "seconds": self.seconds,
        }

    def to_json(self, path: str | Path) -> None:
        """Write all figures into a file."""
        Path(path).write_bytes(orjson.dumps(self.to_dict(), option=orjson.OPT_INDENT_2))


def _plain(removal: Removal, documents: int) -> dict[str, Any]:
    return {
        "threshold": removal.threshold,
        "clustering": removal.clustering,
        "removed": removal.removed,
        "share": share(removal.removed, documents),
        "groups": removal.groups,
        "group_sizes": removal.sizes.tolist(),
        **asdict(removal.scores),
    }


def dedup_report(
    source: str | Sequence[str],
    *,
    text_field: str = "text",
    threshold: float = 0.8,
    shingles: Shingles | None = None,
    documents: int = 20_000,
) -> DedupReport:
    """Measure duplication in a sample, and the accuracy of several settings.

    All pairs of its documents that are similar are found, by an exhaustive search for exact Jaccard similarities; then
    what MinHash finds is held against them. It runs in this process, in memory: about ten times the size of the texts.

    A sample holds few of the duplicates of the whole: if one document in a hundred is drawn at random, one pair in ten
    thousand is. So give neighbours, such as whole files or all pages of some sites, and read the share that would be
    removed as that of the sample. What share of duplicates a setting finds does not depend on it.

    Args:
        source: files, directories or globs of JSONL or Parquet.
        text_field: the column with the text.
        threshold: documents are duplicates from this similarity of their shingles on.
        shingles: the features that are compared; five words by default.
        documents: number of documents to read from the start of the source.

    Raises:
        PipelineError: an invalid threshold or number, or files of both kinds.
        DataError: input that cannot be read, or no documents.

    Examples:
        >>> from dcurate.recipe import BUNDLED
        >>> report = dedup_report(str(BUNDLED / "sample"), documents=200)
        >>> report.sample.documents, report.stage
        (200, 'FuzzyDuplicates()')
    """
    if not BANDS[0] <= threshold < 1:
        raise PipelineError(f"threshold={threshold!r} must be at least {BANDS[0]} and below 1")
    if documents < 1:
        raise PipelineError(f"documents={documents!r} must be at least 1")
    begin = time.perf_counter()
    paths = as_list([source] if isinstance(source, str) else list(source))
    read = read_texts(paths, text_field, documents)
    sample = SimilaritySample.of(read.column, shingles or Shingles())
    settings = tuple(_tried(sample, threshold, shingles or Shingles()))
    exact = [setting for setting in settings if setting.search.verification == "exact"]
    most = max(exact, key=lambda setting: setting.scores.recall or setting.expected())
    thresholds = sorted({*THRESHOLDS, threshold})
    removals = {(level, how): sample.removal(level, how) for level in thresholds for how in ("connected", "star")}
    return DedupReport(
        source=", ".join(paths),
        whole=read.whole,
        unreadable=read.unreadable,
        threshold=threshold,
        sample=sample,
        removals=tuple(removals.values()),
        settings=settings,
        recommended=next((setting for setting in settings if setting.good), most),
        seconds=time.perf_counter() - begin,
    )


def _tried(sample: SimilaritySample, threshold: float, shingles: Shingles) -> Iterator[Setting]:
    """Yield the results of each setting on a sample."""
    signatures = {hashes: MinHash(shingles, hashes).signatures(sample.texts) for hashes in dict(TRIED)}
    for hashes, verification in TRIED:
        search = Search.at(threshold, MinHash(shingles, hashes), verification)
        pairs = search.pairs(sample.texts, signatures[hashes])
        yield Setting(search, score_pairs(pairs.left, pairs.right, sample.truth, threshold), pairs.candidates)
