"""robots.txt: RFC 9309, the examples of draft-ietf-aipref-attach, and the reader of the standard library."""

from typing import Any
from urllib.robotparser import RobotFileParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate.rights.crawlers import CRAWLERS
from dcurate.rights.robots import LARGEST_ROBOTS, Robots, RobotsFile, host_and_path, matches, refusals
from dcurate.rights.signals import of_robots
from tests.growth import assert_linear

ATTACH = """\
User-Agent: *
Allow: /
Disallow: /never/
Content-Usage: train-ai=n
Content-Usage: /ai-ok/ train-ai=y

User-Agent: ExampleBot
Allow: /
Content-Usage: train-ai=y
"""


@pytest.mark.parametrize(
    ("agent", "path", "crawl", "usage"),
    [
        ("dcurate", "/test", True, ["train-ai=n"]),
        ("dcurate", "/never/test", False, []),
        ("dcurate", "/ai-ok/test", True, ["train-ai=y"]),
        ("ExampleBot", "/test", True, ["train-ai=y"]),
        ("examplebot", "/never/test", True, ["train-ai=y"]),
    ],
)
def test_paths_have_the_preferences_of_the_draft(agent: str, path: str, crawl: bool, usage: list[str]) -> None:
    robots = Robots.of(ATTACH, agent)
    assert robots.allows(path) is crawl
    assert [said.value for said in robots.usages_of(path)] == usage


def test_statements_of_equal_paths_count_together_and_blanks_around_names_do_not() -> None:
    robots = Robots.of("User-agent: *\n \tContent-Usage \t:\t/a\ttrain-ai=y # yes\nContent-Usage: /a train-ai=n", "x")
    assert [said.value for said in robots.usages_of("/ab")] == ["train-ai=y", "train-ai=n"]
    assert robots.usages_of("/b") == []


RSL = """\
License: https://example.com/license.xml

User-agent: ExampleBot
Allow: /
License: https://example.com/examplebot-license.xml

User-agent: *
Allow: /
"""


def test_a_licence_of_a_group_counts_before_that_of_the_file() -> None:
    assert Robots.of(RSL, "ExampleBot").licences == ("https://example.com/examplebot-license.xml",)
    assert Robots.of(RSL, "dcurate").licences == ("https://example.com/license.xml",)


_PATHS = st.lists(st.sampled_from(["a", "b", "ab"]), max_size=3).map(lambda parts: "/" + "/".join(parts))


@st.composite
def files(draw: Any) -> str:
    """Files on which the standard library agrees: it takes the first rule that matches, and the first group."""
    lines = []
    agents = draw(st.permutations(["gptbot", "ccbot", "*"]))
    for agent in agents[: draw(st.integers(0, 3))]:
        rules = draw(st.dictionaries(_PATHS, st.booleans(), max_size=5))
        lines.append(f"User-agent: {agent}")
        lines.append("Allow: /zzz")
        for path in sorted(rules, key=len, reverse=True):
            lines.append(f"{'Allow' if rules[path] else 'Disallow'}: {path}")
        lines.append("")
    return "\n".join(lines)


@given(files(), st.sampled_from(["gptbot", "ccbot", "other"]), _PATHS)
def test_rules_are_those_of_the_standard_library(text: str, agent: str, path: str) -> None:
    parser = RobotFileParser()
    parser.parse(text.splitlines())
    assert Robots.of(text, agent).allows(path) is parser.can_fetch(agent, f"http://host{path}")


@given(files(), _PATHS)
def test_agents_of_the_same_groups_have_their_rules_once(text: str, path: str) -> None:
    agents = ["gptbot", "ccbot", "other"]
    refused = {
        name
        for rules in refusals(RobotsFile.of(text), agents)
        if not rules.robots.allows(path)
        for name in rules.agents
    }
    named = {agent: f"User-agent: {agent}\n" in text for agent in agents}
    assert refused == {agent if named[agent] else "*" for agent in agents if not Robots.of(text, agent).allows(path)}


_PATTERNS = st.text("/ab*$", max_size=6).map(lambda text: f"/{text}")


@given(st.lists(st.lists(st.tuples(_PATTERNS, st.booleans()), max_size=6), max_size=3), st.lists(_PATHS, min_size=1))
def test_the_longest_rule_that_matches_counts_and_among_equals_one_that_allows(
    groups: list[list[tuple[str, bool]]], paths: list[str]
) -> None:
    lines = [
        "User-agent: *" if rule is None else f"{'Allow' if rule[1] else 'Disallow'}: {rule[0]}"
        for rules in groups
        for rule in (None, *rules)
    ]
    robots = Robots.of("\n".join(lines), "dcurate")
    rules = [rule for group in groups for rule in group]
    for path in paths:
        matching = [(len(rule), allows) for rule, allows in rules if matches(rule, path)]
        assert robots.allows(path) is (max(matching)[1] if matching else True)


@pytest.mark.parametrize("rule", ["/{}", "/a{}/b", "*{}", "/a*{}$", "/*/{}"])
def test_each_page_is_compared_with_many_rules_of_many_crawlers_in_linear_time(rule: str) -> None:
    agents = [agent for names in CRAWLERS.values() for agent in names]
    names = "".join(f"User-agent: {agent}\n" for agent in agents)
    agent_groups = "".join(f"User-agent: {agent}\nDisallow: /own{number}\n" for number, agent in enumerate(agents))

    def made(count: int) -> str:
        return names + "".join(f"Disallow: {rule.format(number)}\n" for number in range(count)) + agent_groups

    def read(text: str) -> None:
        for page in range(10):
            of_robots(text, f"/page{page}", "dcurate")

    assert_linear(read, [made], (1_000, 20_000))


def test_a_file_is_read_as_far_as_the_standard_asks_for() -> None:
    rule = "\nUser-agent: *\nDisallow: /"
    for spare, allowed in ((0, False), (-1, True)):
        text = "#" * (LARGEST_ROBOTS - len(rule) - spare) + rule
        assert Robots.of(text, "dcurate").allows("/a") is allowed


@pytest.mark.parametrize("url", ["", "x:y", "http://[", "/a", "http://\x00\udc80/", "mailto:a@b.org"])
def test_addresses_that_are_none_have_no_host(url: str) -> None:
    assert host_and_path(url) == ("", "/")


@pytest.mark.parametrize("pattern", ["/foo/bar/baz", "/foo/bar/%62%61%7A", "/foo/%62*z$"])
@pytest.mark.parametrize("path", ["/foo/bar/baz", "/foo/bar/%62%61%7a", "/%66oo/bar/ba%7A"])
def test_letters_may_be_encoded_as_rfc_9309_says(pattern: str, path: str) -> None:
    _, asked = host_and_path(f"https://example.org{path}")
    robots = Robots.of(f"User-agent: *\nContent-Usage: {pattern} train-ai=n\nDisallow: /a%2Fb", "x")
    assert [said.value for said in robots.usages_of(asked)] == ["train-ai=n"]
    assert not robots.allows("/a%2Fb")
    assert robots.allows("/a/b"), "a slash that is encoded is another character"
