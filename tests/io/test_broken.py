"""Conservation over broken inputs of every reader: each row comes out, is rejected or quarantined, or reading ends in
a sentence; none ends in another error, and none ends the process."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dcurate import (
    DataError,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    ParquetReader,
    Pipeline,
    ProcessingStage,
    WarcReader,
)
from tests.archives import PACK, arc_record, page, warc_record
from tests.breaking import Outcome, broken, broken_parquet, outcome, outcome_of

#: Endings by the names that `PACK` has for packings.
ENDINGS = {"plain": "", "gzip": ".gz", "bz2": ".bz2", "xz": ".xz", "zstd": ".zst"}
PACKINGS = pytest.mark.parametrize("packing", ENDINGS)
LAW = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

ROWS = [
    {"id": number, "text": f"row {number} " * (number % 5), "tags": ["a", None][: number % 3]} for number in range(24)
]
LINES = [orjson.dumps(row) + b"\n" for row in ROWS]


def in_streams(pieces: Sequence[bytes], packing: str) -> bytes:
    """The pieces in three streams, one after the other."""
    third = -(-len(pieces) // 3)
    return b"".join(PACK[packing](b"".join(pieces[start : start + third])) for start in range(0, len(pieces), third))


def changes() -> st.SearchStrategy[list[tuple[str, int, bytes]]]:
    """A few changes to make to a file, each a kind, a place (of 1,000), and bytes."""
    kinds = st.sampled_from(["cut", "flip", "put in", "take out", "overwrite"])
    return st.lists(st.tuples(kinds, st.integers(0, 999), st.binary(min_size=1, max_size=12)), min_size=1, max_size=3)


def changed(data: bytes, made: Sequence[tuple[str, int, bytes]]) -> bytes:
    for kind, share, some in made:
        place = share * len(data) // 1000
        if kind == "cut":
            data = data[:place]
        elif kind == "flip":
            data = data[:place] + bytes(byte ^ some[0] for byte in data[place : place + 1]) + data[place + 1 :]
        elif kind == "put in":
            data = data[:place] + some + data[place:]
        else:
            data = data[:place] + (some if kind == "overwrite" else b"") + data[place + len(some) :]
    return data


def conserves_lines(found: Outcome, data: bytes, packing: str) -> None:
    """No line is lost of plain files; of others no row changes, and what is lost is recorded with its file."""
    if found.sentence:
        return
    if packing == "plain":
        lines = [line for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip()]
        assert found.accounted == len(lines)
        return
    read = [row.get("id") for row in found.rows]
    assert read == list(range(len(read)))  # streams up to the damage, in order
    assert [{name: row[name] for name in ROWS[0]} for row in found.rows] == ROWS[: len(read)]
    assert len(read) == len(ROWS) or found.faults or ends_with_a_stream(data, len(read), packing)


def ends_with_a_stream(data: bytes, rows: int, packing: str) -> bool:
    """Whether the file was cut where a stream ends, which no reader can detect."""
    return data.rstrip(b"\0") in (in_streams(LINES, packing)[: len(data)], b"") and rows % 8 == 0


@PACKINGS
def test_no_line_of_broken_json_lines_is_lost(packing, tmp_path):
    data = in_streams(LINES, packing)
    tried = 0
    for name, content in broken(data):
        path = tmp_path / f"a.jsonl{ENDINGS[packing]}"
        path.write_bytes(content)
        found = outcome("JsonlReader", str(path), on_bad_line="quarantine")
        conserves_lines(found, content, packing)
        assert all(fault["file"] == path.name and fault["error"] for fault in found.faults), name
        strict = outcome("JsonlReader", str(path))
        assert not strict.faults
        assert bool(strict.sentence) == bool(found.sentence or found.faults), name
        tried += 1
    assert tried >= 50


@PACKINGS
@LAW
@given(made=changes())
def test_no_line_of_json_lines_is_lost_if_anything_breaks_them(packing, made, tmp_path):
    content = changed(in_streams(LINES, packing), made)
    path = tmp_path / f"a.jsonl{ENDINGS[packing]}"
    path.write_bytes(content)
    found = outcome("JsonlReader", str(path), on_bad_line="quarantine")
    if packing == "plain" or found.sentence:
        conserves_lines(found, content, packing)
    else:  # streams may be gone, or there twice: what is read is of whole ones
        assert all({name: row[name] for name in ROWS[0]} in ROWS for row in found.rows)
        assert len(found.rows) % 8 == 0


def pages(count: int = 12) -> list[tuple[str, bytes]]:
    return [(f"http://host/{number}", b"<p>page %d</p>" % number * (number + 1)) for number in range(count)]


ARCHIVES: dict[str, tuple[str, Callable[[bytes, str], bytes]]] = {
    "warc": ("WarcReader", lambda body, url: warc_record(page(body), url)),
    "wet": ("WetReader", lambda body, url: warc_record(body, url, "conversion")),
    "arc": ("WarcReader", lambda body, url: arc_record(page(body), url)),
}
FORMATS = pytest.mark.parametrize("form", ARCHIVES)


def texts(found: Outcome) -> list[tuple[str, bytes]]:
    return [(row["url"], row["content"] if "content" in row else row["text"].encode()) for row in found.rows]


def conserves_records(found: Outcome, content: bytes, good: bytes, packing: str) -> None:
    """No record is lost unseen, but where a file is cut between two; none changes where a checksum would say so."""
    assert not found.sentence
    if packing != "plain":
        assert set(texts(found)) <= set(pages())
    if found.accounted < len(pages()) and not found.faults:
        assert content.rstrip(b"\r\n\0") == good[: len(content)].rstrip(b"\r\n\0"), "lost in silence"


@FORMATS
@pytest.mark.parametrize("packing", [*ENDINGS, "lz4"])
def test_no_record_of_a_broken_archive_is_lost_in_silence(form, packing, tmp_path):
    reader, record = ARCHIVES[form]
    good = b"".join(PACK[packing](record(body, url)) for url, body in pages())
    path = tmp_path / f"a.{form}{ENDINGS.get(packing, '.lz4')}"
    tried = 0
    for _, content in broken(good):
        path.write_bytes(content)
        conserves_records(outcome(reader, str(path)), content, good, packing)
        tried += 1
    assert tried >= 50
    path.write_bytes(good)
    assert texts(outcome(reader, str(path))) == pages()


@FORMATS
@PACKINGS
@LAW
@given(made=changes())
def test_no_record_is_lost_in_silence_if_anything_breaks_the_archive(form, packing, made, tmp_path):
    reader, record = ARCHIVES[form]
    good = b"".join(PACK[packing](record(body, url)) for url, body in pages())
    content = changed(good, made)
    path = tmp_path / f"a.{form}{ENDINGS[packing]}"
    path.write_bytes(content)
    found = outcome(reader, str(path))
    assert not found.sentence
    if packing != "plain":
        assert set(texts(found)) <= set(pages())


LENGTHS = (b"0", b"-5", b"7", b"100000", b"99999999999999999999", b"abc", b"", b"1.5", b"12, 13", b"0x10")


@pytest.mark.parametrize("packing", ["plain", "gzip"])
@pytest.mark.parametrize("length", LENGTHS)
def test_a_record_of_a_wrong_length_costs_no_other(length, packing, tmp_path):
    records = [warc_record(page(body), url) for url, body in pages()]
    records[4] = re.sub(rb"Content-Length: \d+", b"Content-Length: " + length, records[4], count=1)
    path = tmp_path / f"a.warc{ENDINGS[packing]}"
    path.write_bytes(b"".join(map(PACK[packing], records)))
    found = outcome("WarcReader", str(path))
    assert [text for text in texts(found) if text != pages()[4]] == [*pages()[:4], *pages()[5:]]
    assert len(found.rows) == 11
    assert found.faults


@pytest.mark.parametrize("lost", [b"\r\n\r\n", b"\r\n", b"\r"])
def test_line_ends_that_are_missing_cost_their_record_at_most(lost, tmp_path):
    records = [warc_record(page(body), url) for url, body in pages()]
    for place in range(records[4].count(lost)):
        begin = -1
        for _ in range(place + 1):
            begin = records[4].find(lost, begin + 1)
        hurt = records[4][:begin] + records[4][begin + len(lost) :]
        (tmp_path / "a.warc").write_bytes(b"".join([*records[:4], hurt, *records[5:]]))
        found = outcome("WarcReader", str(tmp_path / "a.warc"))
        url, _ = pages()[4]  # a header may lose its name, or take in the page
        others = [text for text in texts(found) if text[0] != url and b"page 4<" not in text[1]]
        assert others == [*pages()[:4], *pages()[5:]]
        assert found.accounted >= 12


def test_records_that_may_have_been_pages_are_counted(tmp_path):
    (tmp_path / "a.warc").write_bytes(warc_record(page(b"x"), kind="responsf") + warc_record(b"x", kind="metadata"))
    (tmp_path / "b.arc").write_bytes(arc_record(b"no HTTP") + arc_record(b"1.2.3.4", "dns:example.org", "text/dns"))
    assert outcome("WarcReader", str(tmp_path)) == Outcome(left_out=2)


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Callable[[str, Path, bytes, dict[str, Any]], Outcome]]:
    """Reads a file in another process, as what breaks Arrow may break the process; says which file that was."""
    pool = ProcessPoolExecutor(1, get_context("spawn"))

    def read(name: str, path: Path, content: bytes, how: dict[str, Any]) -> Outcome:
        try:
            return pool.submit(outcome_of, "ParquetReader", str(path), content, how).result(60)
        except BrokenProcessPool:
            pytest.fail(f"{name}: the process that read it died")

    yield read
    pool.shutdown()


CODECS = ("none", "snappy", "gzip", "zstd", "lz4", "brotli")


def parquet(**how: Any) -> bytes:
    table = pa.table(
        {
            "id": range(60),
            "text": [f"text {number} " * (number % 7) for number in range(60)],
            "tags": [[number] * (number % 3) for number in range(60)],
            "about": [{"x": number, "y": None if number % 2 else "y"} for number in range(60)],
            "kind": pa.array([f"kind {number % 3}" for number in range(60)]).dictionary_encode(),
            "bytes": [b"x" * number for number in range(60)],
        }
    )
    file = io.BytesIO()
    pq.write_table(table, file, row_group_size=25, **how)
    return file.getvalue()


CHECKED = {"write_page_checksum": True}


@pytest.mark.parametrize("how", [{"compression": codec} for codec in CODECS] + [{"data_page_version": "2.0"}, CHECKED])
def test_a_broken_parquet_file_gives_all_of_its_rows_or_a_sentence(how, tmp_path, elsewhere):
    good = parquet(**how)
    kwargs = {"read_kwargs": {"page_checksum_verification": True}} if how is CHECKED else {}
    path = tmp_path / "a.parquet"
    whole = elsewhere("good", path, good, kwargs)
    assert len(whole.rows) == 60
    cases = [*broken(good), *broken_parquet(good, parquet(version="1.0", store_schema=False, use_dictionary=False))]
    assert len(cases) >= 150
    for name, content in cases:
        found = elsewhere(name, path, content, kwargs)
        assert found.sentence or len(found.rows) == 60 or name == "two files in one", name
        assert not found.sentence or found.sentence.startswith(("a.parquet", "cannot", "column", str(path))), name


@LAW
@given(codec=st.sampled_from(CODECS), made=changes())
def test_a_parquet_file_gives_all_of_its_rows_or_a_sentence_if_anything_breaks_it(codec, made, tmp_path, elsewhere):
    found = elsewhere(f"{codec} {made}", tmp_path / "a.parquet", changed(parquet(compression=codec), made), {})
    assert found.sentence or len(found.rows) == 60


@pytest.mark.parametrize(("group", "rows"), [(2, 6), (0, 24), (0, 26)])
def test_a_footer_whose_row_groups_do_not_add_up_is_refused(group, rows, tmp_path):
    good = parquet()
    about = pq.read_metadata(io.BytesIO(good))
    assert [about.row_group(number).num_rows for number in range(3)] == [25, 25, 10]
    # Thrift writes a whole number as twice itself; that of a row group comes after its size in bytes.
    pattern = re.compile(re.escape(bytes([0x16, 2 * about.row_group(group).num_rows])) + rb"(?=\x26|\x16|\x00)")
    begin = len(good) - 8 - about.serialized_size
    found = 0
    for match in pattern.finditer(good, begin):
        (tmp_path / "a.parquet").write_bytes(good[: match.start() + 1] + bytes([2 * rows]) + good[match.start() + 2 :])
        read = outcome("ParquetReader", str(tmp_path / "a.parquet"))
        assert read.sentence or len(read.rows) == 60
        found += "its row groups have" in read.sentence
    assert found


def test_a_column_whose_name_is_not_utf8_ends_in_a_sentence(tmp_path):
    good = parquet(store_schema=False)
    (tmp_path / "a.parquet").write_bytes(good.replace(b"bytes", b"byt\xffs"))
    assert (
        "a.parquet is truncated or not a Parquet file ('utf-8' codec"
        in outcome("ParquetReader", str(tmp_path)).sentence
    )


def test_files_of_a_doubled_column_or_of_types_that_clash_end_in_a_sentence(tmp_path):
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    pq.write_table(twice, tmp_path / "a.parquet")
    sentence = "a.parquet has several columns 'a'; leave them out with fields=, or rename them"
    assert outcome("ParquetReader", str(tmp_path)).sentence == sentence
    assert outcome("ParquetReader", str(tmp_path), fields=["a"]).sentence == sentence
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"a": ["x"]}), tmp_path / "b.parquet")
    assert (
        "column 'a' is string in b.parquet but int64 in a.parquet" in outcome("ParquetReader", str(tmp_path)).sentence
    )


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "warc"])
def test_a_run_over_a_broken_file_among_good_ones_accounts_for_every_row(kind, tmp_path):
    (tmp_path / "in").mkdir()
    stages: dict[str, ProcessingStage] = {
        "jsonl": JsonlReader(str(tmp_path / "in"), on_bad_line="quarantine"),
        "parquet": ParquetReader(str(tmp_path / "in"), fields=["id", "text"]),
        "warc": WarcReader(str(tmp_path / "in"), fields=["url", "mime_type"]),
    }
    packed = {
        "jsonl": in_streams(LINES, "xz"),
        "parquet": parquet(),
        "warc": b"".join(PACK["gzip"](warc_record(page(body), url)) for url, body in pages()),
    }[kind]
    ending = {"jsonl": "jsonl.xz", "parquet": "parquet", "warc": "warc.gz"}[kind]
    for name in ("a", "b", "c"):
        (tmp_path / "in" / f"{name}.{ending}").write_bytes(packed)
    middle = len(packed) // 2
    (tmp_path / "in" / f"b.{ending}").write_bytes(packed[:middle] + b"\x55" * 9 + packed[middle + 9 :])
    pipeline = Pipeline("law", stages=[stages[kind], JsonlWriter(str(tmp_path / "out"))])
    if kind == "parquet":
        (tmp_path / "in" / f"b.{ending}").write_bytes(packed[:middle])
        with pytest.raises(DataError, match="b.parquet is truncated or not a Parquet file"):
            pipeline.run(InlineExecutor(), observers=[])
        return
    report = pipeline.run(InlineExecutor(), observers=[]).report
    out = sum(len(path.read_bytes().splitlines()) for path in (tmp_path / "out").glob("*.jsonl"))
    kept = (tmp_path / "out.dcurate" / "quarantine").glob("*.jsonl")
    quarantined = [orjson.loads(line) for path in kept for line in path.read_bytes().splitlines()]
    (reading, writing) = report.stages
    assert out == writing.rows_out == reading.rows_out
    assert len(quarantined) == sum(reading.faulty.values()) > 0
    assert reading.rows_in == out + len(quarantined)
    assert {fault["file"] for fault in quarantined} == {f"b.{ending}"}


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 200 OK\r\nContent-Type: text/html<p>page</p>", b"HTTP/1.1 200 OK\r\nServer: x\r\n<p>\r\n"]
)
def test_a_page_whose_http_header_does_not_end_goes_to_quarantine(head, tmp_path):
    (tmp_path / "a.warc").write_bytes(warc_record(head) + warc_record(b"HTTP/1.1 204 No Content\r\nServer: x\r\n"))
    found = outcome("WarcReader", str(tmp_path))
    assert [row["status"] for row in found.rows] == [204]
    assert [fault["error"] for fault in found.faults] == ["the HTTP header does not end"]
