from __future__ import annotations

import json
import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dcurate import (
    BatchKey,
    DaskExecutor,
    DataError,
    FileGroup,
    InlineExecutor,
    JsonlWriter,
    LocalCluster,
    Pipeline,
    PipelineError,
    ResourceError,
)
from dcurate.download import (
    DownloadAndExtract,
    DownloadFiles,
    FileDownloader,
    GenerateUrls,
    IterateDocuments,
    RemoteFile,
    Skipped,
    Transfer,
    WikipediaDownloader,
)
from dcurate.download.transfer import TransferError
from tests.download.own import OwnDownloader, OwnExtractor, OwnIterator, OwnUrls
from tests.download.results import counts, quarantined, rows, run
from tests.download.server import Files

pytestmark = pytest.mark.cluster

QUICK = Transfer(backoff_s=0, timeout_s=60, attempts=2)


def lines(*records: Mapping[str, Any] | str) -> bytes:
    return "".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in records).encode()


def source(web: Files, folder: Path, **settings: Any) -> DownloadAndExtract:
    settings.setdefault("downloader", FileDownloader(str(folder / "files"), transfer=QUICK))
    urls = OwnUrls([web.url(path) for path in sorted(web.content)])
    return DownloadAndExtract(urls, iterator=OwnIterator(), extractor=OwnExtractor(), **settings)


@pytest.mark.parametrize("mode", ["inline", "streaming"])
def test_a_source_written_for_nemo_curator_runs_and_what_it_loses_is_reported(
    web: Files, tmp_path: Path, mode: str, request: pytest.FixtureRequest
) -> None:
    web.content = {
        "/a.jsonl": lines({"id": 1, "raw": "one"}, {"id": 2, "raw": "x"}, {"id": 3, "raw": "three"}),
        "/b.jsonl": lines({"id": 4, "raw": "four"}, {"id": 5, "raw": None}, {"id": 6, "raw": "six"}, "broken"),
        "/c.jsonl": lines({"id": 7, "raw": "seven"}),
    }
    stage = source(web, tmp_path, downloader=OwnDownloader(str(tmp_path / "files")))
    web.fail("/c.jsonl", 404)
    cluster: LocalCluster | None = request.getfixturevalue("cluster") if mode == "streaming" else None
    result = run(stage, tmp_path, InlineExecutor() if cluster is None else DaskExecutor(cluster=cluster))
    assert rows(tmp_path) == [
        {"id": 1, "text": "ONE", "file_name": "a.jsonl"},
        {"id": 3, "text": "THREE", "file_name": "a.jsonl"},
        {"id": 4, "text": "FOUR", "file_name": "b.jsonl"},
        {"id": 6, "text": "SIX", "file_name": "b.jsonl"},
    ]
    assert counts(result) == {"no text": 1, "extraction failed": 1, "unreadable file": 1, "not fetched": 1}
    said = {one["_dcurate_reason"]: one for one in quarantined(tmp_path)}
    assert said["not fetched"]["url"] == web.url("/c.jsonl")
    assert "404" in said["not fetched"]["error"]
    assert (said["extraction failed"]["file"], said["extraction failed"]["id"]) == ("b.jsonl", "5")
    assert "TypeError" in said["extraction failed"]["error"]
    assert "in extract" in said["extraction failed"]["traceback"]
    assert "JSONDecodeError" in said["unreadable file"]["error"]


def test_columns_are_known_before_anything_is_fetched(web: Files, tmp_path: Path) -> None:
    web.content = {"/a.jsonl": b""}
    pipeline = Pipeline(
        "p", stages=[source(web, tmp_path, add_filename_field="from"), JsonlWriter("out", fields=["title"])]
    )
    with pytest.raises(PipelineError, match="'title'.*'id', 'text', 'from'"):
        pipeline.run(InlineExecutor())
    assert web.asked == []


def test_a_run_can_be_made_to_end_at_the_first_file_or_record_that_is_lost(web: Files, tmp_path: Path) -> None:
    web.content = {"/a.jsonl": lines({"id": 5, "raw": None})}
    with pytest.raises(
        DataError, match=r"a.jsonl, record 5: extraction failed: TypeError.*; set on_error='quarantine'"
    ):
        run(source(web, tmp_path, on_error="raise"), tmp_path)
    web.content = {"/b.jsonl": b""}
    web.fail("/b.jsonl", 403)
    with pytest.raises(TransferError, match="403"):
        run(source(web, tmp_path, on_error="raise"), tmp_path)
    with pytest.raises(PipelineError, match="on_error='ignore' must be"):
        source(web, tmp_path, on_error="ignore")
    for limit in ("url_limit", "record_limit"):
        with pytest.raises(PipelineError, match="limit=0 must be at least 1"):
            source(web, tmp_path, **{limit: 0})


def test_limits_hold_for_files_and_for_rows_of_each(web: Files, tmp_path: Path) -> None:
    record = [{"id": n, "raw": "text" if n else "x"} for n in range(5)]
    web.content = {f"/{name}.jsonl": lines(*record) for name in "abc"}
    run(source(web, tmp_path, url_limit=2, record_limit=2, add_filename_field=False), tmp_path)
    assert [one["id"] for one in rows(tmp_path)] == [1, 2, 1, 2]
    assert web.starts("/c.jsonl") == []


def test_a_run_that_is_resumed_fetches_only_what_is_missing(web: Files, tmp_path: Path) -> None:
    web.content = {f"/{n}.jsonl": lines({"id": n, "raw": "text"}) for n in range(4)}
    web.fail("/2.jsonl", ("cut", 10), ("cut", 3))
    one = FileDownloader(str(tmp_path / "files"), transfer=Transfer(backoff_s=0, attempts=2, connections_per_host=1))
    with pytest.raises(TransferError):
        run(source(web, tmp_path, downloader=one, on_error="raise"), tmp_path)
    asked = len(web.asked)
    result = run(source(web, tmp_path), tmp_path, resume=True)
    assert [row["id"] for row in rows(tmp_path)] == [0, 1, 2, 3]
    assert result.report.splits_before >= 1
    assert web.starts("/2.jsonl") == [0, 10, 13]
    assert len(web.asked) <= asked + 2


def test_a_file_that_could_not_be_fetched_is_asked_for_again_when_the_run_is_resumed(
    web: Files, tmp_path: Path
) -> None:
    web.content = {f"/{n}.jsonl": lines({"id": n, "raw": "text"}) for n in range(3)}
    web.fail("/1.jsonl", 404, 404)
    for there, before in (([0, 2], 0), ([0, 2], 2), ([0, 1, 2], 2), ([0, 1, 2], 3)):
        result = run(source(web, tmp_path), tmp_path, resume=True)
        assert [one["id"] for one in rows(tmp_path)] == there
        assert result.report.splits_before == before
    assert len(web.starts("/1.jsonl")) == 3


def test_files_that_were_read_are_deleted_where_that_is_asked_for(web: Files, tmp_path: Path) -> None:
    web.content = {f"/{n}.jsonl": lines({"id": n, "raw": "text"}) for n in range(3)}
    run(source(web, tmp_path, keep_files=False), tmp_path)
    assert len(rows(tmp_path)) == 3
    assert os.listdir(tmp_path / "files") == []


def test_a_file_that_is_not_on_the_host_is_fetched_there_again(web: Files, tmp_path: Path) -> None:
    web.content = {"/a.jsonl": lines({"id": 1, "raw": "text"})}
    there, here = (FileDownloader(str(tmp_path / name), transfer=QUICK) for name in ("there", "here"))
    listed = next(GenerateUrls(OwnUrls([web.url("/a.jsonl")])).splits())
    fetched = pickle.loads(pickle.dumps(DownloadFiles(there).process(listed)))
    os.unlink(there.target(web.url("/a.jsonl")))
    (batch,) = IterateDocuments(OwnIterator(), downloader=here).process(fetched)
    assert batch.to_arrow()["id"].to_pylist() == [1]
    os.unlink(here.target(web.url("/a.jsonl")))
    web.fail("/a.jsonl", 404)
    (batch,) = IterateDocuments(OwnIterator(), downloader=here).process(fetched)
    assert [(one.reason, one.fault) for one in batch.rejections] == [("not fetched", True)]
    with pytest.raises(DataError, match="is not on this host; name a download_dir that all workers see"):
        IterateDocuments(OwnIterator()).process(fetched)


def test_splits_are_named_by_the_paths_of_addresses_and_each_address_counts_once() -> None:
    urls = ["https://a/x/1.gz", "https://b/x/1.gz", "https://a/2.gz", "https://a/2.gz", "https://a/get?id=3"]
    splits = list(GenerateUrls(OwnUrls(urls)).splits())
    assert [str(split.key) for split in splits] == [urls[0], urls[1], "2.gz", "get?id=3"]
    with pytest.raises(DataError, match="lists no file"):
        next(GenerateUrls(OwnUrls([])).splits())


def test_two_addresses_never_share_a_file(web: Files, tmp_path: Path) -> None:
    own, general = OwnDownloader(str(tmp_path)), FileDownloader(str(tmp_path))
    urls = ["https://one/a?id=1", "https://one/a?id=2", "https://one/a", "https://two/a"]
    assert len({general.target(url) for url in urls}) == 4
    assert len(list(GenerateUrls(OwnUrls(urls), downloader=general).splits())) == 4
    with pytest.raises(
        DataError, match="https://one/a and https://two/a would both be saved as .*gives them different names"
    ):
        next(GenerateUrls(OwnUrls(urls), downloader=own).splits())


def test_what_is_downloaded_counts_with_the_bytes_that_it_has_on_the_disk(web: Files, tmp_path: Path) -> None:
    web.content = {"/a": b"x" * 5000}
    stage = DownloadFiles(FileDownloader(str(tmp_path), transfer=QUICK))
    files = stage.process(FileGroup(key=BatchKey("a"), parts=(RemoteFile(web.url("/a")).part,)))
    assert (files.nbytes, files.__sizeof__() < 2000) == (5000, True)


def test_one_slot_fetches_as_many_files_at_a_time_as_connections_are_allowed(web: Files, tmp_path: Path) -> None:
    web.content = {f"/{n}": b"x" * 10_000 for n in range(6)}
    for path in web.content:
        web.fail(path, ("slow", 0.01))
    for limit, wanted in ((None, 6), (3, 3)):
        web.busiest, web.together = 0, wanted
        stage = DownloadFiles(FileDownloader(str(tmp_path / str(limit)), transfer=Transfer(connections_per_host=limit)))
        tasks = [FileGroup(key=BatchKey(path), parts=(RemoteFile(web.url(path)).part,)) for path in web.content]
        done = stage.process_batch(tasks[: stage.batch_size])
        assert [files.key for files in done] == [task.key for task in tasks[: stage.batch_size]]
        assert web.busiest == wanted
        for path in web.content:
            web.fail(path, ("slow", 0.01))


def test_downloading_has_a_slot_of_its_own_where_connections_are_few_and_cores_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited = FileDownloader(str(tmp_path), transfer=Transfer(connections_per_host=4))
    for cores, slots in ((2, None), (64, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
        assert DownloadFiles(limited).spec.num_workers_per_node == slots
        assert DownloadFiles(FileDownloader(str(tmp_path))).spec.num_workers_per_node is None
        assert DownloadFiles(WikipediaDownloader(str(tmp_path))).spec.num_workers_per_node == 1


def test_a_downloader_that_names_a_file_elsewhere_is_refused(tmp_path: Path) -> None:
    class Elsewhere(FileDownloader):
        def _get_output_filename(self, url: str) -> str:
            return "../" + url.rpartition("/")[2]

    with pytest.raises(TransferError, match="cannot be the name of a file"):
        Elsewhere(str(tmp_path)).download("https://host/a")
    with pytest.raises(PipelineError, match="directory on a disk of the workers"):
        FileDownloader("s3://bucket/files")


def test_sources_of_equal_settings_are_equal_and_print_them(tmp_path: Path) -> None:
    def made(name: str) -> DownloadAndExtract:
        return DownloadAndExtract(OwnUrls(["u"]), OwnDownloader(str(tmp_path / name)), OwnIterator())

    assert made("a") == made("a")
    assert made("a") != made("b")
    assert f"OwnDownloader(download_dir='{tmp_path}/a')" in repr(made("a"))


def test_what_a_downloader_raises_is_the_reason_why_a_file_is_not_fetched(web: Files, tmp_path: Path) -> None:
    class Raising(OwnDownloader):
        def _download_to_path(self, url: str, path: str) -> tuple[bool, str | None]:
            Path(path).write_bytes(b"half")
            raise ConnectionError("went away")

    stage = DownloadFiles(Raising(str(tmp_path)))
    batch = stage.process(FileGroup(key=BatchKey("a"), parts=(RemoteFile("https://host/a").part,)))
    (rejection,) = batch.rejections
    assert (batch.num_items, rejection.reason, rejection.fault) == (0, "not fetched", True)
    assert rejection.data["error"].to_pylist() == ["cannot fetch https://host/a: ConnectionError: went away"]
    assert os.listdir(tmp_path) == [".failed"]


def test_text_that_is_no_unicode_goes_to_quarantine_alone(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines({"id": 1, "raw": "\ud800"}, {"id": 2, "raw": "fine"}))
    (batch,) = IterateDocuments(OwnIterator()).process(FileGroup.of([str(tmp_path / "a.jsonl")]))
    assert batch.to_arrow()["id"].to_pylist() == [2]
    (rejection,) = batch.rejections
    assert (rejection.reason, rejection.rows, rejection.fault) == ("not Unicode", 1, True)


def test_large_files_give_several_batches_and_no_file_gives_none_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dcurate.download.iterate.BATCH_BYTES", 100)
    (tmp_path / "a.jsonl").write_bytes(lines(*({"id": n, "raw": "x" * 30} for n in range(10))))
    batches = IterateDocuments(OwnIterator()).process(FileGroup.of([str(tmp_path / "a.jsonl")]))
    assert [batch.to_arrow()["id"].to_pylist() for batch in batches] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]


def test_a_package_that_is_missing_ends_the_run(tmp_path: Path) -> None:
    class Needy(OwnExtractor):
        def extract(self, record: dict[str, Any]) -> dict[str, Any] | None:
            raise ResourceError("this needs the 'wiki' extra")

    (tmp_path / "a.jsonl").write_bytes(lines({"id": 1, "raw": "text"}))
    with pytest.raises(ResourceError, match="extra"):
        IterateDocuments(OwnIterator(), Needy()).process(FileGroup.of([str(tmp_path / "a.jsonl")]))


def test_an_extractor_may_say_why_a_record_gives_no_row(tmp_path: Path) -> None:
    class Choosy(OwnExtractor):
        def extract(self, record: dict[str, Any]) -> Any:
            return Skipped("too old", id="by name")

    (tmp_path / "a.jsonl").write_bytes(lines({"id": 1, "raw": "text"}, {"id": 2, "raw": "text"}))
    (batch,) = IterateDocuments(OwnIterator(), Choosy()).process(FileGroup.of([str(tmp_path / "a.jsonl")]))
    (rejection,) = batch.rejections
    assert (batch.num_items, rejection.reason, rejection.rows, rejection.fault) == (0, "too old", 2, False)
    assert rejection.data["id"].to_pylist() == ["by name", "by name"]


ODD = [
    "https://127.0.0.1:9/" + "a" * 5000 + ".warc.gz",
    "https://host/a\0b",
    "https://" + "h" * 300 + "/a",
    "https://[host/a",
]


def test_odd_addresses_cost_no_other_file(tmp_path: Path) -> None:
    class Odd(OwnUrls):
        def generate_urls(self) -> list[str]:
            return [*ODD, f"file://{tmp_path}/good.txt"]

    (tmp_path / "good.txt").write_text("good")
    downloader = FileDownloader(str(tmp_path / "files"), transfer=Transfer(attempts=1, timeout_s=0.001))
    source = GenerateUrls(Odd([]), downloader=downloader)
    stage = DownloadFiles(downloader)
    results = [stage.process(split) for split in source.splits()]
    assert [len(result.parts) for result in results] == [0, 0, 0, 0, 1]
    faults = [row for result in results for each in result.rejections for row in each.data.to_pylist()]
    assert [fault["url"] for fault in faults] == ODD
    assert "cannot be the name of a file" in faults[1]["error"]
    assert "check the address" in faults[3]["error"]


def test_names_too_long_for_a_file_are_shortened_and_stay_apart(tmp_path: Path) -> None:
    downloader = FileDownloader(str(tmp_path))
    urls = [f"https://host/{middle * 400}{mark}.warc.gz" for middle in "aé" for mark in "12"]
    names = [os.path.basename(downloader.target(url)) for url in urls]
    assert len(set(names)) == 4
    assert all(name.endswith(".warc.gz") and len(os.fsencode(name)) <= 230 for name in names)
    assert os.path.basename(downloader.target(f"https://host/{'a' * 200}")) == f"host-{'a' * 200}"


def test_an_address_that_is_no_text_is_refused() -> None:
    class Odd(OwnUrls):
        def generate_urls(self) -> list[str]:
            return ["https://host/\udcff"]

    with pytest.raises(DataError, match="is not valid text; correct it"):
        list(GenerateUrls(Odd([])).splits())
