"""What is known of corpora: counts over their files, and the records of their runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import orjson

from dcurate.errors import DataError, DcurateError
from dcurate.fs.stores import Directory, output_of
from dcurate.io.corpus_counts import CorpusCounter, CorpusCounts, MediaCounts, check_columns
from dcurate.io.warc_info import crawl_descriptions
from dcurate.runs.load import RecordedRun, read_run
from dcurate.runs.summary.stages import generated_by

#: What a folder of tokens says of itself.
_TOKENS = "tokens.json"
#: Web archives of a run whose descriptions are read.
ARCHIVES = 1000
_SUMS = ("files", "file_bytes", "bytes_read", "text_rows", "text_bytes", "sizes", "tokens", "counted")
_MORE_SUMS = ("uncounted_bytes", "url_rows", "invalid_urls", "dated", "synthetic", "generated")


@dataclass(frozen=True)
class TokenCounts:
    """Counts of a folder of tokens: tokens without padding, and documents."""

    tokens: int
    documents: int
    tokenizer: str = ""


@dataclass
class SummedCorpus:
    """An output that is summed up.

    Attributes:
        address: where it is.
        counts: counts over its files.
        tokens: of a folder of tokens, what it says.
        run: the record of its run; None if there is none.
        removed: counts over what the run removed, if they were asked for.
        archives: fields of the descriptions of the web archives that the run read, and how many archives had which.
        unreachable: why these cannot be read, in words; empty if they were.
    """

    address: str
    counts: CorpusCounts
    tokens: TokenCounts | None = None
    run: RecordedRun | None = None
    removed: CorpusCounts | None = None
    archives: dict[str, Counter[str]] = field(default_factory=dict)
    archives_read: int = 0
    unreachable: str = ""


def corpus_at(address: str, counter: CorpusCounter, storage_options: Mapping[str, Any]) -> SummedCorpus:
    """Count an output, and read the record of its run.

    Raises:
        DataError: there is nothing to count, or it cannot be read.
    """
    directory = Directory(output_of(address), storage_options)
    try:
        run: RecordedRun | None = read_run(address, storage_options)
    except DataError:
        if (directory.read("_dcurate/report.json") or directory.read("_dcurate/finished.json")) is not None:
            raise
        run = None
    about = directory.read(_TOKENS)
    if about is not None:
        return _with_archives(SummedCorpus(directory.url, CorpusCounts(), _token_counts(about, directory.url), run))
    looked_at = tuple(dict.fromkeys(made.column for made in generated_by(run))) if run else ()
    counts = counter.count(directory, looked_at)
    if not counts.files and run is None:
        others = f" but files of other kinds ({', '.join(sorted(counts.uncounted))})" if counts.uncounted else ""
        raise DataError(f"{directory.url!r} holds nothing to count{others}; name the output directory of a run")
    return _with_archives(SummedCorpus(directory.url, counts, None, run))


def _token_counts(about: bytes, url: str) -> TokenCounts:
    try:
        values = orjson.loads(about)
        shards = values["shards"]
        tokens = sum(shard["tokens"] - shard["padding"] for shard in shards)
        return TokenCounts(tokens, sum(shard["documents"] for shard in shards), str(values.get("tokenizer") or ""))
    except (ValueError, TypeError, KeyError) as error:
        raise DataError(f"{_TOKENS} of {url!r} is damaged; write the folder again") from error


def _with_archives(corpus: SummedCorpus) -> SummedCorpus:
    """Read the descriptions of the web archives that a run read, where they can be reached."""
    about = corpus.run.about if corpus.run else {}
    inputs = [str(path) for path in about.get("inputs", ())]
    kinds = {stage.get("kind") for stage in about.get("stages", ())}
    if not inputs or not kinds & {"WarcReader", "WetReader", "MediaReader"}:
        return corpus
    try:
        for described in crawl_descriptions(inputs, ARCHIVES):
            corpus.archives_read += 1
            for name, value in described.items():
                corpus.archives.setdefault(name, Counter())[value[:500]] += 1
    except DcurateError:
        corpus.unreachable = "the web archives that the run read cannot be reached from here"
    return corpus


def count_removed(corpus: SummedCorpus, counter: CorpusCounter, storage_options: Mapping[str, Any]) -> None:
    """Count what the run of a corpus removed, where it was kept.

    Raises:
        DataError: it cannot be read.
    """
    report = corpus.run.report if corpus.run else None
    folders = [path for path in (report.rejected_path, report.quarantine_path) if path] if report else []
    parts = [counter.count(Directory(folder, storage_options)) for folder in folders]
    corpus.removed = total_of(parts) if any(part.files for part in parts) else None


def total_of(parts: Sequence[CorpusCounts]) -> CorpusCounts:
    """Return the counts of several folders as one.

    Examples:
        >>> total_of([CorpusCounts(files=2, last_day="2024-02-03"), CorpusCounts(files=1)]).files
        3
    """
    total = CorpusCounts()
    for part in parts:
        for name in (*_SUMS, *_MORE_SUMS):
            setattr(total, name, getattr(total, name) + getattr(part, name))
        total.uncounted.update(part.uncounted)
        total.present.update(part.present)
        total.types.update(part.types)
        total.exact &= part.exact
        for role, names in part.columns.items():
            total.columns.setdefault(role, Counter()).update(names)
        for kind, media in part.media.items():
            whole = total.media.setdefault(kind, MediaCounts())
            for counted in fields(MediaCounts):
                setattr(whole, counted.name, getattr(whole, counted.name) + getattr(media, counted.name))
        total.first_day = min(filter(None, (total.first_day, part.first_day)), default="")
        total.last_day = max(total.last_day, part.last_day)
    return total


def check_chosen(corpora: Sequence[SummedCorpus], chosen: Mapping[str, str]) -> None:
    """Refuse columns that were chosen and that are in no corpus.

    Raises:
        DataError: names the column.
    """
    check_columns(chosen, [corpus.counts for corpus in corpora])
