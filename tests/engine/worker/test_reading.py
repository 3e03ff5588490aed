"""Splits that cannot be read, or whose reading ends the process: rows in = rows out + rejected + quarantined."""

from __future__ import annotations

import gzip
import itertools
import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dcurate import (
    Batch,
    BatchKey,
    CsvReader,
    DocumentBatch,
    FileGroup,
    JsonlReader,
    ParquetReader,
    SourceStage,
    StageError,
    WetReader,
)
from dcurate.core.batch import FilePart, FileRows
from dcurate.datasets.blend import Readers
from dcurate.engine.serialization import pickled
from dcurate.engine.worker.operator_task import OperatorSpec, TaskResult, run_operator
from dcurate.engine.worker.sandbox import Settings, run_sandboxed
from dcurate.io.rejections import DirectoryRejections
from dcurate.io.source import FileReader
from tests.archives import PACK, archive, warc_record
from tests.deadly import DeadlyCsv, DeadlyDocuments, DeadlyJsonl, DeadlyParquet, DeadlyWet, ReadsAll, Undivided

Write = Callable[[Path, list[dict[str, Any]]], None]


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def write_gzip(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_bytes(gzip.compress("".join(f"{json.dumps(row)}\n" for row in rows).encode()))


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("id,text\n" + "".join(f'{row["id"]},"{row["text"]}"\n\n' for row in rows))


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=7)


def write_wet(path: Path, rows: list[dict[str, Any]]) -> None:
    records = [warc_record(row["text"].encode(), f"http://example.org/{row['id']}", "conversion") for row in rows]
    path.write_bytes(archive([warc_record(b"about", kind="warcinfo"), *records]))


FORMATS: dict[str, tuple[str, type[FileReader], type[FileReader], Write]] = {
    "jsonl": ("a.jsonl", DeadlyJsonl, JsonlReader, write_jsonl),
    "gzip": ("a.jsonl.gz", DeadlyJsonl, JsonlReader, write_gzip),
    "csv": ("a.csv", DeadlyCsv, CsvReader, write_csv),
    "parquet": ("a.parquet", DeadlyParquet, ParquetReader, write_parquet),
    "wet": ("a.wet.gz", DeadlyWet, WetReader, write_wet),
    "documents": ("a.jsonl", DeadlyDocuments, JsonlReader, write_jsonl),
    "documents in csv": ("a.csv", DeadlyDocuments, CsvReader, write_csv),
}


def only(reader: FileReader) -> FileGroup:
    (split,) = reader.splits()
    return split


def read(reader: FileReader, quarantine: Path | None = None, split: FileGroup | None = None) -> TaskResult:
    """What comes of the one split of a reader, read in this process, where failures are ignored."""
    sink = DirectoryRejections(None, str(quarantine)) if quarantine else None
    spec = OperatorSpec("read", (reader,), sink, ignore_failures=True)
    return run_operator(spec, [split or only(reader)])


def rows_of(result: TaskResult) -> list[dict[str, Any]]:
    (made,) = result.outputs
    assert all(isinstance(one, DocumentBatch) for one in made)
    return [row for one in made for row in one.to_arrow().to_pylist()]  # type: ignore[attr-defined]


def quarantined(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]


def numbered(count: int, bad: set[int], text: str = "raise") -> list[dict[str, Any]]:
    return [{"id": row, "text": text if row in bad else f"row {row}"} for row in range(count)]


def ids(result: TaskResult) -> list[int]:
    return [int(row["id"] if "id" in row else row["url"].rpartition("/")[2]) for row in rows_of(result)]


@pytest.mark.parametrize("form", FORMATS)
@settings(deadline=None)
@given(count=st.integers(1, 60), data=st.data())
def test_of_a_split_that_cannot_be_read_exactly_the_rows_at_fault_are_lost(
    form: str, count: int, data: st.DataObject
) -> None:
    name, deadly, to_json, write = FORMATS[form]
    bad = data.draw(st.sets(st.integers(0, count - 1), max_size=6))
    with TemporaryDirectory() as scratch:
        folder = Path(scratch, "in")
        folder.mkdir()
        write(folder / name, numbered(count, bad))
        result = read(deadly(str(folder)), Path(scratch, "quarantine"))
        (stats,) = result.stats[0]
        assert ids(result) == [row for row in range(count) if row not in bad]
        assert (stats.rows_out, stats.faulty) == (count - len(bad), {"ValueError": len(bad)} if bad else {})
        assert stats.rows_in == stats.rows_out + len(bad)
        assert result.unread == [""]
        kept = quarantined(Path(scratch, "quarantine"))
        assert [row["file"] for row in kept] == [name] * len(bad)
        assert [row["rows"] for row in kept] == [1] * len(bad)
        if bad != set(range(count)):
            write(folder / name, [row for row in numbered(count, bad) if row["id"] not in bad])
            without = read(to_json(str(folder)))
            drop = {"offset"} if form == "wet" else set()
            assert [{k: v for k, v in row.items() if k not in drop} for row in rows_of(result)] == [
                {k: v for k, v in row.items() if k not in drop} for row in rows_of(without)
            ]


LINES = [
    '{"text": "raise"}',
    '{"text": "a", "n": 1}',
    '{"text": "b", "n": 0.5}',
    '{"text": "c", "n": "one"}',
    '{"text": "d", "more": [1]}',
    '{"text": "é"}',
    '{"n": 2}\r',
    "",
    "  ",
    "{broken",
]


@settings(deadline=None)  # a split of few bytes is several
@given(
    lines=st.lists(st.sampled_from(LINES), min_size=1, max_size=24),
    ends=st.booleans(),
    bom=st.booleans(),
    packed=st.booleans(),
    to_code=st.integers(20, 400),
)
def test_lines_are_read_and_set_aside_as_if_those_that_fail_were_not_there(
    lines: list[str], ends: bool, bom: bool, packed: bool, to_code: int
) -> None:
    content = ("\ufeff" if bom else "") + "\n".join(lines) + ("\n" if ends else "")
    blank = "\n".join("" if "raise" in line else line for line in lines) + ("\n" if ends else "")
    name = "a.jsonl.gz" if packed else "a.jsonl"
    with TemporaryDirectory() as scratch:
        for folder, text in (("in", content), ("without", ("\ufeff" if bom else "") + blank)):
            Path(scratch, folder).mkdir()
            data = gzip.compress(text.encode()) if packed else text.encode()
            Path(scratch, folder, name).write_bytes(data)
        how: dict[str, Any] = {} if packed else {"blocksize": to_code}
        found, expected = (
            [
                read(
                    kind(str(Path(scratch, folder)), on_bad_line="quarantine", **how),
                    Path(scratch, "q" + folder),
                    split,
                )
                for split in kind(str(Path(scratch, folder)), **how).splits()
            ]
            for folder, kind in (("in", DeadlyJsonl), ("without", JsonlReader))
        )
        total = [row for result in found for row in rows_of(result)]
        killers = sum("raise" in line for line in lines)
        faults = sum(sum(result.stats[0][0].faulty.values()) for result in found)
        assert len(total) + faults == sum(bool(line.strip()) for line in lines)
        kept = quarantined(Path(scratch, "qin"))
        raised = [row for row in kept if row["_dcurate_reason"] == "ValueError"]
        assert len(raised) == killers
        assert [row["raw"].strip("\ufeff\n") for row in raised] == ['{"text": "raise"}'] * killers
        places = [number + 1 for number, line in enumerate(lines) if "raise" in line]
        assert sorted(row["line"] for row in raised) == places
        encoded = content.encode()
        assert {encoded[row["byte"] :][: row["bytes"]].decode().strip("\ufeff\n") for row in raised} <= {
            '{"text": "raise"}'
        }
        if how == {}:
            assert [rows_of(one) for one in found] == [rows_of(one) for one in expected]
            others = [
                [(row["line"], row["raw"], row["error"]) for row in each if row["_dcurate_reason"] != "ValueError"]
                for each in (kept, quarantined(Path(scratch, "qwithout")))
            ]
            assert sorted(others[0]) == sorted(others[1])


PACKINGS = {"gzip": ".gz", "bz2": ".bz2", "xz": ".xz", "zstd": ".zst"}


@pytest.mark.parametrize("packing", PACKINGS)
@settings(deadline=None, max_examples=15)
@given(
    streams=st.lists(
        st.lists(
            st.sampled_from(['{"text": "raise"}\n', *(f"{line}\n" for line in LINES[1:]), '{"text": "e']), max_size=9
        ),
        min_size=1,
        max_size=4,
    ),
    hurt=st.integers(0, 3),
    place=st.integers(0, 999),
    cut=st.booleans(),
)
@example([['{"text": "x"}\n', '{"text": "raise"}\n'], ['{"text": "y"}\n']], 1, 999, True)
@example([['{"text": "x"}\n', '{"text": "raise"}\n', '{"text": "e'], []], 1, 0, True)
def test_of_a_damaged_file_the_lines_that_fail_are_set_aside_beside_those_that_are_lost(
    packing: str, streams: list[list[str]], hurt: int, place: int, cut: bool
) -> None:
    packed = [PACK[packing]("".join(lines).encode()) for lines in streams]
    one = packed[hurt % len(packed)]
    place = 1 + place * (len(one) - 1) // 1000
    packed[hurt % len(packed)] = one[:place] if cut else one[:place] + bytes([one[place] ^ 0x55]) + one[place + 1 :]
    with TemporaryDirectory() as scratch:
        folder = Path(scratch, "in")
        folder.mkdir()
        (folder / f"a.jsonl{PACKINGS[packing]}").write_bytes(b"".join(packed))
        found, expected = (
            (read(kind(str(folder), on_bad_line="quarantine", schema={"text": "string"}), Path(scratch, kind.__name__)))
            for kind in (DeadlyJsonl, JsonlReader)
        )
        rows = rows_of(expected)
        killers = sum(row["text"] == "raise" for row in rows)
        assert rows_of(found) == [row for row in rows if row["text"] != "raise"]
        kept = quarantined(Path(scratch, "DeadlyJsonl"))
        raised = [row for row in kept if row["_dcurate_reason"] == "ValueError"]
        assert [(row["rows"], row["raw"].strip()) for row in raised] == [(1, '{"text": "raise"}')] * killers
        lost = [
            sorted(
                (row["byte"], row["raw"], row["error"], row["line"])
                for row in each
                if row["_dcurate_reason"] != "ValueError"
            )
            for each in (kept, quarantined(Path(scratch, "JsonlReader")))
        ]
        assert lost[0] == lost[1]
        (stats,) = found.stats[0]
        assert stats.rows_in == stats.rows_out + sum(stats.faulty.values())


def test_a_group_of_files_is_searched_file_by_file(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(4):
        rows = [{"id": 10 * number + row, "text": "raise" if (number, row) == (2, 3) else "x"} for row in range(10)]
        write_jsonl(tmp_path / "in" / f"{number}.jsonl", rows)
    result = read(DeadlyJsonl(str(tmp_path / "in"), files_per_partition=4), tmp_path / "quarantine")
    assert ids(result) == [row for row in range(40) if row != 23]
    (kept,) = quarantined(tmp_path / "quarantine")
    assert (kept["file"], kept["line"]) == ("2.jsonl", 4)


def test_of_datasets_that_are_blended_exactly_the_rows_at_fault_are_lost(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_jsonl(tmp_path / name / "a.jsonl", numbered(9, {4}))
    readers = Readers([DeadlyJsonl(str(tmp_path / "one")), DeadlyJsonl(str(tmp_path / "two"))])
    for split in readers.splits():
        spec = OperatorSpec("read", (readers,), DirectoryRejections(None, str(tmp_path / "q")), ignore_failures=True)
        assert ids(run_operator(spec, [split])) == [0, 1, 2, 3, 5, 6, 7, 8]
    assert [(row["file"], row["line"]) for row in quarantined(tmp_path / "q")] == [("a.jsonl", 5)] * 2


def test_a_split_that_cannot_be_divided_is_lost_whole_and_is_not_finished(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_jsonl(tmp_path / "in" / "a.jsonl", numbered(5, {2}))
    result = read(Undivided(str(tmp_path / "in")), tmp_path / "quarantine")
    assert (result.outputs, result.unread) == ([[]], ["ValueError"])
    (kept,) = quarantined(tmp_path / "quarantine")
    assert (kept["file"], kept["rows"], kept["_dcurate_error"]) == ("a.jsonl", None, "ValueError: cannot be read")


@dataclass(kw_only=True)
class Page(Batch):
    """What a source of a user lists: it does not say how many rows are on it."""

    data: str

    num_items = 1
    nbytes = 8

    def get_columns(self) -> list[str]:
        return []


class Pages(SourceStage[Page, DocumentBatch]):
    name = "pages"

    def splits(self) -> Iterator[Page]:
        yield from (Page(key=BatchKey(name), data=name) for name in ("good", "bad"))

    def process(self, task: Page) -> DocumentBatch:
        if task.data == "bad":
            raise ValueError("cannot be read")
        return DocumentBatch(data=pa.table({"id": [0, 1, 2]}))


def test_a_split_of_an_own_source_that_cannot_be_read_is_not_finished(tmp_path: Path) -> None:
    spec = OperatorSpec("read", (Pages(),), DirectoryRejections(None, str(tmp_path)), ignore_failures=True)
    result = run_operator(spec, list(Pages().splits()))
    assert [[batch.num_items for batch in batches] for batches in result.outputs] == [[3], []]
    assert result.unread == ["", "ValueError"]
    (kept,) = quarantined(tmp_path)
    assert (kept["batch"], kept["_dcurate_error"]) == ("bad", "ValueError: cannot be read")


def test_a_reader_that_reads_more_than_the_part_that_it_is_given_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_jsonl(tmp_path / "in" / "a.jsonl", numbered(6, {2}))
    with pytest.raises(StageError, match=r"made 6 rows of a part of 3; read the `rows` of each part only"):
        read(ReadsAll(str(tmp_path / "in")))


# Deaths: a process each


def sandboxed(reader: FileReader, quarantine: Path, **how: Any) -> TaskResult:
    spec = OperatorSpec("read", (reader,), DirectoryRejections(None, str(quarantine)), ignore_failures=True)
    return run_sandboxed(pickled(spec), uuid.uuid4().hex, [only(reader)], **how)


@pytest.mark.parametrize("form", ["jsonl", "gzip", "parquet", "wet"])
def test_of_a_split_whose_reading_ends_the_process_exactly_the_rows_that_do_are_lost(form: str, tmp_path: Path) -> None:
    name, deadly, _, write = FORMATS[form]
    (tmp_path / "in").mkdir()
    write(tmp_path / "in" / name, numbered(16, {5}, "segfault"))
    result = sandboxed(deadly(str(tmp_path / "in")), tmp_path / "quarantine")
    assert ids(result) == [row for row in range(16) if row != 5]
    assert result.stats[0][0].faulty == {"died: SIGSEGV": 1}
    (kept,) = quarantined(tmp_path / "quarantine")
    assert (kept["file"], kept["rows"], kept["_dcurate_error"]) == (name, 1, "killed by SIGSEGV")


@pytest.mark.parametrize("packing", PACKINGS)
def test_of_a_damaged_file_the_line_that_ends_the_process_is_set_aside_alone(packing: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    rows = [f"{json.dumps(row)}\n".encode() for row in numbered(16, {5}, "segfault")]
    one, two = PACK[packing](b"".join(rows[:8])), PACK[packing](b"".join(rows[8:]))
    (tmp_path / "in" / f"a.jsonl{PACKINGS[packing]}").write_bytes(one + two[:-1])
    result = sandboxed(DeadlyJsonl(str(tmp_path / "in"), on_bad_line="quarantine"), tmp_path / "quarantine")
    assert ids(result) == [0, 1, 2, 3, 4, 6, 7]
    kept = quarantined(tmp_path / "quarantine")
    assert [row["line"] for row in kept if row["_dcurate_reason"] == "died: SIGSEGV"] == [6]
    lost = [row for row in kept if row["_dcurate_reason"] == "line of a damaged stream"]
    assert lost
    assert {row["byte"] for row in lost} >= {len(b"".join(rows[:8]))}
    (stats,) = result.stats[0]
    assert stats.rows_in == stats.rows_out + len(kept)


def test_after_many_deaths_the_lines_that_follow_are_given_up_and_all_are_accounted_for(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_jsonl(tmp_path / "in" / "a.jsonl", numbered(40, set(range(20, 40)), "exit"))
    result = sandboxed(DeadlyJsonl(str(tmp_path / "in")), tmp_path / "quarantine", max_deaths=3)
    assert ids(result) == list(range(20))
    assert result.stats[0][0].faulty == {"died: exit 3": 20}
    kept = quarantined(tmp_path / "quarantine")
    assert sum(row["rows"] for row in kept) == 20
    assert "given up with all rows that follow in its batch, after 3 deaths" in kept[-1]["_dcurate_error"]


def test_a_line_too_large_for_the_memory_is_set_aside_alone(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    rows = [{"id": row, "text": "y" * 200_000_000 if row == 7 else "x"} for row in range(12)]
    write_jsonl(tmp_path / "in" / "a.jsonl", rows)
    reader = JsonlReader(str(tmp_path / "in"), files_per_partition=1, schema={"id": "int64", "text": "string"})
    result = sandboxed(reader, tmp_path / "quarantine", settings=Settings(memory_limit=700 << 20))
    assert ids(result) == [row for row in range(12) if row != 7]
    (kept,) = quarantined(tmp_path / "quarantine")
    assert (kept["line"], kept["raw"], kept["rows"]) == (8, None, 1)
    assert kept["bytes"] > 200_000_000


# Parts


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.lists(st.integers(0, 36), max_size=4))
def test_parts_of_counted_files_joined_again_are_the_files(sizes: list[int], cuts: list[int]) -> None:
    parts = tuple(FilePart(str(number), rows=(0, size)) for number, size in enumerate(sizes))
    files = FileRows(parts=parts)
    bounds = [0, *sorted(min(to_code, files.num_items) for to_code in cuts), files.num_items]
    cut = [files.rows(start, stop) for start, stop in itertools.pairwise(bounds)]
    assert [part.num_items for part in cut] == [b - a for a, b in itertools.pairwise(bounds)]
    assert FileRows.joined(cut).parts == parts
