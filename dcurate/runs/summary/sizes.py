"""Section 1.3: modalities, sizes, languages and dates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dcurate.io.corpus_counts import MODALITIES, CorpusCounts
from dcurate.io.group_counts import GroupCounts
from dcurate.runs.summary.evidence import SummedCorpus
from dcurate.runs.summary.fields import SummaryField
from dcurate.runs.text import many

#: The ranges of the template: unit, and the two bounds.
RANGES: Mapping[str, tuple[str, int, int]] = {
    "text": ("tokens", 10**9, 10**13),
    "image": ("images", 10**6, 10**9),
    "audio": ("hours", 10**4, 10**6),
    "video": ("hours", 10**4, 10**6),
}
#: Bytes of a token, where tokens are not counted.
BYTES_OF_TOKEN = 4
#: Rows of a table of values.
MOST = 1000
#: The name of a missing value in tables.
NONE = "(none)"
_NAMES = {10**4: "10,000", 10**6: "1 million", 10**9: "1 billion", 10**13: "10 trillion"}
_MS_OF_HOUR = 3_600_000


def size_range(modality: str, amount: float) -> str:
    """Return the range of the template that an amount is in.

    Examples:
        >>> size_range("text", 5 * 10**8), size_range("audio", 10_000), size_range("image", 2 * 10**9)
        ('less than 1 billion tokens', '10,000 to 1 million hours', 'more than 1 billion images')
    """
    unit, low, high = RANGES[modality]
    if amount < low:
        return f"less than {_NAMES[low]} {unit}"
    return f"{_NAMES[low]} to {_NAMES[high]} {unit}" if amount <= high else f"more than {_NAMES[high]} {unit}"


def size_fields(total: CorpusCounts, corpora: Sequence[SummedCorpus]) -> Iterator[SummaryField]:
    """Yield the sizes of each modality that there is."""
    files = many(total.files, "file")
    yield SummaryField("files", "Files", total.files, "counted in the folders")
    yield SummaryField("file_bytes", "Size of the files in bytes", total.file_bytes, "as the store lists the files")
    uncounted = sum(total.uncounted.values())
    if uncounted:
        endings = ", ".join(f"{number:,} {ending}" for ending, number in sorted(total.uncounted.items()))
        yield SummaryField("files_not_counted", "Files of other kinds", uncounted, f"not counted below: {endings}")
    folders = [corpus.tokens for corpus in corpora if corpus.tokens is not None]
    for modality in MODALITIES:
        media, name = total.media.get(modality), modality.capitalize()
        in_tokens = sum(folder.documents for folder in folders) if modality == "text" else 0
        rows = (media.rows if media else 0) + in_tokens
        has_text = modality == "text" and (total.text_rows or total.counted or folders)
        if not rows and not has_text:
            continue
        how = f"counted: rows of {files}{_distinguished(total)}"
        how += f", and {in_tokens:,} in folders of tokens" if in_tokens else ""
        yield SummaryField(f"{modality}_documents", f"{name}: documents", rows, how)
        if modality == "text":
            yield from _text_fields(total, corpora)
        elif media is not None:
            yield from _media_fields(modality, total)


def _distinguished(total: CorpusCounts) -> str:
    by = [f"`{name}`" for role in ("mime", "file") for name in total.columns.get(role, ())]
    return f", by {' and '.join(by)}" if by else ""


def _text_fields(total: CorpusCounts, corpora: Sequence[SummedCorpus]) -> Iterator[SummaryField]:
    column, ways = columns_of(total, "text"), []
    if column:
        how = "counted: UTF-8 bytes of" if total.exact else "estimate: bytes before compression, by the footers, of"
        how = f"{how} {column}"
        yield SummaryField("text_bytes", "Text: bytes of texts", total.text_bytes, how, estimate=not total.exact)
    folders = [corpus.tokens for corpus in corpora if corpus.tokens is not None]
    tokens = total.tokens + sum(folder.tokens for folder in folders)
    if folders:
        makers = ", ".join(sorted({folder.tokenizer for folder in folders if folder.tokenizer})) or "unnamed"
        ways.append(f"counted in {many(len(folders), 'folder')} of tokens (tokenizer: {makers})")
    if total.counted:
        ways.append(f"counted in {columns_of(total, 'tokens')}, {many(total.counted, 'row')}")
    if total.uncounted_bytes:
        ways.append(f"estimate: {total.uncounted_bytes:,} bytes of texts / {BYTES_OF_TOKEN}")
        tokens += total.uncounted_bytes // BYTES_OF_TOKEN
    how, estimate = "; ".join(ways) or "no texts", bool(total.uncounted_bytes)
    yield SummaryField("text_tokens", "Text: tokens", tokens, how, estimate)
    range_of = "range of the template for the tokens"
    yield SummaryField("text_range", "Text: size", size_range("text", tokens), range_of, estimate)


def _media_fields(modality: str, total: CorpusCounts) -> Iterator[SummaryField]:
    media, name = total.media[modality], modality.capitalize()
    if media.nbytes:
        how = f"summed up: {columns_of(total, 'bytes') or 'sizes of members of tar archives'}"
        yield SummaryField(f"{modality}_bytes", f"{name}: bytes", media.nbytes, how)
    if modality == "image":
        how = "range of the template for the images"
        yield SummaryField("image_range", "Image: size", size_range("image", media.rows), how)
    elif modality in ("audio", "video"):
        column = columns_of(total, "duration")
        how = f"summed up: {column}, {media.timed:,} of {media.rows:,} {modality} documents have one"
        hours = round(media.duration_ms / _MS_OF_HOUR, 6) if media.timed else None
        how = how if media.timed else "a column of durations is missing; name it with the role duration"
        blank = "" if media.timed else f"to be filled in by the provider: hours of {modality}"
        yield SummaryField(f"{modality}_hours", f"{name}: hours", hours, how, blank=blank)
        if hours is not None:
            how = "range of the template for the hours"
            yield SummaryField(f"{modality}_range", f"{name}: size", size_range(modality, hours), how)


def columns_of(total: CorpusCounts, role: str) -> str:
    """Return which columns of a role are in how many files, in words; empty if there are none.

    Examples:
        >>> columns_of(CorpusCounts(columns={"url": Counter(url=12)}), "url")
        'column `url` of 12 files'
    """
    columns = total.columns.get(role, Counter())
    return " and ".join(f"column `{name}` of {many(files, 'file')}" for name, files in sorted(columns.items()))


def language_field(total: CorpusCounts, groups: GroupCounts) -> SummaryField:
    """Return the languages, with their documents, bytes and shares."""
    name, title = "languages", "Linguistic characteristics of the training data"
    column = columns_of(total, "language")
    if not column:
        return SummaryField(name, title, how="a column of languages is missing")
    return SummaryField(name, title, value_rows(groups, "language", total.rows), counted_in(total, column))


def counted_in(total: CorpusCounts, columns: str) -> str:
    """Return how a table of values was counted."""
    return f"counted in {columns}" + ("" if total.exact else "; bytes are an estimate, as those of domains")


def value_rows(groups: GroupCounts, kind: str, rows: int, title: str = "") -> list[dict[str, Any]]:
    """Return a table of the values of a kind, with the most bytes first.

    Args:
        groups: the counts.
        kind: which of them.
        rows: all documents, for shares.
        title: head of the values; the kind by default.
    """
    return [
        {
            title or kind: count.name or NONE,
            "documents": count.rows,
            "share of documents": round(count.rows / rows, 6) if rows else 0.0,
            "bytes": count.nbytes,
        }
        for count in groups.largest(kind, MOST)
    ]


def date_fields(total: CorpusCounts) -> tuple[SummaryField, SummaryField]:
    """Return the latest date and the period of the columns with dates."""
    column = columns_of(total, "date")
    latest = ("latest_date", "Latest date of data acquisition or collection")
    period = ("collection_period", "Period of data collection")
    if not total.dated:
        how = f"{column} has no dates" if column else "a column of dates is missing"
        return SummaryField(*latest, how=how), SummaryField(*period, how=how)
    rows = f"{column}, {total.dated:,} of {total.rows:,} rows"
    return (
        SummaryField(*latest, total.last_day, f"largest date in {rows}"),
        SummaryField(*period, f"{total.first_day} to {total.last_day}", f"smallest and largest date in {rows}"),
    )
