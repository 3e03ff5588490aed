"""Web archives as rows."""

import json
import pickle
from concurrent.futures import ThreadPoolExecutor

import fsspec
import pyarrow as pa
import pytest

from dcurate import DataError, InlineExecutor, JsonlWriter, Pipeline, PipelineError, WarcReader, WetReader
from dcurate.fs.stores import Directory
from dcurate.text import HtmlExtractor
from tests.archives import PACK, arc_file, arc_record, archive, http, page, warc_record

PAGES = [f"http://example.org/{number}" for number in range(40)]
RECORDS = [warc_record(page(f"<p>{'page ' * number} {number}</p>"), url) for number, url in enumerate(PAGES)]
ENDINGS = {"plain": "", "gzip": ".gz", "zstd": ".zst", "lz4": ".lz4", "bz2": ".bz2", "xz": ".xz"}


def batches(reader):
    reader = pickle.loads(pickle.dumps(reader))
    return [batch for split in reader.splits() if (batch := reader.process(split)) is not None]


def table(reader):
    return pa.concat_tables([batch.to_arrow() for batch in batches(reader)])


@pytest.mark.parametrize("pack", ENDINGS)
def test_a_row_is_a_page_with_what_is_known_of_it(tmp_path, pack):
    info = warc_record(b"software: x", "", "warcinfo")
    record = warc_record(
        http(b"<p>gone</p>", "Content-Type: Text/HTML; charset='ISO-8859-1'", "Content-Language: fr", status=404),
        "http://example.org/é",
        WARC_Truncated="length",
    )
    (tmp_path / f"a.warc{ENDINGS[pack]}").write_bytes(archive([info, record], pack))
    (row,) = table(WarcReader(str(tmp_path))).to_pylist()
    assert len(row.pop("warc_id")) == 36
    assert row == {
        "url": "http://example.org/é",
        "date": "2024-02-03T04:05:06Z",
        "source_id": f"a.warc{ENDINGS[pack]}",
        "offset": len(PACK[pack](info)),
        "content_language": "fr",
        "status": 404,
        "mime_type": "text/html",
        "charset": "iso-8859-1",
        "truncated": "length",
        "content": b"<p>gone</p>",
    }


def test_headers_are_a_column_only_where_they_are_asked_for(tmp_path):
    lines = ("Content-Type: text/html", "X-Robots-Tag: noai", "x-robots-tag: otherbot: none", b"X-Odd: \xe9")
    head = b"\r\n".join([b"HTTP/1.1 200 OK", *(line.encode() if isinstance(line, str) else line for line in lines)])
    records = [warc_record(head + b"\r\n\r\n<p>a</p>", "http://a/"), warc_record(b"GET /", "http://a/", "request")]
    (tmp_path / "a.warc.gz").write_bytes(archive([*records, warc_record(b"text", "urn:b", "resource")]))
    reader = WarcReader(str(tmp_path), fields=["url", "http_headers", "content"], record_types=["response", "resource"])
    (page, resource) = table(reader).to_pylist()
    assert page == {"url": "http://a/", "http_headers": head.decode("latin-1"), "content": b"<p>a</p>"}
    assert resource["http_headers"] is None
    assert reader.columns() == ["url", "http_headers", "content"]
    assert "http_headers" not in table(WarcReader(str(tmp_path))).column_names
    with pytest.raises(DataError, match="no column 'http_header'"):
        batches(WarcReader(str(tmp_path), fields=["http_header"]))


def test_arc_and_resources_become_rows_as_well(tmp_path):
    (tmp_path / "a.arc.gz").write_bytes(arc_file([arc_record(page("<p>arc</p>"), "http://arc.org/")], "gzip"))
    (tmp_path / "b.warc").write_bytes(
        warc_record(b"hello", "urn:b", "resource", Content_Type="text/plain; charset=utf-8")
    )
    rows = table(WarcReader(str(tmp_path), record_types=["response", "resource"])).to_pylist()
    assert [(row["url"], row["mime_type"], row["charset"], row["status"], row["content"]) for row in rows] == [
        ("http://arc.org/", "text/html", "utf-8", 200, b"<p>arc</p>"),
        ("urn:b", "text/plain", "utf-8", None, b"hello"),
    ]


def test_pages_of_other_types_are_counted(tmp_path):
    records = [
        warc_record(http(b"x", "Content-Type: image/png"), "http://a/"),
        warc_record(http(b"x", "Content-Type: text/html"), "http://b/", WARC_Identified_Payload_Type="application/pdf"),
        warc_record(http(b"x", "Content-Type: text/html;charset=x"), "http://c/"),
        warc_record(b"GET / HTTP/1.1", "http://c/", "request"),
    ]
    (tmp_path / "a.warc.gz").write_bytes(archive(records))
    (batch,) = batches(WarcReader(str(tmp_path), mime_types=["text/html"]))
    assert batch.to_arrow()["url"].to_pylist() == ["http://c/"]
    assert [(each.reason, each.rows, each.fault) for each in batch.rejections] == [("mime type", 2, False)]


@pytest.mark.parametrize("pack", ENDINGS)
@pytest.mark.parametrize("blocksize", [300, 1000, 10**6])
def test_a_file_cut_into_splits_gives_every_page_once_and_in_order(tmp_path, pack, blocksize):
    (tmp_path / f"a.warc{ENDINGS[pack]}").write_bytes(archive(RECORDS, pack))
    reader = WarcReader(str(tmp_path), blocksize=blocksize, fields=["url"])
    assert table(reader)["url"].to_pylist() == PAGES
    assert blocksize == 10**6 or len(list(reader.splits())) > 5


def test_damaged_records_go_to_quarantine_and_the_others_on(tmp_path):
    members = [PACK["gzip"](record) for record in RECORDS]
    members[3] = members[3][:-9] + bytes([members[3][-9] ^ 255]) + members[3][-8:]
    encoded = page(b"\x1f\x8b\x08\0 this is no gzip", "Content-Encoding: gzip")
    (tmp_path / "a.warc.gz").write_bytes(b"".join(members) + PACK["gzip"](warc_record(encoded, "http://coded/"))[:])
    (batch,) = batches(WarcReader(str(tmp_path)))
    assert batch.to_arrow()["url"].to_pylist() == PAGES[:3] + PAGES[4:]
    (fault,) = batch.rejections
    assert (fault.stage, fault.reason, fault.rows, fault.fault) == ("warc_reader", "damaged record", 2, True)
    first, second = fault.data.to_pylist()
    assert (first["file"], first["byte"]) == ("a.warc.gz", sum(map(len, members[:3])))
    assert second["url"] == "http://coded/"


def test_with_raise_the_first_damage_ends_the_run(tmp_path):
    (tmp_path / "a.warc").write_bytes(b"".join(RECORDS)[:-20])
    with pytest.raises(DataError, match=r"a\.warc byte \d+ \(http://example.org/39\): .*on_bad_record='quarantine'"):
        batches(WarcReader(str(tmp_path), on_bad_record="raise"))


def test_a_store_is_read_as_a_disk_is():
    store = fsspec.filesystem("memory")
    store.pipe_file("/crawl/a.warc.gz", archive(RECORDS))
    assert table(WarcReader("memory://crawl", blocksize=1000))["url"].to_pylist() == PAGES


@pytest.mark.s3
def test_a_bucket_is_read_as_a_disk_is(bucket):
    url, options = bucket
    Directory(f"{url}/crawl", options).write("a.warc.gz", archive(RECORDS))
    reader = WarcReader(f"{url}/crawl/*.warc.gz", blocksize=1000, storage_options=options)
    assert table(reader)["url"].to_pylist() == PAGES


def test_splits_can_be_read_side_by_side(tmp_path):
    (tmp_path / "a.warc.gz").write_bytes(archive(RECORDS))
    reader = WarcReader(str(tmp_path), blocksize=700)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(reader.process, list(reader.splits())))
    assert [url for batch in found if batch for url in batch.to_arrow()["url"].to_pylist()] == PAGES


def test_text_of_wet_files_is_read(tmp_path):
    records = [
        warc_record(b"software: x", "", "warcinfo"),
        warc_record("Blåbærgrød\n".encode(), "http://a/", "conversion", WARC_Identified_Content_Language="dan,nor"),
        warc_record(b"bad \xff byte", "http://b/", "conversion"),
    ]
    (tmp_path / "a.warc.wet.gz").write_bytes(archive(records))
    (tmp_path / "b.warc.gz").write_bytes(b"not to be read")
    rows = table(WetReader(str(tmp_path), fields=["url", "content_language", "text"])).to_pylist()
    assert rows == [
        {"url": "http://a/", "content_language": "dan,nor", "text": "Blåbærgrød\n"},
        {"url": "http://b/", "content_language": None, "text": "bad \ufffd byte"},
    ]


def test_files_without_rows_give_nothing(tmp_path):
    (tmp_path / "a.warc").write_bytes(b"")
    (tmp_path / "b.warc").write_bytes(warc_record(b"x", kind="metadata"))
    reader = WarcReader(str(tmp_path))
    assert batches(reader) == []
    assert "content" in (reader.columns() or ["content"])


@pytest.mark.parametrize(
    "settings",
    [{"on_bad_record": "skip"}, {"record_types": []}, {"mime_types": "text/html"}, {"read_kwargs": {"lines": True}}],
)
def test_settings_that_mean_nothing_are_refused(settings):
    with pytest.raises(PipelineError, match=next(iter(settings))):
        WarcReader("a.warc", **settings)


def test_from_archive_to_text_nothing_is_lost(tmp_path):
    story = "<p>It was a bright cold day in April, and the clocks were striking thirteen.</p>" * 5
    pages = [page(f"<title>{n}</title><article>{story}</article>") for n in range(8)]
    records = [warc_record(each, url) for each, url in zip(pages, PAGES, strict=False)]
    records[5] = warc_record(page("<html><body></body></html>"), PAGES[5])
    data = archive(records)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.warc.gz").write_bytes(data[:-30])
    pipeline = Pipeline("web")
    pipeline.add_stage(WarcReader(str(tmp_path / "in"), mime_types=["text/html"]))
    pipeline.add_stage(HtmlExtractor("resiliparse"))
    pipeline.add_stage(JsonlWriter(str(tmp_path / "out")))
    report = pipeline.run(executor=InlineExecutor()).report
    rows = [json.loads(line) for file in (tmp_path / "out").glob("*.jsonl") for line in file.read_text().splitlines()]
    assert [row["title"] for row in rows] == ["0", "1", "2", "3", "4", "6"]
    assert all(row["text"].count("bright cold day") == 5 for row in rows)
    read, extracted = report.stages[0], report.stages[1]
    assert read.faulty == {"damaged record": 1}
    assert extracted.dropped == {"no text": 1}
    (kept,) = (tmp_path / "out.dcurate" / "quarantine").rglob("*.jsonl")
    assert json.loads(kept.read_text())["url"] == PAGES[7]
