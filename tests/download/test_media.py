"""Lists of URLs: each is fetched, dropped with the objection of its owner, or in quarantine with its reason."""

import gzip
import json
import re
import tarfile
import time
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import InlineExecutor, JsonlReader, Pipeline, PipelineError, WebDatasetWriter
from dcurate.download import FetchMedia, Transfer, addresses, connections, media
from dcurate.rights.headers import robots_tags
from dcurate.rights.robots import Robots
from tests.download.server import certified, dripping, served
from tests.growth import assert_quick

QUICK = Transfer(attempts=2, backoff_s=0.01, timeout_s=60)
IMAGE = b"the bytes of a picture"


@pytest.fixture
def site(web):
    web.content |= {f"/{name}.png": IMAGE + name.encode() for name in "abcdefgh"}
    web.content["/robots.txt"] = b"User-agent: *\nDisallow: /b\nUser-agent: other\nDisallow: /\n"
    web.content["/.well-known/tdmrep.json"] = b'[{"location": "/c*", "tdm-reservation": 1}]'
    web.content["/f.png"] = gzip.compress(IMAGE)
    web.headers = {
        "/d.png": [("X-Robots-Tag", "nofollow, NoAI"), ("Content-Type", "image/png; x=y")],
        "/e.png": [("tdm-reservation", "1")],
        "/f.png": [("Content-Encoding", "gzip"), ("X-Robots-Tag", "other: noai")],
    }
    web.fail("/g.png", 503, ("cut", 3))
    return web


def listed(folder, urls):
    path = folder / "urls.jsonl"
    path.write_text("".join(json.dumps({"url": url, "text": f"caption of {url}"}) + "\n" for url in urls))
    return JsonlReader(str(path))


def run(*stages):
    return Pipeline("urls", stages=list(stages)).run(InlineExecutor(), observers=[])


def test_each_url_is_fetched_dropped_or_in_quarantine_and_the_failed_are_tried_again_alone(site, tmp_path):
    paths = ["/a.png", "/b.png", "/c.png", "/d.png", "/e.png", "/f.png", "/g.png", "/none.png"]
    urls = [*map(site.url, paths), "file:///etc/passwd", "http://[bad", None]
    out = tmp_path / "out"
    result = run(
        listed(tmp_path, urls),
        FetchMedia(private=True, transfer=QUICK),
        WebDatasetWriter(str(out), members={"txt": "text"}),
    )
    fetched = result.report.stages[1]
    assert fetched.dropped == {
        "opted out: robots.txt": 1,
        "opted out: TDMRep": 2,
        "opted out: X-Robots-Tag noai": 1,
    }
    assert fetched.faulty == {"no answer": 1, "HTTP 404": 1, "bad address": 3}
    assert fetched.rows_in == fetched.rows_out + sum(fetched.dropped.values()) + sum(fetched.faulty.values())
    assert not site.starts("/b.png")
    [shard] = out.glob("*.tar")
    with tarfile.open(shard) as archive:
        bodies = [archive.extractfile(info).read() for info in archive]
    assert bodies == [IMAGE + b"a", f"caption of {urls[0]}".encode(), IMAGE, f"caption of {urls[5]}".encode()]
    site.asked.clear()
    again = run(
        JsonlReader(str(tmp_path / "out.dcurate" / "quarantine")),
        FetchMedia(private=True, transfer=QUICK).with_(overwrite=True),
        WebDatasetWriter(str(tmp_path / "again"), members={"txt": "text"}),
    )
    assert again.report.stages[1].rows_out == 1
    assert {one.path for one in site.asked} <= {"/g.png", "/none.png"}


def test_rows_of_owners_who_object_can_be_kept_with_a_flag(site, tmp_path):
    urls = [site.url(f"/{name}.png") for name in "abcd"]
    [batch] = run(listed(tmp_path, urls), FetchMedia(private=True, transfer=QUICK, on_opt_out="flag"))
    rows = batch.to_arrow().to_pylist()
    assert [(row["opted_out"], row["bytes"] is None) for row in rows] == [
        (None, False),
        ("robots.txt", True),
        ("TDMRep", False),
        ("X-Robots-Tag noai", False),
    ]
    assert [row["rights_robots"] for row in rows] == ["allowed", "disallowed", "allowed", "allowed"]
    assert (rows[3]["rights_x_robots_tag"], rows[3]["mime_type"], rows[2]["rights_tdm"]) == (
        "nofollow, noai",
        "image/png",
        True,
    )


@pytest.fixture
def other():
    """Another site, with rules of its own."""
    with served() as server:
        server.content |= {
            "/robots.txt": b"User-agent: *\nDisallow: /private/",
            "/a.png": IMAGE,
            "/private/a.png": IMAGE,
        }
        server.content["/.well-known/tdmrep.json"] = b'[{"location": "/t*", "tdm-reservation": 1}]'
        server.content["/t.png"] = IMAGE
        yield server


def test_each_site_that_a_file_is_redirected_to_is_asked_for_its_rules_and_gets_no_secrets(web, other, tmp_path):
    ends = {
        "/good.png": other.url("/a.png"),
        "/private.png": other.url("/private/a.png"),
        "/reserved.png": other.url("/t.png"),
        "/here.png": "/a.png",
        "/round.png": "/round.png",
        "/local.png": "file:///etc/passwd",
        "/bad.png": "http://[bad",
    }
    web.content["/a.png"] = IMAGE
    for path, location in ends.items():
        web.fail(path, *[302] * 9)
        web.headers[path] = [("Location", location)]
    transfer = replace(QUICK, connections_per_host=1, headers={"X-Secret": "s", "User-Agent": "us/1"})
    result = run(listed(tmp_path, map(web.url, ends)), FetchMedia(private=True, transfer=transfer))
    [batch] = result
    assert [url.rpartition("/")[2] for url in batch.to_arrow()["url"].to_pylist()] == ["good.png", "here.png"]
    assert result.report.stages[1].dropped == {"opted out: robots.txt": 1, "opted out: TDMRep": 1}
    assert result.report.stages[1].faulty == {"no answer": 1, "bad address": 2}
    assert not other.starts("/private/a.png")
    assert all("x-secret" not in one.headers for one in other.asked)
    assert all(one.headers["user-agent"] == "us/1" for one in other.asked)
    assert any(one.headers.get("x-secret") == "s" for one in web.asked)
    assert Counter(one.path for one in other.asked)["/robots.txt"] == 1


def test_a_site_whose_rules_cannot_be_had_is_not_read_and_one_without_rules_is(web, tmp_path):
    web.content["/a.png"] = IMAGE
    web.fail("/robots.txt", 500, 500)
    reader = listed(tmp_path, [web.url("/a.png")])
    result = run(reader, FetchMedia(private=True, transfer=QUICK))
    assert list(result) == []
    assert result.report.stages[1].faulty == {"robots.txt cannot be had": 1}
    [batch] = run(reader, FetchMedia(private=True, transfer=QUICK))
    assert batch.to_arrow()["bytes"].to_pylist() == [IMAGE]
    assert Counter(one.path for one in web.asked) == {"/robots.txt": 3, "/.well-known/tdmrep.json": 1, "/a.png": 1}


def test_a_site_whose_rules_cannot_be_had_is_asked_once_for_all_its_urls(web, tmp_path):
    web.fail("/robots.txt", *[500] * 3000)
    urls = [web.url(f"/{number}.png") for number in range(1000)]
    stage = FetchMedia(private=True, transfer=QUICK)
    for _ in range(2):
        result = run(listed(tmp_path, urls), stage)
        assert result.report.stages[1].faulty == {"robots.txt cannot be had": 1000}
    assert [one.path for one in web.asked] == ["/robots.txt"] * QUICK.attempts


@pytest.mark.parametrize("asked", ["3600", "9" * 20, "Fri, 31 Dec 9999 23:59:59 GMT"])
@pytest.mark.parametrize("robots", [True, False])
def test_a_server_that_asks_to_wait_longer_than_a_file_may_take_is_left(asked, robots, web, tmp_path):
    web.retry_after = asked
    urls = [web.url(f"/{number}.png") for number in range(40)]
    for url in urls:
        web.fail(url.removeprefix(web.address), 429, 503)
    web.fail("/robots.txt", 503, 503)
    result = run(listed(tmp_path, urls), FetchMedia(private=True, transfer=QUICK, robots=robots))
    if robots:
        assert result.report.stages[1].faulty == {"robots.txt cannot be had": 40}
        assert [one.path for one in web.asked] == ["/robots.txt"]
    else:
        assert result.report.stages[1].faulty == {"HTTP 429": 40}
        assert len(web.asked) == 40


def test_waits_that_a_server_asks_for_are_added_up(web, tmp_path):
    web.retry_after = "1"
    web.fail("/a.png", *[503] * 9)
    reader = listed(tmp_path, [web.url("/a.png")])
    transfer = replace(QUICK, attempts=9)
    result = run(reader, FetchMedia(private=True, transfer=transfer, robots=False, file_timeout_s=1.5))
    assert result.report.stages[1].faulty == {"HTTP 503": 1}
    assert len(web.asked) == 2


@pytest.mark.parametrize("location", ["http://[bad", "file:///etc/passwd", "http://host:x/", "/robots.txt", "//"])
@pytest.mark.parametrize("private", [True, False])
def test_rules_that_redirect_to_nowhere_cannot_be_had(location, private, web, tmp_path, monkeypatch):
    monkeypatch.setattr(addresses, "is_public", lambda address: True)
    monkeypatch.setattr(connections, "_checked", lambda connected: connected)
    web.fail("/robots.txt", *[302] * 9)
    web.headers["/robots.txt"] = [("Location", location)]
    result = run(listed(tmp_path, [web.url("/a.png")]), FetchMedia(private=private, transfer=QUICK))
    assert result.report.stages[1].faulty == {"robots.txt cannot be had": 1}


def test_no_host_is_asked_for_more_at_a_time_than_the_limit_and_large_files_are_refused(web, tmp_path):
    web.content |= {f"/{number}.png": bytes(5000) for number in range(8)}
    for number in range(8):
        web.fail(f"/{number}.png", ("slow", 0.01))
    transfer = Transfer(connections_per_host=2, timeout_s=5.0)
    reader = listed(tmp_path, [web.url(f"/{number}.png") for number in range(8)])
    [batch] = run(reader, FetchMedia(private=True, transfer=transfer, robots=False))
    assert batch.num_items == 8
    assert web.busiest <= 2
    result = run(reader, FetchMedia(private=True, transfer=transfer, robots=False, limit=4999))
    assert result.report.stages[1].faulty == {"too large": 8}


def test_a_server_that_sends_a_little_for_ever_is_left(web, tmp_path):
    web.content["/a.png"] = bytes(10_000_000)
    web.fail("/a.png", ("slow", 0.05), ("slow", 0.05))
    reader = listed(tmp_path, [web.url("/a.png")])
    begin = time.monotonic()
    result = run(reader, FetchMedia(private=True, transfer=QUICK, robots=False, file_timeout_s=0.3))
    assert result.report.stages[1].faulty == {"no answer": 1}
    assert time.monotonic() - begin < 20


def test_private_networks_are_refused_also_after_a_redirect(web, tmp_path, monkeypatch):
    web.content["/a.png"] = IMAGE
    result = run(listed(tmp_path, [web.url("/a.png")]), FetchMedia(transfer=QUICK))
    assert result.report.stages[1].faulty == {"private network": 1}
    assert not web.asked
    web.fail("/r.png", 302)
    web.headers["/r.png"] = [("Location", "http://[::1]:1/")]
    monkeypatch.setattr(addresses, "is_public", lambda address: address == "127.0.0.1")
    monkeypatch.setattr(connections, "_checked", lambda connected: connected)
    result = run(listed(tmp_path, [web.url("/r.png")]), FetchMedia(robots=False, transfer=QUICK))
    assert result.report.stages[1].faulty == {"private network": 1}
    assert [one.path for one in web.asked] == ["/r.png"]


def test_a_name_that_becomes_one_of_a_private_network_after_it_was_looked_up_is_refused(web, tmp_path, monkeypatch):
    monkeypatch.setattr(addresses, "is_public", lambda address: True)
    result = run(listed(tmp_path, [web.url("/a.png")]), FetchMedia(robots=False, transfer=QUICK))
    assert result.report.stages[1].faulty == {"private network": 1}
    assert not web.asked


@pytest.fixture
def secure(tmp_path, monkeypatch):
    """A server of files by HTTPS."""
    certificate = certified(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    connections._pool.cache_clear()
    with served(certificate) as server:
        yield server
    connections._pool.cache_clear()


def test_files_are_fetched_by_https_and_the_same_waits_end(secure, tmp_path):
    secure.content |= {f"/{number}.png": IMAGE for number in range(9)}
    secure.content["/slow.png"] = bytes(10_000_000)
    secure.fail("/slow.png", ("slow", 0.05), ("slow", 0.05))
    secure.fail("/silent.png", ("silent", 2.0), ("silent", 2.0))
    transfer = Transfer(attempts=2, backoff_s=0.01, timeout_s=0.5, connections_per_host=1)
    urls = [secure.url(f"/{name}.png") for name in (*range(9), "slow", "silent")]
    result = run(listed(tmp_path, urls), FetchMedia(private=True, transfer=transfer, file_timeout_s=0.5))
    [batch] = result
    assert batch.to_arrow()["bytes"].to_pylist() == [IMAGE] * 9
    assert result.report.stages[1].faulty == {"no answer": 2}


def test_private_networks_are_refused_by_https_too(secure, tmp_path, monkeypatch):
    monkeypatch.setattr(addresses, "is_public", lambda address: True)
    result = run(listed(tmp_path, [secure.url("/a.png")]), FetchMedia(robots=False, transfer=QUICK))
    assert result.report.stages[1].faulty == {"private network": 1}
    assert not secure.asked


FOREVER = {
    "a header": (b"HTTP/1.1 200 OK\r\nX-A: ", b"a"),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"X-A: a\r\n"),
    "continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "the length of a chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0"),
    "a trailer": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n", b"X-A: a\r\n"),
    "a redirect": (b"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n", b"a"),
    "content": (b"HTTP/1.1 200 OK\r\n\r\n", b"a"),
}


@pytest.mark.parametrize("kind", FOREVER)
@pytest.mark.parametrize("robots", [True, False])
def test_a_server_that_never_ends_an_answer_is_left_in_time(kind, robots, tmp_path):
    with dripping(*FOREVER[kind]) as address:
        begin = time.monotonic()
        stage = FetchMedia(private=True, transfer=replace(QUICK, timeout_s=0.3), robots=robots, file_timeout_s=0.6)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(media, "_RULES_S", 0.6)
            result = run(listed(tmp_path, [f"{address}/a.png"]), stage)
        assert result.report.stages[1].faulty == {"robots.txt cannot be had" if robots else "no answer": 1}
        assert time.monotonic() - begin < 10


def test_robots_txt_is_read_as_rfc_9309_has_it():
    text = """
    # a comment
    User-agent: a
    User-agent: DCurate/1.0   # another
    Disallow: /x
    Allow: /x/open
    Disallow: /*.gif$
    Disallow:

    User-agent: *
    Disallow: /
    """
    robots = Robots.of(text, "dcurate")
    paths = ["/", "/x", "/xy", "/x/open", "/a/b.gif", "/a/b.gif?c", "/y"]
    assert [robots.allows(path) for path in paths] == [True, False, False, True, False, True, True]
    assert not Robots.of(text, "nobody").allows("/y")
    assert Robots.of("", "dcurate").allows("/")


@pytest.mark.parametrize(
    "path", ["/private/a", "/x/../private/a", "/./private/a", "/caf\xe9", "/caf%C3%A9", "/caf%c3%a9", "/a b", "/a%20b"]
)
def test_a_path_is_compared_as_it_is_asked_for(path, web, tmp_path):
    web.content["/robots.txt"] = "User-agent: *\nDisallow: /private/\nDisallow: /caf\xe9\nDisallow: /a%20b".encode()
    result = run(listed(tmp_path, [web.url(path)]), FetchMedia(private=True, transfer=QUICK))
    assert result.report.stages[1].dropped == {"opted out: robots.txt": 1}
    assert not {one.path for one in web.asked} - {"/robots.txt", "/.well-known/tdmrep.json"}


@settings(max_examples=50, deadline=None)
@given(st.text(alphabet="/a*$", max_size=12), st.text(alphabet="/a", max_size=12))
def test_patterns_match_as_regular_expressions_do(pattern, path):
    ends = pattern.endswith("$")
    parts = (pattern[:-1] if ends else pattern).split("*")
    wanted = re.compile(".*".join(map(re.escape, parts)) + ("$" if ends else "")).match(path) is not None
    assert Robots.of(f"User-agent: *\nDisallow: {pattern}", "x").allows(path) is (not wanted or not pattern)


def test_a_hostile_pattern_takes_no_time():
    def read():
        assert Robots.of("User-agent: *\nDisallow: /" + "*a" * 20_000 + "b", "x").allows("/" + "a" * 20_000)
        assert robots_tags([("X-Robots-Tag", "a:" * 100_000)], "x") == []

    assert_quick(read, 1)


def test_wrong_settings_are_refused():
    with pytest.raises(PipelineError, match=r"on_opt_out='keep' must be 'drop' or 'flag'"):
        FetchMedia(on_opt_out="keep")  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match=r"at_a_time=0 must be above zero"):
        FetchMedia(at_a_time=0)
