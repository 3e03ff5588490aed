from __future__ import annotations

import base64
import gzip
import hashlib
import os
import random
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fsspec
import pytest

from dcurate import DataError, PipelineError
from dcurate.download import FileDownloader, RemoteFile, Transfer
from dcurate.download.fetch import fetch, read
from dcurate.download.transfer import TransferError
from tests.conftest import process, wait_for
from tests.download.server import Files

pytestmark = pytest.mark.program

QUICK = Transfer(backoff_s=0.01, timeout_s=60)
DATA = random.Random(1).randbytes(100_000)


def test_a_file_is_fetched_whole_and_nothing_else_is_left_beside_it(web: Files, tmp_path: Path) -> None:
    web.content["/a/b.gz"] = DATA
    fetch(RemoteFile(web.url("/a/b.gz")), str(tmp_path / "new" / "b.gz"), QUICK)
    assert (tmp_path / "new" / "b.gz").read_bytes() == DATA
    assert os.listdir(tmp_path / "new") == ["b.gz"]


def test_after_a_break_only_what_is_missing_is_asked_for(web: Files, tmp_path: Path) -> None:
    web.content["/b"] = DATA
    web.fail("/b", ("cut", 30_000), 503, ("cut", 20_000))
    fetch(RemoteFile(web.url("/b")), str(tmp_path / "b"), QUICK)
    assert (tmp_path / "b").read_bytes() == DATA
    assert web.starts("/b") == [0, 30_000, 30_000, 50_000]
    assert [one.headers.get("if-range") for one in web.asked][1:] == [f'"{hashlib.md5(DATA).hexdigest()}"'] * 3


def test_a_file_that_changed_after_a_break_comes_from_its_beginning(web: Files, tmp_path: Path) -> None:
    web.content["/b"] = DATA
    web.fail("/b", ("cut", 30_000))
    with pytest.raises(TransferError, match="30000 bytes read|was lost"):
        fetch(RemoteFile(web.url("/b")), str(tmp_path / "b"), Transfer(attempts=1))
    web.content["/b"] = new = DATA[::-1]
    fetch(RemoteFile(web.url("/b")), str(tmp_path / "b"), QUICK)
    assert (tmp_path / "b").read_bytes() == new


@pytest.mark.parametrize(("ranges", "tags"), [(False, True), (True, False)])
def test_where_a_server_cannot_go_on_the_file_comes_from_its_beginning(
    web: Files, tmp_path: Path, ranges: bool, tags: bool
) -> None:
    web.content["/b"], web.ranges, web.tags = DATA, ranges, tags
    web.fail("/b", ("cut", 30_000))
    fetch(RemoteFile(web.url("/b")), str(tmp_path / "b"), QUICK)
    assert (tmp_path / "b").read_bytes() == DATA
    assert web.starts("/b") == ([0, 30_000] if tags else [0, 0])


def test_a_checksum_lets_a_download_go_on_where_the_server_names_no_version(web: Files, tmp_path: Path) -> None:
    web.content["/b"], web.tags = DATA, False
    web.fail("/b", ("cut", 30_000))
    fetch(RemoteFile(web.url("/b"), digest=f"sha1:{hashlib.sha1(DATA).hexdigest()}"), str(tmp_path / "b"), QUICK)
    assert (tmp_path / "b").read_bytes() == DATA
    assert web.starts("/b") == [0, 30_000]


def test_a_process_killed_within_a_download_is_followed_by_one_that_fetches_the_rest(
    web: Files, tmp_path: Path
) -> None:
    web.content["/b"] = DATA
    web.fail("/b", ("slow", 0.08))
    code = (
        "import sys; from dcurate.download.fetch import fetch; from dcurate.download.transfer import *\n"
        "fetch(RemoteFile(sys.argv[1]), sys.argv[2], Transfer())"
    )
    target = tmp_path / "b"
    with process(sys.executable, "-c", code, web.url("/b"), str(target), log=tmp_path / "log") as started:
        part = tmp_path / "b.part"
        wait_for(part)
        while part.stat().st_size < 20_000:
            time.sleep(0.02)
        started.send_signal(signal.SIGKILL)
        started.wait(60)
    assert not target.exists()
    held = part.stat().st_size
    fetch(RemoteFile(web.url("/b")), str(target), QUICK)
    assert target.read_bytes() == DATA
    assert web.starts("/b") == [0, held]
    assert 20_000 <= held < len(DATA)


def test_an_empty_file_is_asked_for_once(web: Files, tmp_path: Path) -> None:
    web.content["/empty"] = b""
    fetch(RemoteFile(web.url("/empty")), str(tmp_path / "empty"), QUICK)
    assert (tmp_path / "empty").read_bytes() == b""
    assert len(web.asked) == 1


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_a_server_that_is_busy_is_asked_again(web: Files, tmp_path: Path, status: int) -> None:
    web.content["/b"] = DATA
    web.fail("/b", status, status)
    fetch(RemoteFile(web.url("/b")), str(tmp_path / "b"), QUICK)
    assert len(web.asked) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
def test_a_server_that_refuses_is_asked_once(web: Files, tmp_path: Path, status: int) -> None:
    web.content["/b"] = DATA
    web.fail("/b", status)
    with pytest.raises(TransferError, match=f"cannot fetch {web.url('/b')}: {status}"):
        fetch(RemoteFile(web.url("/b")), str(tmp_path / "b"), QUICK)
    assert len(web.asked) == 1


def test_a_server_that_says_when_to_come_back_is_left_alone_until_then(web: Files, tmp_path: Path) -> None:
    web.content["/b"], web.retry_after = DATA, "1"
    web.fail("/b", 429)
    fetch(RemoteFile(web.url("/b")), str(tmp_path / "b"), QUICK)
    first, second = web.asked
    assert second.time - first.time >= 1


def test_a_server_that_falls_silent_is_asked_again(web: Files, tmp_path: Path) -> None:
    web.content["/b"] = DATA
    web.fail("/b", ("silent", 60.0))
    fetch(RemoteFile(web.url("/b")), str(tmp_path / "b"), Transfer(backoff_s=0, timeout_s=2.0))
    assert (tmp_path / "b").read_bytes() == DATA
    assert len(web.asked) == 2


def test_files_are_kept_as_they_are_stored_with_any_declared_encoding(web: Files, tmp_path: Path) -> None:
    web.content["/b.gz"] = packed = gzip.compress(DATA)
    web.fail("/b.gz", ("packed", 0))
    fetch(RemoteFile(web.url("/b.gz")), str(tmp_path / "b.gz"), QUICK)
    assert (tmp_path / "b.gz").read_bytes() == packed


def test_it_is_given_up_after_the_attempts_allowed_with_the_reason_and_the_part_stays(
    web: Files, tmp_path: Path
) -> None:
    web.content["/b"] = DATA
    web.fail("/b", ("cut", 10), 503, 503)
    with pytest.raises(TransferError, match=r"503 .*\(tried 3 times\)"):
        fetch(RemoteFile(web.url("/b")), str(tmp_path / "b"), Transfer(attempts=3, backoff_s=0))
    assert not (tmp_path / "b").exists()
    assert (tmp_path / "b.part").read_bytes() == DATA[:10]


def test_nobody_at_the_address_is_said_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(TransferError, match="cannot fetch http://127.0.0.1:9/b: .*refused"):
        fetch(RemoteFile("http://127.0.0.1:9/b"), str(tmp_path / "b"), Transfer(attempts=1))


@pytest.mark.parametrize(
    ("file", "says"),
    [
        (RemoteFile("/b", digest="sha1:" + "0" * 40), "its sha1 is [0-9a-f]{40}, but 0{40} was announced"),
        (RemoteFile("/b", size=7), "the server has 100000 bytes, but 7 were announced"),
    ],
)
def test_a_file_that_is_not_the_one_announced_never_gets_its_name(
    web: Files, tmp_path: Path, file: RemoteFile, says: str
) -> None:
    web.content["/b"] = DATA
    with pytest.raises(TransferError, match=says):
        fetch(
            RemoteFile(web.url(file.url), file.size, file.digest),
            str(tmp_path / "b"),
            Transfer(attempts=2, backoff_s=0),
        )
    assert not (tmp_path / "b").exists()
    assert web.starts("/b") == [0, 0]


def test_a_file_that_is_there_is_not_asked_for_unless_its_size_is_wrong(web: Files, tmp_path: Path) -> None:
    web.content["/b"] = DATA
    (tmp_path / "b").write_bytes(b"something")
    fetch(RemoteFile(web.url("/b")), str(tmp_path / "b"), QUICK)
    assert web.asked == []
    fetch(RemoteFile(web.url("/b"), size=len(DATA)), str(tmp_path / "b"), QUICK)
    assert (tmp_path / "b").read_bytes() == DATA


def test_a_proxy_of_the_environment_is_asked_instead_of_the_server(
    web: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", web.address.replace("http://", "http://user:pass%21@"))
    monkeypatch.setenv("no_proxy", "")
    web.content["http://example.invalid/b"] = DATA
    fetch(RemoteFile("http://example.invalid/b"), str(tmp_path / "b"), QUICK)
    assert (tmp_path / "b").read_bytes() == DATA
    assert web.asked[0].headers["proxy-authorization"] == "Basic " + base64.b64encode(b"user:pass!").decode()


def test_a_file_that_many_want_at_once_is_fetched_once(web: Files, tmp_path: Path) -> None:
    web.content["/b"] = DATA
    web.fail("/b", ("slow", 0.002))
    with ThreadPoolExecutor(6) as threads:
        for done in [threads.submit(fetch, RemoteFile(web.url("/b")), str(tmp_path / "b"), QUICK) for _ in range(6)]:
            done.result()
    assert (tmp_path / "b").read_bytes() == DATA
    assert web.starts("/b") == [0]
    assert os.listdir(tmp_path) == ["b"]


def test_no_more_connections_are_open_to_a_server_than_allowed(web: Files, tmp_path: Path) -> None:
    polite = Transfer(connections_per_host=2, backoff_s=0)
    for number in range(6):
        web.content[f"/{number}"] = DATA[:5000]
        web.fail(f"/{number}", ("slow", 0.04))
    web.together = 2
    with ThreadPoolExecutor(6) as threads:
        for done in [
            threads.submit(fetch, RemoteFile(web.url(f"/{n}")), str(tmp_path / str(n)), polite) for n in range(6)
        ]:
            done.result()
    assert web.busiest == 2


def test_requests_to_a_server_keep_their_distance(web: Files) -> None:
    web.content["/b"] = b"x"
    polite = Transfer(requests_per_second=20)
    threads = [threading.Thread(target=read, args=(web.url("/b"), polite)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(one.time for one in web.asked) - min(one.time for one in web.asked) >= 0.15


def test_a_file_of_a_disk_or_of_memory_is_fetched_as_one_of_a_server_is(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(DATA)
    fetch(RemoteFile(f"file://{tmp_path}/there"), str(tmp_path / "b"), QUICK)
    assert (tmp_path / "b").read_bytes() == DATA
    with pytest.raises(TransferError, match="no such file"):
        fetch(RemoteFile(f"file://{tmp_path}/nothing"), str(tmp_path / "c"), QUICK)


@pytest.mark.s3
def test_a_download_from_s3_goes_on_from_where_it_stopped_unless_the_object_changed(bucket, tmp_path: Path) -> None:
    url, options = bucket
    store = fsspec.filesystem("s3", **options)
    store.pipe_file(f"{url}/a.tar", DATA)
    transfer = Transfer(storage_options=options, backoff_s=0.01)
    tag = store.info(f"{url}/a.tar")["ETag"].strip('"')
    for content, marker in ((DATA, b"+" * 1000), (DATA[::-1], b"-" * 1000)):
        store.pipe_file(f"{url}/a.tar", content)
        (tmp_path / "a.part").write_bytes(marker)
        (tmp_path / "a.part.json").write_text(f'{{"url": "{url}/a.tar", "validator": "{tag}"}}')
        fetch(RemoteFile(f"{url}/a.tar"), str(tmp_path / "a"), transfer)
        expected = marker + DATA[1000:] if content is DATA else content
        assert (tmp_path / "a").read_bytes() == expected
        (tmp_path / "a").unlink()


@pytest.mark.s3
def test_missing_credentials_end_it_at_once(s3_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    options = {"client_kwargs": {"endpoint_url": s3_server}, "skip_instance_cache": True}
    with pytest.raises(DataError, match="cannot fetch s3://bucket/a: .*credentials") as raised:
        fetch(RemoteFile("s3://bucket/a"), str(tmp_path / "a"), Transfer(storage_options=options))
    assert not isinstance(raised.value, TransferError)


def test_a_disk_that_is_full_ends_it_before_the_transfer(web: Files, small_disk: Path) -> None:
    web.content["/b"] = DATA * 20
    with pytest.raises(DataError, match="no space left for .*2,000,000 more bytes are needed"):
        fetch(RemoteFile(web.url("/b")), str(small_disk / "b"), QUICK)


def test_secrets_are_not_printed() -> None:
    transfer = Transfer(headers={"Authorization": "s3cr3t"}, storage_options={"secret": "s3cr3t"})
    shown = repr(FileDownloader("files", transfer=transfer))
    assert "attempts=5" in shown
    assert "s3cr3t" not in shown


def test_settings_out_of_range_are_refused() -> None:
    settings: Any
    for settings in ({"attempts": 0}, {"connections_per_host": -1}, {"requests_per_second": 0}, {"backoff_s": -1}):
        with pytest.raises(PipelineError, match=next(iter(settings))):
            Transfer(**settings)
