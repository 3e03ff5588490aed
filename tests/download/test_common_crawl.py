from __future__ import annotations

import os
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import fsspec
import pandas as pd
import pyarrow as pa
import pytest

from dcurate import DaskExecutor, DataError, DocumentBatch, InlineExecutor, LocalCluster, PipelineError
from dcurate.download import (
    CommonCrawlHTMLExtractor,
    CommonCrawlWARCDownloader,
    CommonCrawlWarcIterator,
    CommonCrawlWARCReader,
    DownloadCommonCrawl,
    MainCommonCrawlUrlGenerator,
    NewsCommonCrawlUrlGenerator,
    Skipped,
    Transfer,
)
from dcurate.download.common_crawl import crawls
from dcurate.text import HTMLExtractorAlgorithm
from tests.download.dumps import crawl_site, packed, warc
from tests.download.results import counts, quarantined, rows, run
from tests.download.server import Files

pytestmark = pytest.mark.cluster

QUICK = Transfer(backoff_s=0, timeout_s=60, attempts=2)
SENTENCE = "This is the sentence of which there are many on the page that is about the weather and all of its news. "
GERMAN = "Das ist der Satz, von dem es auf dieser Seite viele gibt, und in dem es um das Wetter und um die Lage geht. "


def html(text: str) -> bytes:
    return f"<html><head><title>T</title></head><body><p>{text}</p></body></html>".encode("latin-1")


def main(web: Files, start: str, end: str, **settings: Any) -> MainCommonCrawlUrlGenerator:
    return MainCommonCrawlUrlGenerator(
        start, end, data_prefix=web.address, index_prefix=web.address, transfer=QUICK, **settings
    )


def test_archives_of_the_crawls_between_two_weeks_are_listed_the_newest_first(web: Files) -> None:
    names = ("2024-10", "2023-50", "2023-40", "2012", "2009-2010")
    web.content = crawl_site({f"CC-MAIN-{name}": {"a.warc.gz": b"", "b.warc.gz": b""} for name in names})
    wanted = [
        web.url(f"/crawl-data/CC-MAIN-{crawl}/{name}.warc.gz") for crawl in ("2024-10", "2023-50") for name in "ab"
    ]
    assert main(web, "2023-45", "2024-53").generate_urls() == wanted
    assert main(web, "2023-50", "2024-10", limit=3).generate_urls() == wanted[:3]
    assert main(web, "2000-01", "2023-40").generate_path_urls() == [
        web.url("/crawl-data/CC-MAIN-2023-40/warc.paths.gz")
    ]


def test_where_there_is_no_crawl_those_near_are_named(web: Files) -> None:
    web.content = crawl_site({f"CC-MAIN-{name}": {} for name in ("2024-10", "2023-50", "2023-40")})
    with pytest.raises(
        DataError, match="no crawl between '2023-51' and '2024-09'; the nearest are '2023-50', '2024-10'"
    ):
        main(web, "2023-51", "2024-09").generate_urls()


def test_news_are_listed_by_month_the_newest_first(web: Files) -> None:
    web.content = crawl_site({f"CC-NEWS-{month}": {f"{month}.warc.gz": b""} for month in ("2016-12", "2017-01")})
    settings: dict[str, Any] = {"data_prefix": web.address, "transfer": QUICK}
    assert NewsCommonCrawlUrlGenerator("2016-12", "2017-01", **settings).generate_urls() == [
        web.url("/crawl-data/CC-NEWS/2017/01/2017-01.warc.gz"),
        web.url("/crawl-data/CC-NEWS/2016/12/2016-12.warc.gz"),
    ]
    first = NewsCommonCrawlUrlGenerator("2000-01", "2016-09", **settings).generate_path_urls()
    assert [url.removeprefix(web.address)[20:27] for url in first] == ["2016/09", "2016/08"]
    with pytest.raises(DataError, match="they begin with '2016-08'"):
        NewsCommonCrawlUrlGenerator("2015-01", "2016-07", **settings).generate_urls()
    with pytest.raises(DataError, match="2017/02/warc.paths.gz: 404.*cannot be read"):
        NewsCommonCrawlUrlGenerator("2017-02", "2017-02", **settings).generate_urls()


@pytest.mark.parametrize(("start", "end"), [("2020", "2021-01"), ("2020-54", "2021-01"), ("2021-02", "2021-01")])
def test_snapshots_that_make_no_sense_are_refused(start: str, end: str) -> None:
    with pytest.raises(PipelineError, match="snapshot"):
        MainCommonCrawlUrlGenerator(start, end)
    with pytest.raises(PipelineError, match="snapshot"):
        NewsCommonCrawlUrlGenerator(start.replace("54", "13"), end)


def test_lists_that_are_damaged_are_refused(web: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    web.content = {"/collinfo.json": b'[{"name": "x"}]'}
    with pytest.raises(DataError, match="lists no crawls"):
        main(web, "2023-50", "2024-10").generate_urls()
    web.content = crawl_site({"CC-MAIN-2024-10": {"a": b""}})
    web.content["/crawl-data/CC-MAIN-2024-10/warc.paths.gz"] = packed(b"a\n" * 50)[:20]
    with pytest.raises(DataError, match="is not a compressed list of archives"):
        main(web, "2023-50", "2024-10").generate_urls()
    monkeypatch.setattr(crawls, "LARGEST_LISTING", 99)
    web.content["/crawl-data/CC-MAIN-2024-10/warc.paths.gz"] = packed(b"a\n" * 50)
    with pytest.raises(DataError, match="it is cut, or too large"):
        main(web, "2023-50", "2024-10").generate_urls()


def test_pages_come_out_once_for_any_ranges_and_all_else_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.warc.gz"
    pages = [(f"https://x.org/{n}", html(SENTENCE)) for n in range(6)]
    data = warc(("", b""), *pages, ("https://x.org/a.pdf", b"%PDF"))
    path.write_bytes(data)
    for size in (len(data), 150, 400):
        found = [
            each
            for start, stop in pairwise([*range(0, len(data), size), len(data)])
            for each in CommonCrawlWarcIterator().iterate_range(str(path), start, stop)
        ]
        assert [each["url"] for each in found if isinstance(each, dict)] == [url for url, _ in pages]
        assert [(each.reason, each.id) for each in found if isinstance(each, Skipped)] == [
            ("mime type", "https://x.org/a.pdf")
        ]
    assert found[0] == {
        "url": "https://x.org/0",
        "warc_id": "00000001-0000",
        "source_id": "a.warc.gz",
        "charset": "iso-8859-1",
        "content": html(SENTENCE),
    }


@pytest.mark.parametrize("algorithm", [None, "justext", "resiliparse", "trafilatura"])
def test_a_page_becomes_its_text_and_language(algorithm: str | None) -> None:
    extractor = CommonCrawlHTMLExtractor(algorithm)
    record = {
        "url": "u",
        "warc_id": "w",
        "source_id": "s",
        "charset": "iso-8859-1",
        "content": html(GERMAN * 5 + "Größe"),
    }
    row = extractor.extract(record)
    assert row == {"url": "u", "warc_id": "w", "source_id": "s", "language": "GERMAN", "text": (GERMAN * 5 + "Größe")}
    assert extractor.extract({**record, "content": b""}) is None
    assert extractor.extract({**record, "content": b"<p>\x00\x01 \xff</p>"}) in (
        None,
        Skipped("language without stop words", detail="UNKNOWN"),
    )


def test_a_language_without_stop_words_is_reported_where_the_algorithm_needs_them() -> None:
    welsh = "Mae hon yn frawddeg am y tywydd yng Nghymru heddiw ac am y newyddion diweddaraf o bob rhan o'r wlad. " * 9
    record = {"url": "u", "warc_id": "w", "source_id": "s", "content": html(welsh)}
    given = {"ENGLISH": frozenset({"the", "of"})}
    assert CommonCrawlHTMLExtractor("justext", stop_lists=given).extract(record) == Skipped(
        "language without stop words", detail="WELSH"
    )
    row = CommonCrawlHTMLExtractor("resiliparse", {"required_stopword_density": 0.0}, given).extract(record)
    assert isinstance(row, dict)
    assert row["language"] == "WELSH"
    with pytest.raises(PipelineError, match="did you mean 'justext'"):
        CommonCrawlHTMLExtractor("justex")
    with pytest.raises(PipelineError, match="no_such"):
        CommonCrawlHTMLExtractor("justext", {"no_such": 1})


def test_archives_may_come_from_the_bucket_instead(web: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcurate.download.common_crawl.stage.BUCKET", f"{web.address}/bucket")
    web.content = {"/bucket/crawl-data/a.warc.gz": b"data"}
    downloader = CommonCrawlWARCDownloader(str(tmp_path), use_aws_to_download=True, transfer=QUICK)
    path = downloader.download("https://data.commoncrawl.org/crawl-data/a.warc.gz")
    assert Path(path).read_bytes() == b"data"


@pytest.mark.parametrize("mode", ["inline", "streaming"])
def test_a_crawl_becomes_json_lines(web: Files, tmp_path: Path, mode: str, request: pytest.FixtureRequest) -> None:
    first = warc(
        *((f"https://x.org/{n}", html(f"{n} {SENTENCE * 8}")) for n in range(8)), ("https://x.org/no", b"<p></p>")
    )
    second = bytearray(warc(("https://y.org/0", html(SENTENCE * 8)), ("https://y.org/1", html(GERMAN * 8))))
    second[len(second) // 4] ^= 0xFF
    third = warc(("https://z.org/0", html(SENTENCE * 8)))
    archives = {"a.warc.gz": first, "b.warc.gz": bytes(second), "c.warc.gz": third}
    web.content = crawl_site({"CC-MAIN-2024-10": archives, "CC-MAIN-2023-50": {"d.warc.gz": third}})
    web.fail("/crawl-data/CC-MAIN-2024-10/c.warc.gz", 404)
    stage = DownloadCommonCrawl(
        "2024-01",
        "2024-20",
        str(tmp_path / "files"),
        data_prefix=web.address,
        index_prefix=web.address,
        transfer=QUICK,
        blocksize=700,
        keep_files=False,
    )
    cluster: LocalCluster | None = request.getfixturevalue("cluster") if mode == "streaming" else None
    result = run(stage, tmp_path, InlineExecutor() if cluster is None else DaskExecutor(cluster=cluster))
    found = sorted(rows(tmp_path), key=lambda row: row["url"])
    assert [(row["url"], row["language"]) for row in found] == [
        *((f"https://x.org/{n}", "ENGLISH") for n in range(8)),
        ("https://y.org/1", "GERMAN"),
    ]
    assert found[0]["text"] == f"0 {SENTENCE * 8}".strip()
    assert found[0]["file_name"] == found[0]["source_id"] == "crawl-data-CC-MAIN-2024-10-a.warc.gz"
    lost = counts(result)
    assert lost.pop("damaged record") == 1
    assert lost in ({"not fetched": 1, "no text": 1}, {"not fetched": 1, "language without stop words": 1})
    assert {one["_dcurate_reason"] for one in quarantined(tmp_path)} == {"not fetched", "damaged record"}
    assert os.listdir(tmp_path / "files") == [".failed"]


class Fragile(HTMLExtractorAlgorithm):
    """Raises at one page."""

    def extract_text(self, html: str, stop_words: frozenset[str], language: str) -> list[str] | None:
        if "deadly" in html:
            raise ValueError("deadly")
        return [html]


def test_a_page_on_which_the_library_fails_is_lost_alone_or_ends_the_run(web: Files, tmp_path: Path) -> None:
    pages = [(f"https://x.org/{n}", html(("deadly " if n == 2 else "") + SENTENCE * 8)) for n in range(4)]
    web.content = crawl_site({"CC-MAIN-2024-10": {"a.warc.gz": warc(*pages)}})

    def stage(**settings: Any) -> DownloadCommonCrawl:
        return DownloadCommonCrawl(
            "2024-10", "2024-10", str(tmp_path / "files"), html_extraction=Fragile(), data_prefix=web.address,
            index_prefix=web.address, transfer=QUICK, **settings,
        )  # fmt: skip

    run(stage(), tmp_path / "1")
    assert [row["url"] for row in rows(tmp_path / "1")] == [f"https://x.org/{n}" for n in (0, 1, 3)]
    (lost,) = quarantined(tmp_path / "1")
    assert (lost["id"], lost["error"]) == ("https://x.org/2", "ValueError: deadly")
    with pytest.raises(DataError, match="record https://x.org/2: page cannot be extracted: ValueError: deadly"):
        run(stage(on_error="raise"), tmp_path / "2")
    run(stage(record_limit=2), tmp_path / "3")
    assert [row["url"] for row in rows(tmp_path / "3")] == [f"https://x.org/{n}" for n in (0, 1)]


def _index(archive: str, data: bytes) -> tuple[list[dict[str, Any]], pd.DataFrame]:
    """The places of the records of an archive, as an index has them."""
    begins = [match.start() for match in re.finditer(rb"\x1f\x8b\x08", data)]
    places = [
        {"url": f"u{n}", "warc_filename": archive, "warc_record_offset": start, "warc_record_length": stop - start}
        for n, (start, stop) in enumerate(pairwise([*begins, len(data)]))
    ]
    return places, pd.DataFrame(places)


def test_single_pages_are_fetched_by_the_places_that_an_index_gives(web: Files) -> None:
    data = warc(*((f"https://x.org/{n}", html(f"page {n}")) for n in range(5)))
    web.content = {"/crawl-data/a.warc.gz": data}
    places, _ = _index("crawl-data/a.warc.gz", data)
    places[1]["warc_record_offset"] += 7
    places[2]["warc_filename"] = "crawl-data/gone.warc.gz"
    places[4]["warc_record_length"] += 1000
    frame = pd.DataFrame(places)
    reader = CommonCrawlWARCReader(data_prefix=web.address, max_workers=3, max_retries=0, transfer=QUICK)
    batch = reader.process(DocumentBatch(data=frame))
    assert batch.to_pandas()["binary_content"].tolist() == [html("page 0"), html("page 3")]
    assert {one.headers.get("range") for one in web.asked} >= {f"bytes=0-{places[0]['warc_record_length'] - 1}"}
    (lost,) = batch.rejections
    assert (lost.rows, lost.fault) == (3, True)
    assert [bool(re.search(said, error)) for said, error in zip(
        ("record|gzip|begin", "404", r"\d+ of \d+ bytes came"), lost.data["error"].to_pylist(), strict=True
    )] == [True] * 3  # fmt: skip
    kept = replace(reader, drop_failed=False).process(DocumentBatch(data=frame)).to_pandas()
    assert kept["binary_content"].isna().tolist() == [False, True, True, False, True]


@pytest.mark.parametrize(
    "odd", ["\xb2", "9" * 5000, str(2**64), "-1", "1e3", "", "x", 2**62 + 1, -1, 1.5e300, float("inf")]
)
@pytest.mark.parametrize("column", ["warc_record_offset", "warc_record_length"])
def test_an_odd_place_in_an_archive_costs_its_row(odd: Any, column: str, web: Files) -> None:
    data = warc(*((f"https://x.org/{n}", html(f"page {n}")) for n in range(3)))
    web.content = {"/crawl-data/a.warc.gz": data}
    places, _ = _index("crawl-data/a.warc.gz", data)
    values = [odd if n == 1 else type(odd)(place[column]) for n, place in enumerate(places)]
    table = pa.Table.from_pylist(places).drop_columns([column]).append_column(column, pa.array(values))
    reader = CommonCrawlWARCReader(data_prefix=web.address, max_workers=3, max_retries=0, transfer=QUICK)
    batch = reader.process(DocumentBatch(data=table))
    assert batch.to_pandas()["binary_content"].tolist() == [html("page 0"), html("page 2")]
    assert sum(lost.rows for lost in batch.rejections) == 1


@pytest.mark.s3
def test_single_pages_are_fetched_from_a_bucket(
    bucket: tuple[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, options = bucket
    data = warc(*((f"https://x.org/{n}", html(f"page {n}")) for n in range(2)))
    fsspec.filesystem("s3", **options).pipe_file(f"{url}/a.warc.gz", data)
    monkeypatch.setenv("CC_USE_S3", "yes")
    monkeypatch.setenv("CC_S3_BUCKET", url.removeprefix("s3://"))
    monkeypatch.setenv("CC_S3_KEY_PREFIX", "crawl-data/")
    reader = CommonCrawlWARCReader(transfer=Transfer(storage_options=options))
    batch = reader.process(DocumentBatch(data=_index("crawl-data/a.warc.gz", data)[1]))
    assert batch.to_pandas()["binary_content"].tolist() == [html("page 0"), html("page 1")]
