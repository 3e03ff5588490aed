"""The tags that say something about rights are those that the reader of all tags finds."""

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dcurate.rights.markup import rights_tags
from dcurate.rights.signals import RightsSignals, of_page
from dcurate.text.extract.charset import decoded
from dcurate.text.extract.tags import PageTags, scan_tags
from tests.growth import assert_linear, followed, patterns

_PIECES = st.lists(
    st.sampled_from(
        [
            *("<!-- ", " -->", "<script>", "<script type='application/ld+json'>", "</script>", "<style>", "</style>"),
            *("<textarea>", "</TEXTAREA>", "<title>", "</title>", '<SCRIPT type="application/rsl+xml">', "</Script >"),
            *(
                "<meta name=robots content=noai>",
                "<META NAME='Robots' CONTENT='noindex, noai'>",
                "<meta name=viewport>",
            ),
            *('<meta content="a > b" name="robots">', "<meta name='tdm-reservation' content=1>", "<meta/name=robots>"),
            *(
                "<link rel=license href=/a>",
                "<a rel='license' href='/b'>",
                "<a rel=next href=/c>",
                "<A REL=License HREF=/d>",
                "<LINK REL=LICENSE HREF=/e>",
            ),
            *(
                "<base href='https://b.org/x/'>",
                "<link rel=stylesheet href=x>",
                "<meta name='DC.rights' content='caf\u00e9'>",
            ),
            *(
                "<p>",
                "i",
                "license",
                "<",
                ">",
                "text",
                '{"license": "https://a.org/l"}',
                "\u0416",
                "<sextarea>",
                "<bink>",
                "<linka rel=license>",
                "<link rel='",
                "<meta name=rob",
                "<a title='licence > ",
                '<meta content="',
                "<!-->",
            ),
        ]
    ),
    max_size=12,
).map("".join)


def relevant(tags: PageTags) -> RightsSignals:
    scripts = [script for script in tags.json_ld if "license" in script]
    return of_page(replace(tags, json_ld=scripts), "https://a.org/", "dcurate", frozenset(("noai",)))


@given(_PIECES)
@example("<LINK REL=LICENSE HREF=/e>")
@example("<!-- <meta name=robots content=noai> --><meta name=robots content=noai>")
@example("<script>'<meta name=robots content=noai>'</script>")
def test_they_are_those_of_the_reader_of_all_tags(page: str) -> None:
    assert relevant(rights_tags(page)) == relevant(scan_tags(page))
    assert relevant(rights_tags(page.encode())) == relevant(scan_tags(decoded(page.encode())))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1251", "utf-16", "latin-1"])
def test_pages_are_read_in_their_encoding(encoding: str) -> None:
    word = "caf\u00e9" if encoding == "latin-1" else "\u043f\u0440\u0430\u0432\u0430"
    page = f"<meta name='DC.rights' content='{word}'><a rel=license href='/{word}'>"
    tags = rights_tags(page.encode(encoding), encoding)
    assert tags.metas == {"dc.rights": [word]}
    assert tags.licences == [("", f"/{word}")]


@given(st.binary(max_size=200), st.sampled_from([None, "utf-8", "no such charset", "utf-16", "idna"]))
def test_any_bytes_are_read(page: bytes, charset: str | None) -> None:
    rights_tags(b"<meta name=robots content='" + page + b"'><a rel=license href=" + page, charset)


def test_time_grows_with_the_page() -> None:
    tokens = ["<link a ", "<meta a ", "<a icense ", "<a b ", "<script ", "<!-- ", "</script ", "<base ", "x='", '="']
    closed = [lambda length, pattern=pattern: f"{pattern(length)}>" for pattern in patterns(tokens, tokens[:3])]
    assert_linear(rights_tags, [*closed, followed("<meta robots ", ">")])


@pytest.mark.parametrize("agent", ["x", "CCBot", "caf\u00e9 bot"])
def test_the_name_of_a_crawler_is_found_in_any_case(agent: str) -> None:
    tags = rights_tags(
        f"<meta name='{agent.upper()}' content=noai><meta name=zzz content=noai>".encode(), "utf-8", agent
    )
    assert [name for name in tags.metas if name != "zzz"] == [agent.lower()]
