"""Rights as columns: each signal in its place, and what they say together."""

import random
import time
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import DataError, DocumentBatch, InlineExecutor, PipelineError
from dcurate.rights import FindRights
from dcurate.rights.find import shown
from dcurate.rights.signals import MOST, PLACES, RightsSignal, verdict_of
from dcurate.testing import check_stage

URL = "https://example.org/news/a.html"


def row(stage: FindRights | None = None, **columns: Any) -> dict[str, Any]:
    table = pa.table({name: [value] for name, value in {"url": URL, **columns}.items()})
    (made,) = (stage or FindRights()).process(DocumentBatch(data=table)).to_arrow().to_pylist()
    return dict(made)


def head(*lines: str) -> str:
    return "\r\n".join(["HTTP/1.1 200 OK", *lines])


RSL = '<rsl xmlns="https://rslstandard.org/rsl"><content url="{}"><license>{}</license></content></rsl>'
NOT_RSL = "html RSL: its first element is not rsl of https://rslstandard.org/rsl (not understood)"
LICENSED = b'<script type="application/ld+json">{"license": "https://opensource.org/licenses/MIT"}</script>'
NO_AI = '<prohibits type="usage">ai-all</prohibits>'
LINK = '<https://a.org/l.xml>; rel="license"; type="application/rsl+xml"'


@pytest.mark.parametrize(
    ("columns", "train", "search", "signal"),
    [
        (
            {"http_headers": head("content-usage: train-ai=n")},
            False,
            None,
            "header Content-Usage: train-ai=n -> train=no",
        ),
        (
            {"http_headers": head("Content-Usage: train-ai=n", "Content-Usage: search=y, train-ai=y")},
            True,
            True,
            "header Content-Usage: train-ai=y -> train=yes",
        ),
        ({"http_headers": head("Content-Usage: bots=n")}, None, None, "header Content-Usage: bots=n (not understood)"),
        ({"http_headers": head("X-Robots-Tag: noai, nofollow")}, False, None, "header X-Robots-Tag: noai -> train=no"),
        (
            {"http_headers": head("X-Robots-Tag: googlebot: noindex")},
            None,
            False,
            "header X-Robots-Tag: googlebot: noindex -> search=no",
        ),
        ({"http_headers": head("X-Robots-Tag: noimageai")}, None, None, "header X-Robots-Tag: noimageai"),
        ({"http_headers": head("X-Robots-Tag: nomagic")}, None, None, "header X-Robots-Tag: nomagic (not understood)"),
        ({"http_headers": head("TDM-Reservation: 1")}, False, None, "header TDMRep: tdm-reservation 1 -> train=no"),
        ({"http_headers": head("tdm-reservation: 0")}, True, None, "header TDMRep: tdm-reservation 0 -> train=yes"),
        ({"http_headers": head("tdm-reservation: x")}, None, None, "header TDMRep: tdm-reservation x (not understood)"),
        ({"http_headers": head(f"Link: {LINK}")}, None, None, "header Link: https://a.org/l.xml (not read)"),
        ({"content": b'<meta name="ROBOTS" content="noai,noindex">'}, False, False, "html robots: noai -> train=no"),
        ({"content": b"<meta name=gptbot content=noai>"}, False, None, "html robots: gptbot: noai -> train=no"),
        (
            {"content": b"<meta name=Google-Extended content='NoAI, nofollow'>"},
            False,
            None,
            "html robots: google-extended: noai -> train=no",
        ),
        ({"content": b"<meta name=gptbot content=noindex>"}, None, None, "html robots: gptbot: noindex"),
        (
            {"content": b'<meta name="tdm-reservation" content="1">'},
            False,
            None,
            "html TDMRep: tdm-reservation 1 -> train=no",
        ),
        (
            {"content": f'<script type="application/rsl+xml">{RSL.format("", NO_AI)}</script>'.encode()},
            False,
            True,
            "html RSL: prohibits train -> train=no",
        ),
        (
            {"content": b'<link rel=license type="application/rsl+xml" href="/l.xml">'},
            None,
            None,
            "html RSL: https://example.org/l.xml (not read)",
        ),
        ({"content": b'<script type="application/rsl+xml"><rsl/></script>'}, None, None, NOT_RSL),
        (
            {"robots": "User-agent: *\nContent-Usage: /news/ train-ai=n"},
            False,
            None,
            "robots.txt Content-Usage: train-ai=n -> train=no",
        ),
        ({"robots": "User-agent: *\nContent-Usage: /old/ train-ai=n"}, None, None, None),
        (
            {"robots": "User-agent: *\nContent-signal: search=yes,ai-train=no"},
            False,
            True,
            "robots.txt Content-Signal: ai-train=no -> train=no",
        ),
        (
            {"robots": "User-agent: GPTBot\nUser-agent: CCBot\nDisallow: /news"},
            False,
            None,
            "robots.txt Disallow: CCBot, GPTBot -> train=no",
        ),
        ({"robots": "User-agent: GPTBot\nDisallow: /old"}, None, None, None),
        ({"robots": "User-agent: *\nDisallow: /news"}, False, False, "robots.txt Disallow: * -> train=no"),
        ({"robots": "License: https://a.org/l.xml"}, None, None, "robots.txt License: https://a.org/l.xml (not read)"),
        (
            {"tdmrep": '[{"location": "/news/*", "tdm-reservation": 1}]'},
            False,
            None,
            "tdmrep.json: tdm-reservation 1 -> train=no",
        ),
        ({"tdmrep": '[{"location": "/old", "tdm-reservation": 1}]'}, None, None, None),
        ({"tdmrep": "[{}]"}, None, None, "tdmrep.json: [{}] (not understood)"),
        ({"tdmrep": "[]"}, None, None, None),
        ({"rsl": RSL.format("/news/", NO_AI)}, False, True, "RSL: prohibits train -> train=no"),
        ({"content": b"<p>nothing</p>", "http_headers": head("Server: a"), "robots": ""}, None, None, None),
        ({"content": None, "http_headers": None, "robots": None}, None, None, None),
    ],
)
def test_each_signal_is_a_column(columns: dict[str, Any], train: Any, search: Any, signal: str | None) -> None:
    made = row(**columns)
    assert (made["rights_train"], made["rights_search"]) == (train, search)
    assert (signal in made["rights_signals"]) if signal else made["rights_signals"] == []
    assert made["rights_conflict"] is False


@pytest.mark.parametrize(
    ("columns", "licences"),
    [
        ({"content": b'<a rel="license" href="https://creativecommons.org/licenses/by-sa/4.0/">'}, ["CC-BY-SA-4.0"]),
        (
            {"content": b'<base href="https://b.org/c/"><link rel=license href="own.html">'},
            ["https://b.org/c/own.html"],
        ),
        ({"content": LICENSED}, ["MIT"]),
        ({"content": b'<meta name="DC.rights" content="CC BY 4.0">'}, ["CC-BY-4.0"]),
        ({"content": b'<meta name="dcterms.license" content="https://a.org/l">'}, ["https://a.org/l"]),
        ({"content": b'<meta name="DC.rights" content="All rights reserved">'}, []),
        (
            {"http_headers": head("Link: </l>; rel=license, <https://spdx.org/licenses/MIT>; rel=license")},
            ["https://example.org/l", "MIT"],
        ),
        ({"content": b'<a rel=license href="http://[">'}, ["http://["]),
    ],
)
def test_licences_are_named_by_spdx_where_they_are_known(columns: dict[str, Any], licences: list[str]) -> None:
    assert row(**columns)["rights_licences"] == licences


def test_the_strictest_of_contradictory_signals_counts_and_the_columns_say_so() -> None:
    made = row(
        http_headers=head("Content-Usage: train-ai=y"),
        content=b"<meta name=robots content=noai>",
        robots="User-agent: *",
    )
    assert (made["rights_train"], made["rights_conflict"]) == (False, True)
    assert made["rights_signals"] == [
        "header Content-Usage: train-ai=y -> train=yes",
        "html robots: noai -> train=no",
    ]


def test_settings_name_the_crawler_and_the_tags_that_count() -> None:
    text = "User-agent: MyBot\nContent-Usage: train-ai=n\nUser-agent: *\nContent-Usage: train-ai=y"
    assert row(robots=text)["rights_train"] is True
    assert row(FindRights(agent="mybot"), robots=text)["rights_train"] is False
    page = {"content": b"<meta name=robots content=noimageai>"}
    assert row(FindRights(train_tags=["NoImageAI"]), **page)["rights_train"] is False


def test_tags_are_looked_for_in_pages_only() -> None:
    tag = b"<meta name=robots content=noai>"
    assert [
        row(content=tag, mime_type=mime)["rights_train"] for mime in (None, "text/html; charset=x", "image/png")
    ] == [
        False,
        False,
        None,
    ]


_PLACE, _TEXT = st.sampled_from(PLACES), st.text(max_size=5)
_EFFECTS = st.tuples(_PLACE, _TEXT, st.sampled_from(["train", "search"]), st.booleans())
_SIGNALS = st.lists((_EFFECTS | st.tuples(_PLACE, _TEXT)).map(lambda values: RightsSignal(*values)))


@given(_SIGNALS, st.randoms())
def test_the_verdict_is_the_strictest_in_any_order(signals: list[RightsSignal], order: random.Random) -> None:
    mixed = order.sample(signals, len(signals))
    verdict = verdict_of(signals)
    assert verdict_of(mixed) == verdict
    for use in ("train", "search"):
        answers = [signal.allowed for signal in signals if signal.use == use]
        assert getattr(verdict, use) == (None if not answers else all(answers))
        if any(answers) and not all(answers):
            assert verdict.conflict


@given(_SIGNALS)
def test_signals_are_shown_on_a_line_each_and_those_with_an_effect_come_first(signals: list[RightsSignal]) -> None:
    texts = shown(signals)
    assert len(texts) <= MOST
    assert not any("\n" in text for text in texts)
    many = shown(
        [*(RightsSignal("RSL", str(number)) for number in range(100)), RightsSignal("RSL", "x", "train", allowed=False)]
    )
    assert (len(many), many[0], many[-1]) == (MOST, "RSL: x -> train=no", "70 more")


_BYTES = st.binary(max_size=80) | st.sampled_from(
    [
        b"\0<meta name=robots content=\0noai>",
        b"\xff\xfe<\0a\0",
        b"<meta name=robots content=\xe9>",
        b"<link rel=license href=\x80>",
    ]
)


@given(
    st.lists(
        st.tuples(
            st.text(max_size=20) | st.none(), st.text(max_size=40) | st.none(), _BYTES | st.none(), st.text(max_size=40)
        ),
        max_size=4,
    )
)
def test_no_row_and_no_column_changes(rows: list[tuple[Any, ...]]) -> None:
    names = ["url", "http_headers", "content", "robots"]
    table = pa.Table.from_pylist(
        [{**dict(zip(names, row, strict=True)), "url": encodable_url(row[0])} for row in rows],
        pa.schema(
            [("url", pa.string()), ("http_headers", pa.string()), ("content", pa.binary()), ("robots", pa.string())]
        ),
    )
    made = FindRights().process(DocumentBatch(data=table)).to_arrow()
    assert made.select(names).equals(table)
    assert made.column_names[4:] == [
        f"rights_{name}" for name in ("train", "search", "licences", "conflict", "signals")
    ]
    assert [str(field.type) for field in list(made.schema)[4:]] == [
        *("bool", "bool", "list<item: string>", "bool", "list<item: string>")
    ]


def encodable_url(path: str | None) -> str | None:
    return None if path is None else f"https://example.org/{path}"


def test_the_stage_is_a_stage() -> None:
    rows = pd.DataFrame(
        {"url": [URL] * 4, "content": [b"<meta name=robots content=noai>", b"", None, b"<a rel=license href=x>"]}
    )
    check_stage(FindRights(), DocumentBatch(data=rows), executor=InlineExecutor())


def test_wrong_columns_and_settings_are_refused_in_a_sentence() -> None:
    with pytest.raises(DataError, match="find_rights: the rows have none of the columns 'http_headers', .*Warc"):
        FindRights().process(DocumentBatch(data=pd.DataFrame({"text": ["a"]})))
    with pytest.raises(DataError, match="column 'http_headers' holds int64"):
        row(http_headers=3)
    with pytest.raises(PipelineError, match="train_tags='noai' must be a list"):
        FindRights(train_tags="noai")
    with pytest.raises(PipelineError, match="robots_path=3 must be a path, or a list of paths"):
        FindRights(robots_path=3)  # type: ignore[arg-type]
    for agent in ("", " ", "CCBot/2.0", " CCBot"):
        with pytest.raises(PipelineError, match=f"agent='{agent}' must be the name of a crawler without its version"):
            FindRights(agent=agent)


HOSTILE: dict[str, Any] = {
    "a header": lambda size: {"http_headers": head("Content-Usage: " + "a=(1 2);" * (size // 8))},
    "a header of a string": lambda size: {"http_headers": head('Content-Usage: a="' + "\\" * size)},
    "a header of blanks": lambda size: {"http_headers": head("Content-Usage: a=(" + " " * size)},
    "folded headers": lambda size: {"http_headers": head("X-Robots-Tag: noai" + "\r\n a" * (size // 4))},
    "links": lambda size: {"http_headers": head("Link: " + '<a>; rel="license" ' * (size // 19))},
    "an open link": lambda size: {"http_headers": head("Link: " + "<" * size)},
    "robots.txt": lambda size: {"robots": "User-agent: GPTBot\n" + "Disallow: /a*a*b\n" * (size // 17)},
    "agents": lambda size: {"robots": "User-agent: GPTBot\nDisallow: /x\n" * (size // 32)},
    "usages": lambda size: {"robots": "User-agent: *\n" + "Content-Usage: /a* train-ai=n\n" * (size // 30)},
    "metas": lambda size: {"content": b"<meta name=robots content=a,b,c>" * (size // 32)},
    "licences": lambda size: {"content": b"<a rel=license href=x>" * (size // 22)},
    "tags that do not end": lambda size: {"content": b"<meta <link <a " * (size // 15) + b"license"},
    "links with letters": lambda size: {"content": b"license<a " + b"iii<a " * (size // 6)},
    "quotes": lambda size: {"content": b"<meta '>" * (size // 8)},
    "scripts": lambda size: {"content": b"<script x" * (size // 9)},
    "comments": lambda size: {"content": b"<!--" * (size // 4)},
    "RSL": lambda size: {"content": b"<script type=application/rsl+xml><rsl></script>" * (size // 47)},
    "tdmrep.json": lambda size: {"tdmrep": '[{"location": "/a*b*c"}' + ', {"location": "/a*b*c"}' * (size // 24) + "]"},
    "an address": lambda size: {"url": "https://a.org/" + "a" * size, "robots": "User-agent: *\nDisallow: /a*a*a*b"},
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_rows_take_linear_time(kind: str) -> None:
    def seconds(size: int) -> float:
        columns = {"url": "https://a.org/" + "a" * 200, **HOSTILE[kind](size)}
        begin = time.process_time()
        made = row(**columns)
        assert len(made["rights_signals"]) <= MOST
        assert len(made["rights_licences"]) <= MOST
        return time.process_time() - begin

    seconds(1000)
    small = min(seconds(60_000) for _ in range(2))
    assert min(seconds(480_000) for _ in range(2)) < 24 * small + 0.05


def test_a_robots_file_of_ten_megabytes_is_read_as_far_as_the_standard_asks_for() -> None:
    beyond = "#" * 80 + "\n"
    text = beyond * 130_000 + "User-agent: *\nDisallow: /"
    begin = time.process_time()
    assert row(robots=text)["rights_train"] is None
    assert time.process_time() - begin < 2
