"""The page for the documents of a finished run: what it finds, what it shows, and to whom it answers."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import dcurate
import dcurate.runs
import dcurate.text
from dcurate import DataError, PipelineError
from dcurate.recipe import SAMPLE_FILMS
from dcurate.ui.explore.corpus import ExploredCorpus, Query, load_corpus
from dcurate.ui.explore.server import ExploreServer
from dcurate.video import ClipRows, FixedStrideClips, VideoInfo, VideoSignals
from dcurate_testing.browser import Browser
from dcurate_testing.legibility import PHONE, outside

MARKUP = "<img src=x onerror=\"document.title='hacked'\"> one two three four five"
TEXTS = ["one", "one two", MARKUP, "six " * 300, MARKUP, "Straße und Meer, one two three"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> ExploredCorpus:
    """Of a run that dropped two short documents and a copy."""
    return explored(tmp_path_factory.mktemp("explore"), TEXTS)


def explored(root: Path, texts: Sequence[str]) -> ExploredCorpus:
    """The corpus of a run whose groups of duplicates are named twice: in its records, and as an option."""
    source = root / "in.jsonl"
    source.write_text("".join(json.dumps({"id": f"d{n}", "text": text}) + "\n" for n, text in enumerate(texts)))
    stages: list[Any] = [
        dcurate.JsonlReader(str(source)),
        dcurate.ScoreFilter(dcurate.text.WordCountFilter(min_words=3), score_field="words"),
        dcurate.FuzzyDuplicates(id_field="id", report_path=f"{root}/groups"),
        dcurate.JsonlWriter(f"{root}/out"),
    ]
    dcurate.Pipeline("look", stages=stages).run(dcurate.InlineExecutor(), rejected=f"{root}/rejected", observers=[])
    index = root / "index"
    index.mkdir()
    return load_corpus(dcurate.runs.RunPlaces(f"{root}/out", groups=[f"{root}/groups/"]), index)


@pytest.fixture
def server(corpus: ExploredCorpus) -> Iterator[ExploreServer]:
    with ExploreServer(corpus) as started:
        yield started


def ids(found: dict[str, Any]) -> list[str]:
    return sorted(one["id"] for one in found["documents"])


def test_every_document_is_there_once_with_its_fate(corpus):
    summary = corpus.summary()
    assert ids(corpus.page(Query())) == [f"d{n}" for n in range(len(TEXTS))]
    assert summary["documents"] == sum(fate["documents"] for fate in summary["fates"]) == len(TEXTS)
    assert ids(corpus.page(Query(outcome="kept"))) == ["d2", "d3", "d5"]
    assert ids(corpus.page(Query("dropped", "word_count"))) == ["d0", "d1"]
    assert ids(corpus.page(Query(stage="fuzzy_duplicates"))) == ["d4"]


def test_documents_are_found_by_words_and_numbers(corpus):
    assert ids(corpus.page(Query(words="STRASSE"))) == []
    assert ids(corpus.page(Query(words="straße"))) == ["d5"]
    assert ids(corpus.page(Query(words="one", outcome="dropped"))) == ["d0", "d1", "d4"]
    assert ids(corpus.page(Query(words="d3"))) == ["d3"]
    assert ids(corpus.page(Query(ranges=(("words", 2, 10),)))) == ["d1", "d2", "d4", "d5"]
    longest = corpus.page(Query(sort="words", descending=True))["documents"][0]
    assert (longest["id"], longest["numbers"]["words"]) == ("d3", 300)
    with pytest.raises(PipelineError, match="no column 'x' of numbers, but 'words'"):
        corpus.page(Query(ranges=(("x", 0, 1),)))


def test_another_threshold_is_tried_without_reading_text(corpus):
    lower = corpus.threshold("word_count", "words", 2, 1000)
    assert (lower["back"], lower["gone"], lower["dropped"]) == (1, 0, 2)
    higher = corpus.threshold("word_count", "words", 100, 1000)
    assert (higher["back"], higher["gone"]) == (0, 2)
    assert ids({"documents": higher["examples_gone"]}) == ["d2", "d5"]
    assert [rule["column"] for rule in corpus.summary()["rules"] if rule["rule"] == "word_count"] == ["words"]


def test_a_run_without_a_report_and_a_run_without_documents_are_refused(tmp_path):
    with pytest.raises(DataError, match="no report"):
        load_corpus(dcurate.runs.RunPlaces(str(tmp_path)), tmp_path)


def answer(server: ExploreServer, path: str, host: str = "127.0.0.1", **post: Any) -> tuple[int, str]:
    port = int(server.address.rstrip("/").rpartition(":")[2])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"Host": f"{host}:{port}", **post.pop("headers", {})}
    connection.request("POST" if post else "GET", path, json.dumps(post) if post else None, headers)
    response = connection.getresponse()
    return response.status, response.read().decode()


def test_only_the_page_itself_is_answered(server):
    assert answer(server, "/api/summary", host="evil.example")[0] == 403
    assert answer(server, "/api/mark", n=0, mark="good")[0] == 403
    assert answer(server, "/../corpus.py")[0] == 404
    assert answer(server, "/api/document?n=99") == (400, "document 99 does not exist; there are 6")
    assert answer(server, "/api/documents?page=-1")[0] == 400


def test_marks_are_kept_with_the_records_of_the_run(corpus, server):
    number = corpus.page(Query(words="d5"))["documents"][0]["n"]
    put: dict[str, Any] = {"headers": {"X-Dcurate": "explore"}}
    assert answer(server, "/api/mark", n=number, mark="good", note="keep", **put)[0] == 200
    [file] = [path.name for path in Path(corpus.places.root).glob("*.jsonl")]
    line = (
        f'{{"id":"d5","file":"{file}","row":2,"mark":"good","note":"keep","outcome":"kept","stage":"","reason":""}}\n'
    )
    assert answer(server, "/marks.jsonl") == (200, line)
    corpus.marks.load()
    assert [mark["mark"] for mark in corpus.marks.found.values()] == ["good"]
    assert answer(server, "/api/mark", n=number, mark="", **put)[0] == 200
    assert answer(server, "/marks.jsonl") == (200, "")


@pytest.mark.parametrize("length", ["-1", "\xb2", "abc", "9" * 99, "65537", "1_0", ""])
def test_a_request_of_an_odd_length_is_refused_without_being_read(server, length):
    connection = http.client.HTTPConnection(server.address.split("/")[2], timeout=30)
    connection.putrequest("POST", "/api/mark")
    connection.putheader("X-Dcurate", "explore")
    connection.putheader("Content-Length", length)
    connection.endheaders()
    assert connection.getresponse().status == 403
    connection.close()


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/api/documents?ranges=5", None),
        ("GET", "/api/documents?ranges=null", None),
        ("GET", '/api/documents?ranges=[["words","a","b"]]', None),
        ("GET", "/api/documents?page=%C2%B2", None),
        ("GET", "/api/threshold?stage=word_count&low=x", None),
        ("POST", "/api/mark", '{"n": [1]}'),
        ("POST", "/api/mark", '{"n": 1e999}'),
        ("POST", "/api/mark", '{"n": null}'),
    ],
)
def test_a_request_with_odd_numbers_is_a_bad_request(server, method, path, body):
    connection = http.client.HTTPConnection(server.address.split("/")[2], timeout=30)
    connection.request(method, path, body, {"X-Dcurate": "explore"})
    assert connection.getresponse().status in (400, 404)
    connection.close()


def test_sessions_on_one_run_keep_each_others_marks(tmp_path):
    corpus = explored(tmp_path, TEXTS)
    (tmp_path / "other").mkdir()
    other = load_corpus(corpus.places, tmp_path / "other")
    with ThreadPoolExecutor() as threads:
        list(threads.map(lambda number: (corpus, other)[number % 2].mark(number, "good", ""), range(6)))
    corpus.marks.load()
    assert sorted(place.id for place in corpus.marks.found) == ["d0", "d1", "d2", "d3", "d4", "d5"]


def test_documents_of_one_id_have_marks_of_their_own(tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text('{"id": "a", "text": "one"}\n{"id": "a", "text": "two"}\n')
    stages: list[Any] = [dcurate.JsonlReader(str(source)), dcurate.JsonlWriter(f"{tmp_path}/out")]
    dcurate.Pipeline("twice", stages=stages).run(dcurate.InlineExecutor(), observers=[])
    (tmp_path / "index").mkdir()
    corpus = load_corpus(dcurate.runs.RunPlaces(f"{tmp_path}/out"), tmp_path / "index")
    corpus.mark(0, "good", "")
    assert [one["mark"].get("mark") for one in corpus.page(Query())["documents"]] == ["good", None]


def raw(server: ExploreServer, request: bytes) -> bytes:
    """The first line of the answer to a request as it is; empty where the connection is closed."""
    with socket.create_connection(("127.0.0.1", int(server.address.rstrip("/").rpartition(":")[2])), 30) as connection:
        connection.sendall(request)
        return connection.makefile("rb").readline()


@pytest.mark.parametrize("length", ["-1", "abc", "²", "1_0", "+1", "9" * 5000, "99999999", "0x10"])
def test_a_length_that_is_no_length_is_refused_before_anything_is_read(server, capfd, length):
    head = f"POST /api/mark HTTP/1.0\r\nHost: 127.0.0.1:1\r\nX-Dcurate: explore\r\nContent-Length: {length}\r\n\r\n"
    assert b" 403 " in raw(server, head.encode())
    assert capfd.readouterr().err == ""


pages = ["documents", "document", "threshold", "groups", "group", "summary", "mark", "nothing"]
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=2)),
    max_leaves=5,
)
values = st.one_of(
    st.text(max_size=8), st.integers().map(str), anything.map(json.dumps), st.sampled_from(["5", "null", "[[]]"])
)
names = st.sampled_from(["ranges", "n", "page", "words", "sort", "stage", "column", "low", "high", "kept", "mark"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(page=st.sampled_from(pages), query=st.dictionaries(names, values, max_size=3))
@example("documents", {"ranges": "5"})
@example("documents", {"ranges": "null"})
@example("documents", {"ranges": '[["words", null, "x"]]'})
@example("documents", {"page": "9" * 5000})
@example("document", {"n": "[1]"})
def test_any_address_has_an_answer_and_leaves_nothing_on_the_terminal(server, capfd, page, query):
    assert answer(server, f"/api/{page}?{urlencode(query)}")[0] in (200, 400, 404)
    assert capfd.readouterr().err == ""


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.one_of(anything, st.dictionaries(names, anything, max_size=3)))
@example({"n": [1]})
@example({"n": None})
@example({"n": 10**400})
def test_any_mark_has_an_answer_and_leaves_nothing_on_the_terminal(corpus, server, capfd, body):
    data = json.dumps(body).encode()
    head = f"POST /api/mark HTTP/1.0\r\nHost: localhost:1\r\nX-Dcurate: explore\r\nContent-Length: {len(data)}\r\n\r\n"
    status = raw(server, head.encode() + data).split()[1]
    assert status in (b"200", b"400", b"404")
    assert capfd.readouterr().err == ""
    if status == b"200":
        corpus.mark(int(body.get("n", 0)), "", "")  # other tests count the marks


@pytest.mark.parametrize("path", ["//[", "/%zz", "http://[/", "/api/documents?words=%ff%00"])
def test_an_address_that_is_none_has_an_answer(server, capfd, path):
    assert raw(server, f"GET {path} HTTP/1.0\r\nHost: localhost:1\r\n\r\n".encode()).split()[1] in (b"200", b"404")
    assert capfd.readouterr().err == ""


def test_another_site_has_nothing_searched(server):
    for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)):
        request = f"GET /api/summary HTTP/1.0\r\nHost: localhost:1\r\nSec-Fetch-Site: {site}\r\n\r\n"
        assert int(raw(server, request.encode()).split()[1]) == status


def test_a_long_search_is_refused_and_holds_nobody_up(corpus, server, monkeypatch):
    with pytest.raises(PipelineError, match="501 characters are searched for; give at most 500"):
        corpus.page(Query(words="a" * 501))
    assert answer(server, f"/api/documents?words={'a' * 2000}")[0] == 400
    begun, over = threading.Event(), threading.Event()

    def find(words: str, numbers: Any) -> Iterator[int]:
        begun.set()
        assert over.wait(60)
        yield from ()

    monkeypatch.setattr(corpus.index, "find", find)
    with ThreadPoolExecutor() as threads:
        search = threads.submit(answer, server, "/api/documents?words=slow")
        assert begun.wait(60)
        assert answer(server, "/api/summary")[0] == answer(server, "/api/documents?page=0")[0] == 200
        over.set()
        assert search.result()[0] == 200


def test_a_group_of_which_the_folder_is_named_twice_is_there_once(corpus):
    [group] = corpus.groups()["groups"]
    assert sorted(one["id"] for one in group["members"]) == ["d2", "d4"]


def test_scores_over_factors_of_ten_are_drawn_on_a_logarithmic_scale(tmp_path):
    corpus = explored(tmp_path, [" ".join(f"{n}x{word}" for word in range(n)) for n in (3, 4, 5, 6, 7, 8, 9, 10, 2000)])
    [column] = corpus.summary()["columns"]
    assert (column["name"], column["low"], column["high"]) == ("words", 3, 2000)
    assert sum(count > 0 for count in column["kept"]) > 4
    assert sum(column["kept"]) + sum(column["dropped"]) == 9


@pytest.mark.parametrize("view", ["documents", "compare", "threshold", "groups", "marks"])
def test_every_view_fits_a_phone(server, browser, view):
    browser.open(server.address, *PHONE)
    browser.wait("document.querySelectorAll('article').length == 6")
    browser.value(f"document.querySelector('nav [data-view={view}]').click(); 1")
    browser.wait(f"document.querySelector('nav [data-view={view}]').hasAttribute('aria-current')")
    assert browser.value("document.documentElement.scrollWidth") == PHONE[0]
    assert outside(browser) == []


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExploredCorpus]:
    """Of a run on the bundled films, as clips of two seconds."""
    root = tmp_path_factory.mktemp("films")
    stages: list[Any] = [
        dcurate.MediaReader(str(SAMPLE_FILMS), kinds=["video"]),
        VideoInfo(),
        FixedStrideClips(clip_len_s=2, clip_stride_s=2),
        ClipRows(),
        VideoSignals(),
        dcurate.ScoreFilter(dcurate.text.NumberRangeFilter("video_frozen", max_value=0.8)),
        dcurate.ParquetWriter(f"{root}/out"),
    ]
    dcurate.Pipeline("look", stages=stages).run(dcurate.InlineExecutor(), rejected=f"{root}/rejected", observers=[])
    (root / "index").mkdir()
    corpus = load_corpus(dcurate.runs.RunPlaces(f"{root}/out"), root / "index")
    yield corpus
    corpus.pictures.close()


def test_films_are_shown_by_their_frames(films, browser):
    rows = {row["file"]: row for row in films.page(Query())["documents"]}
    frames = films.picture(rows["title.mp4, 0 to 2 s"]["n"])
    assert frames.startswith("data:image/jpeg;base64,/9j/")
    assert films.picture(rows["title.mp4, 0 to 2 s"]["n"]) == frames
    assert films.picture(rows["valley.mp4, 4 to 6 s"]["n"]) != films.picture(rows["valley.mp4, 0 to 2 s"]["n"])
    assert films.picture(rows["missing.mp4"]["n"]) == ""
    with ExploreServer(films) as server:
        browser.open(server.address)
        browser.wait("document.querySelectorAll('article figure img').length >= 1")
        assert browser.value("document.querySelector('article figure img').naturalWidth") > 200
        assert browser.text("article h3") == "title.mp4, 0 to 2 s"
        assert browser.text("#trouble") == ""


def test_documents_without_files_have_no_pictures(corpus):
    assert {row["file"] for row in corpus.page(Query())["documents"]} == {""}
    with pytest.raises(PipelineError, match="refers to no file of a kind that can be drawn"):
        corpus.picture(0)


def test_a_column_of_true_and_false_is_shown(tmp_path, browser):
    (tmp_path / "in.jsonl").write_text(
        '{"text": "a", "whole": true, "share": 0.12345}\n{"text": "b", "whole": false}\n'
    )
    stages: list[Any] = [dcurate.JsonlReader(str(tmp_path / "in.jsonl")), dcurate.ParquetWriter(str(tmp_path / "out"))]
    dcurate.Pipeline("look", stages=stages).run(dcurate.InlineExecutor(), observers=[])
    (tmp_path / "index").mkdir()
    corpus = load_corpus(dcurate.runs.RunPlaces(str(tmp_path / "out")), tmp_path / "index")
    with ExploreServer(corpus) as server:
        browser.open(server.address)
        browser.wait("document.querySelectorAll('article').length == 2")
        assert "true" in browser.text("article")
        assert browser.text("#trouble") == ""


def test_a_person_searches_compares_and_marks(server, browser):
    browser.open(server.address)
    browser.wait("document.querySelectorAll('article').length == 6")
    assert "dropped by word_count" in browser.text("#fates")
    browser.value("words.value = 'one two'; words.dispatchEvent(new Event('input')); 1")
    browser.wait("document.querySelectorAll('article').length == 4")
    assert browser.text("mark") == "one two"
    browser.value("document.querySelector('nav [data-view=compare]').click(); 1")
    browser.wait("document.querySelectorAll('.pair section').length == 2")
    assert browser.text(".pair section h2") == "KEPT: 2"
    browser.value("document.querySelector('nav [data-view=groups]').click(); 1")
    browser.wait("!!document.querySelector('#view table button')")
    browser.value("document.querySelector('#view table button').click(); 1")
    browser.wait("document.querySelectorAll('.pair section').length == 2")
    assert "goes, similarity 1" in browser.text(".pair").lower()
    browser.value("document.querySelector('article [data-mark=good]').click(); 1")
    browser.wait("!!document.querySelector('article [data-mark=good].on')")
    browser.value("document.querySelector('nav [data-view=marks]').click(); 1")
    browser.wait("document.querySelectorAll('#view tr').length == 1")
    # The markup in a document is text.
    assert (browser.value("document.title"), browser.value("document.images.length")) == ("Explore look", 0)
    assert browser.complaints == []


@pytest.fixture(scope="module")
def languages(tmp_path_factory: pytest.TempPathFactory) -> ExploredCorpus:
    """Of a run over texts in three languages, some without one, of which those in German are dropped."""
    root = tmp_path_factory.mktemp("languages")
    codes = ["en"] * 12 + ["de"] * 5 + ["fr"] * 2 + [None]
    lines = [
        {
            "id": f"d{n}",
            "text": "short" if code == "de" else f"one two three {n}",
            "language": code,
            "host": f"h{n % 11}",
        }
        for n, code in enumerate(codes)
    ]
    (root / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    stages: list[Any] = [
        dcurate.JsonlReader(str(root / "in.jsonl")),
        dcurate.ScoreFilter(dcurate.text.WordCountFilter(min_words=3)),
        dcurate.JsonlWriter(f"{root}/out"),
    ]
    dcurate.Pipeline("look", stages=stages).run(dcurate.InlineExecutor(), rejected=f"{root}/rejected", observers=[])
    (root / "index").mkdir()
    return load_corpus(dcurate.runs.RunPlaces(f"{root}/out"), root / "index")


def test_columns_of_a_few_texts_are_facets_with_what_was_kept_of_each_value(languages: ExploredCorpus) -> None:
    facets = {facet["name"]: facet["values"] for facet in languages.summary()["facets"]}
    assert set(facets) == {"language"}  # half of the documents have a host of their own, and all an id
    assert [(count["value"], count["documents"], count["kept"]) for count in facets["language"]] == [
        ("en", 12, 12),
        ("de", 5, 0),
        ("fr", 2, 2),
        ("", 1, 1),
    ]
    for value, number in (("en", 12), ("de", 5), ("", 1), ("xx", 0)):
        assert languages.page(Query(facets=(("language", value),)))["total"] == number
    assert languages.page(Query(outcome="kept", facets=(("language", "de"),)))["total"] == 0
    with pytest.raises(PipelineError, match="no column 'host' of a few texts, but 'language'"):
        languages.page(Query(facets=(("host", "h1"),)))


def test_a_person_chooses_a_language_and_on_a_phone_documents_come_before_filters(
    languages: ExploredCorpus, browser: Browser
) -> None:
    with ExploreServer(languages) as server:
        browser.open(server.address, *PHONE)
        browser.wait("document.querySelectorAll('.facet button').length == 4")
        top = "document.querySelector('SELECTOR').getBoundingClientRect().top"
        places = [browser.value(top.replace("SELECTOR", part)) for part in ("#words", "article", "#fates")]
        assert places == sorted(places)
        browser.value("document.querySelectorAll('.facet button')[1].click(); 1")
        browser.wait("document.querySelectorAll('article').length == 5")
        assert browser.text("#count") == "5 documents"
        browser.value("document.querySelector('#clear').click(); 1")
        browser.wait("document.querySelector('#count').textContent == '20 documents'")


@pytest.mark.parametrize("size", [(1440, 900), PHONE])
def test_the_page_opens_on_what_was_dropped_and_why(corpus: ExploredCorpus, browser: Browser, size: Any) -> None:
    fates = corpus.summary()["fates"]
    kept = sum(fate["documents"] for fate in fates if fate["outcome"] == "kept")
    dropped = [fate for fate in fates if fate["outcome"] != "kept"]
    with ExploreServer(corpus) as server:
        browser.open(server.address, *size)
        browser.wait("document.querySelector('#overview') !== null")
        assert f"{kept} of {len(corpus.index)} documents were kept" in browser.text("#overview .big")
        rows = browser.value("[...document.querySelectorAll('#overview li')].map((row) => row.textContent)")
        assert [str(fate["documents"]) in row for fate, row in zip(dropped, rows, strict=True)] == [True] * len(dropped)
        assert browser.value("document.querySelector('#overview').getBoundingClientRect().top") < size[1] / 2
        browser.value("document.querySelector('#overview li button').click(); 1")
        browser.wait("!document.querySelector('#overview')")
        browser.wait(f"document.querySelector('#count').textContent.startsWith('{dropped[0]['documents']} document')")
        assert browser.value("document.documentElement.scrollWidth") == size[0]
        assert browser.complaints == []


def test_a_long_name_of_a_stage_fits_a_phone(tmp_path: Path, browser: Browser) -> None:
    rows = dcurate.DocumentBatch(data=pd.DataFrame({"id": [*"abcd"], "text": ["word " * n for n in (1, 2, 30, 40)]}))
    rules: list[Any] = [
        dcurate.text.WordCountFilter(min_words=20),
        dcurate.text.MeanWordLengthFilter(),
        dcurate.text.NonAlphaNumericFilter(),
    ]
    keep = dcurate.ScoreFilter(rules)
    keep.name = "a_stage_of_many_rules_" * 6
    stages: list[Any] = [keep, dcurate.JsonlWriter(f"{tmp_path}/out")]
    run = dcurate.Pipeline("long", stages=stages)
    run.run(dcurate.InlineExecutor(), rows, rejected=f"{tmp_path}/rejected", observers=[])
    (tmp_path / "index").mkdir()
    with ExploreServer(load_corpus(dcurate.runs.RunPlaces(f"{tmp_path}/out"), tmp_path / "index")) as server:
        browser.open(server.address, *PHONE)
        browser.wait("document.querySelectorAll('article').length == 4")
        assert browser.value("document.documentElement.scrollWidth") == PHONE[0]
        assert outside(browser) == []
        assert "dropped by word_count" in browser.text("#overview li")
