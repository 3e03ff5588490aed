"""Headers that say how a file may be used."""

from hypothesis import given
from hypothesis import strategies as st

from dcurate.rights.headers import agent_and_tags, header_values, is_reserved, licence_links, robots_tags, tdm_rules


def test_links_to_licences_are_distinguished_from_others() -> None:
    value = (
        '<https://a.org/1>; rel="prev license"; title="a, <b>; rel=x", </l>;type=application/rsl+xml;rel=license,<x>'
    )
    assert licence_links(value) == [("https://a.org/1", False), ("/l", True)]


@given(st.text(max_size=80))
def test_any_header_is_read(value: str) -> None:
    for pair in header_values(f"Link: {value}"):
        assert pair[0] in ("link", "content-usage", "x-robots-tag", "tdm-reservation", "tdm-policy")
    licence_links(value)
    agent_and_tags(value)


def test_a_directive_with_a_value_is_not_the_name_of_an_agent() -> None:
    assert robots_tags([("X-Robots-Tag", "max-snippet: 10, noai")], "dcurate") == ["max-snippet: 10", "noai"]
    assert robots_tags([("X-Robots-Tag", "dcurate: noai"), ("X-Robots-Tag", "other: noml")], "dcurate") == ["noai"]


def test_the_first_rule_of_tdmrep_that_matches_counts() -> None:
    rules = tdm_rules(b'[{"location": "/a/*", "tdm-reservation": 1}, {"location": "/", "tdm-reservation": 0}, 3]')
    assert [is_reserved(rules, path) for path in ("/a/b", "/b", "c")] == [True, False, None]


def test_a_reservation_that_is_not_0_or_1_is_not_a_permission() -> None:
    rule = '[{"location": "/", "tdm-reservation": %s}]'
    values = ("1", '"1"', "0", '"0"', "2", '"yes"', "null", "[1]")
    answers = [is_reserved(tdm_rules((rule % value).encode()), "/") for value in values]
    assert answers == [True, True, False, False, None, None, None, None]
    assert is_reserved(tdm_rules(b'\xef\xbb\xbf[{"location": "/", "tdm-reservation": 1}]'), "/") is True
    assert tdm_rules(b'[{"location": "/"}]') == []
