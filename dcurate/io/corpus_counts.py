"""Counts over the describing columns of a corpus, in one pass and bounded memory."""

from __future__ import annotations

import tarfile
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from dcurate.errors import DataError, listed
from dcurate.fs.errors import storage_errors
from dcurate.fs.paths import open_store
from dcurate.fs.stores import Directory
from dcurate.io.corpus_columns import LONGEST, DescribedRows, FileColumns
from dcurate.io.corpus_values import is_of_rights
from dcurate.io.files import hidden
from dcurate.io.group_counts import GroupCounts
from dcurate.io.hosts import AUTHORITY, Domains
from dcurate.io.rows import is_readable
from dcurate.io.tables import LOGS

#: Kinds of content, as the template distinguishes them.
MODALITIES = ("text", "image", "audio", "video", "other")
#: A day of the calendar. Years from 2100 on are left out, as 9999 and the like are for dates that are not known.
_DAY = (
    r"^(?P<day>(?:1[6-9]|20)\d\d-"
    r"(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d)|(?:0[13-9]|1[0-2])-30|(?:0[13578]|1[02])-31))"
)
#: Columns whose values are counted, and the kinds that they are counted as.
_VALUES = ("language", "licence", "source", "stage", "reason")


@dataclass
class MediaCounts:
    """Counts of the documents of one modality.

    Attributes:
        rows: how many there are.
        nbytes: their size, as far as it is known; of text, of the texts.
        duration_ms: the sum of their durations in milliseconds.
        timed: documents that have a duration.
    """

    rows: int = 0
    nbytes: int = 0
    duration_ms: int = 0
    timed: int = 0


@dataclass
class CorpusCounts:
    """What was counted.

    Attributes:
        files: files that were counted; ``file_bytes`` is their size.
        bytes_read: bytes of them that were read: of Parquet, of columns and footers, as stored; of JSON Lines, of the
            lines.
        uncounted: files of other kinds, by ending.
        columns: how many files have which column, by role.
        types: what each column holds, see `dcurate.io.corpus_values.simple_type`.
        media: counts by modality.
        text_rows: rows with a text; ``text_bytes`` are the bytes of the texts; ``exact`` says whether these are counted
            or those of the column before compression.
        sizes: rows whose size is in a column of sizes.
        tokens: the sum of the column of tokens; ``counted`` rows have one, and the texts of the others have
            ``uncounted_bytes``.
        url_rows: rows with a URL of the web; ``invalid_urls`` have one that cannot be read.
        dated: rows with a date; the first and last are ``first_day`` and ``last_day``.
        synthetic: rows that a column calls synthetic; ``present`` are rows that have a value, by column that was looked
            at; ``generated`` are rows of either.
    """

    files: int = 0
    file_bytes: int = 0
    bytes_read: int = 0
    uncounted: Counter[str] = field(default_factory=Counter)
    columns: dict[str, Counter[str]] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    media: dict[str, MediaCounts] = field(default_factory=dict)
    text_rows: int = 0
    text_bytes: int = 0
    exact: bool = True
    sizes: int = 0
    tokens: int = 0
    counted: int = 0
    uncounted_bytes: int = 0
    url_rows: int = 0
    invalid_urls: int = 0
    dated: int = 0
    first_day: str = ""
    last_day: str = ""
    synthetic: int = 0
    generated: int = 0
    present: Counter[str] = field(default_factory=Counter)

    @property
    def rows(self) -> int:
        """All documents."""
        return sum(media.rows for media in self.media.values())


@dataclass(frozen=True)
class CorpusCounter:
    """Counts the documents of folders.

    Args:
        groups: gets counts by name: of the kinds ``domain:MODALITY``, ``host``, ``language``, ``licence``, ``source``,
            ``stage`` and ``reason``, and of each column of rights; a row without a value counts under "".
        domains: domains of URLs.
        chosen: columns by role, see `dcurate.io.corpus_columns.ROLES`.
        endings: endings of file names by modality.
        read_texts: whether texts in Parquet are read, for their exact sizes.
    """

    groups: GroupCounts
    domains: Domains
    chosen: Mapping[str, str] = field(default_factory=dict)
    endings: Mapping[str, Collection[str]] = field(default_factory=dict)
    read_texts: bool = False

    def count(self, directory: Directory, looked_at: tuple[str, ...] = ()) -> CorpusCounts:
        """Count the documents of a folder.

        Args:
            directory: the folder.
            looked_at: columns of which only counts whether a row has a value.

        Raises:
            DataError: it holds no files, is a table, or a file cannot be read.
        """
        entries = directory.files()
        if any(name.partition("/")[0] in {*LOGS, "_versions"} for name in entries):
            raise DataError(
                f"{directory.url!r} is a table, of which not all files count; write its rows with ParquetWriter, and "
                "name that output"
            )
        counts = CorpusCounts()
        for name, entry in sorted(entries.items()):
            if any(map(hidden, name.split("/"))):
                continue
            if is_readable(name):
                self._file(counts, FileColumns(directory, name, self.chosen, looked_at, self.read_texts))
            elif name.lower().endswith(".tar"):
                self._archive(counts, directory, name)
            else:
                counts.uncounted[_ending(name)] += 1
                continue
            counts.files += 1
            counts.file_bytes += entry.size
        return counts

    def _file(self, counts: CorpusCounts, file: FileColumns) -> None:
        for piece in file.pieces():
            self._piece(counts, piece)
        for role, name in file.names.items():
            counts.columns.setdefault(role, Counter())[name] += 1
        for name, kind in file.types.items():
            known = counts.types.get(name, "null")
            counts.types[name] = kind if known in ("null", kind) else known if kind == "null" else "nested"
        counts.exact &= file.exact
        counts.bytes_read += file.bytes_read

    def _piece(self, counts: CorpusCounts, piece: DescribedRows) -> None:
        modality = self._modality(piece)
        nbytes = _sizes(counts, piece, modality)
        table = {"modality": modality, "nbytes": nbytes, "rows": pa.array([1] * piece.rows, pa.int64())}
        if "duration" in piece.columns:
            table["duration"] = piece.columns["duration"]
        self._by_modality(counts, pa.table(table))
        _texts(counts, piece)
        if "url" in piece.columns:
            self._urls(counts, piece.columns["url"], modality, nbytes)
        for role, column in piece.columns.items():
            if role in _VALUES or is_of_rights(role):
                self._values(role, column, nbytes)
        if "date" in piece.columns:
            _dates(counts, piece.columns["date"])
        _generated(counts, piece)

    def _modality(self, piece: DescribedRows) -> pa.Array:
        """The modality of each row: by its MIME type, else by the name of its file, else text if it has one."""
        text = piece.text_bytes
        usual = pa.array(["other"] * piece.rows) if text is None else pc.if_else(text.is_valid(), "text", "other")
        if "file" in piece.columns:
            names = pc.utf8_lower(piece.columns["file"]).fill_null("")
            for kind, endings in self.endings.items():
                ends = pa.array([False] * piece.rows)
                for ending in endings:
                    ends = pc.or_(ends, pc.ends_with(names, ending))
                usual = pc.if_else(ends, kind, usual)
        if "mime" in piece.columns:
            mime = pc.utf8_lower(piece.columns["mime"]).fill_null("")
            for kind in ("image", "audio", "video"):
                usual = pc.if_else(pc.starts_with(mime, f"{kind}/"), kind, usual)
        return usual

    def _by_modality(self, counts: CorpusCounts, table: pa.Table) -> None:
        sums = [("rows", "sum"), ("nbytes", "sum")]
        if "duration" in table.column_names:
            sums += [("duration", "sum"), ("duration", "count")]
        for row in table.group_by("modality").aggregate(sums).to_pylist():
            media = counts.media.setdefault(row["modality"], MediaCounts())
            media.rows += row["rows_sum"]
            media.nbytes += row["nbytes_sum"] or 0
            media.duration_ms += row.get("duration_sum") or 0
            media.timed += row.get("duration_count") or 0

    def _urls(self, counts: CorpusCounts, urls: pa.Array, modality: pa.Array, nbytes: pa.Array) -> None:
        authority = pc.struct_field(pc.extract_regex(urls, AUTHORITY), "authority")
        filled = pc.and_(urls.is_valid(), pc.not_equal(urls, "")).fill_null(False)
        table = pa.table({"authority": authority, "modality": modality, "nbytes": nbytes, "filled": filled})
        grouped = (
            table.filter(filled).group_by(["authority", "modality"]).aggregate([("nbytes", "sum"), ([], "count_all")])
        )
        for row in grouped.to_pylist():
            rows, size = row["count_all"], row["nbytes_sum"] or 0
            site = None if row["authority"] is None else self.domains.site(row["authority"])
            if site is None or site.kind == "invalid":
                counts.invalid_urls += rows
                continue
            counts.url_rows += rows
            kind = "host" if site.kind == "host" else f"domain:{row['modality']}"
            self.groups.add(kind, site.name, rows, size)

    def _values(self, role: str, column: pa.Array, nbytes: pa.Array) -> None:
        table = pa.table({"value": pc.utf8_slice_codeunits(column, 0, LONGEST), "nbytes": nbytes})
        grouped = table.group_by("value").aggregate([("nbytes", "sum"), ([], "count_all")])
        for row in grouped.to_pylist():
            self.groups.add(role, row["value"] or "", row["count_all"], row["nbytes_sum"] or 0)

    def _archive(self, counts: CorpusCounts, directory: Directory, name: str) -> None:
        """Count the members of a tar archive by their endings; their contents are passed over."""
        store, path = open_store(directory.path(name), directory.options)
        with storage_errors("read", directory.path(name)), store.open(path, "rb") as file:
            try:
                with tarfile.open(fileobj=file, mode="r:") as archive:
                    while (member := archive.next()) is not None:
                        counts.bytes_read += tarfile.BLOCKSIZE
                        self._member(counts, member)
                        vars(archive)["members"].clear()  # tarfile keeps all of them otherwise
            except tarfile.TarError as error:
                raise DataError(f"{directory.path(name)!r} is cut or not a tar archive ({error})") from error

    def _member(self, counts: CorpusCounts, member: tarfile.TarInfo) -> None:
        kinds = (kind for kind, endings in self.endings.items() if member.name.lower().endswith(tuple(endings)))
        kind = next(kinds, None)
        if kind is not None and member.isfile():
            media = counts.media.setdefault(kind, MediaCounts())
            media.rows += 1
            media.nbytes += member.size


def check_columns(chosen: Mapping[str, str], counts: Collection[CorpusCounts]) -> None:
    """Refuse columns that were chosen and that are in no file, or have a type that does not suit.

    Raises:
        DataError: names the column.
    """
    for role, name in chosen.items():
        if not any(name in count.columns.get(role, ()) for count in counts) and any(count.types for count in counts):
            there = sorted({column for count in counts for column in count.types})
            raise DataError(
                f"column {name!r} for {role} is in no file, or has a type that does not suit; there are {listed(there)}"
            )


def _sizes(counts: CorpusCounts, piece: DescribedRows, modality: pa.Array) -> pa.Array:
    """The bytes of each row: those in the column of sizes, else those of its text, unless this is only a caption."""
    sizes, texts = piece.columns.get("bytes"), piece.text_bytes
    usual = pa.array([0] * piece.rows, pa.int64())
    if texts is not None:
        usual = pc.if_else(pc.is_in(modality, pa.array(["image", "audio", "video"])), usual, texts.fill_null(0))
    if sizes is None:
        return usual
    counts.sizes += len(sizes) - sizes.null_count
    return pc.coalesce(sizes, usual)


def _texts(counts: CorpusCounts, piece: DescribedRows) -> None:
    texts, tokens = piece.text_bytes, piece.columns.get("tokens")
    if texts is not None:
        counts.text_rows += len(texts) - texts.null_count
        counts.text_bytes += int(pc.sum(texts).as_py() or 0)
    if tokens is not None:
        counts.tokens += int(pc.sum(tokens).as_py() or 0)
        counts.counted += len(tokens) - tokens.null_count
    if texts is not None:
        without = texts if tokens is None else texts.filter(tokens.is_null())
        counts.uncounted_bytes += int(pc.sum(without).as_py() or 0)


def _generated(counts: CorpusCounts, piece: DescribedRows) -> None:
    generated = pa.array([False] * piece.rows)
    if "synthetic" in piece.columns:
        generated = piece.columns["synthetic"].fill_null(False)
        counts.synthetic += int(pc.sum(generated).as_py() or 0)
    for name, valid in piece.present.items():
        counts.present[name] += int(pc.sum(valid).as_py() or 0)
        generated = pc.or_(generated, valid)
    counts.generated += int(pc.sum(generated).as_py() or 0)


def _dates(counts: CorpusCounts, column: pa.Array) -> None:
    days = pc.struct_field(pc.extract_regex(column, _DAY), "day").drop_null()
    if len(days):
        bounds = pc.min_max(days).as_py()
        counts.dated += len(days)
        counts.first_day = min(filter(None, (counts.first_day, bounds["min"])))
        counts.last_day = max(counts.last_day, bounds["max"])


def _ending(name: str) -> str:
    base = name.rpartition("/")[2]
    return base[base.rindex(".") :].lower()[:20] if "." in base else "without ending"
