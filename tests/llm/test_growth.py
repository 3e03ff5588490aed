"""The time to read what a model answers, and to cut what it is asked, grows with the length of the text."""

from __future__ import annotations

from functools import partial

import pytest

from dcurate.endpoints.structured import first_object
from dcurate.llm.nemotron_cc import plain_list, qa_pairs
from dcurate.llm.pii import redacted
from dcurate.llm.segmenting import segments_of
from dcurate.models.classifiers.aegis_prompt import parse_response
from tests.growth import SHORT, assert_linear, pairs, singles

JSON = [
    *("{", "}", "[", "]", '"', '{"', '{"a"', '{"a":', '{"a":1}', '{"a":{}x', "{}", "{{", ",", ":", "\\", "'", "1"),
    *("```", "```json\n", "\n", " ", "a", "-", "null", "é", "\ud800", "\\u", '{"a":1,', '{"a":[', '{"a":"b",'),
]
PROSE = [
    *(
        ". ",
        ".",
        "...",
        "。",
        "！",
        "!",
        '"',
        "”",
        "」",
        ")",
        "a",
        "a ",
        "\n",
        "\r\n",
        "\x85",
        "\u2028",
        "```",
        "```\n",
    ),
    *("<", ">", "<a>", "[", "[1]\n", "{}\n", "1", " ", "- ", "  ", "Question:", "- Question: a\n", "unsafe", "\n\n"),
]


def test_an_object_is_found_in_an_answer_in_linear_time() -> None:
    assert_linear(first_object, singles(JSON))
    assert_linear(first_object, pairs(["{", "}", '{"a":', '{"a":[', '{"a":1}', '"', " ", "a"]), SHORT)


@pytest.mark.parametrize(
    "work",
    [
        partial(segments_of, mode="coarse"),
        partial(segments_of, mode="fine"),
        lambda text: qa_pairs(text, "Here it is:"),
        plain_list,
        parse_response,
        lambda text: redacted(
            text, [{"type": "name", "text": name} for name in ("a", "a a", "..", "[1]")], "<{label}>"
        ),
    ],
    ids=["lines", "sentences", "questions", "list", "verdict", "redacted"],
)
def test_answers_and_texts_are_taken_apart_in_linear_time(work: object) -> None:
    assert callable(work)
    assert_linear(work, singles(PROSE), (10_000, 300_000))
    assert_linear(work, pairs([". ", "。", '"', "a", "\n", "[", " "]), SHORT)


def test_an_object_nested_deeper_than_python_reads_hides_none_that_follows() -> None:
    assert first_object('{"a":' * 1_500 + "x" + '{"b": 1}') == {"b": 1}


def test_an_answer_of_nothing_but_broken_objects_has_none() -> None:
    assert first_object('{"a":x' * 200_000) is None
