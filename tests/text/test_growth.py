"""The time of modifiers and filters grows with the length of a text, on hostile texts too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import dcurate
from dcurate import Annotate, DocumentBatch, Modify, PiiModifier
from dcurate.text import refinedweb
from dcurate.text.english import split_english
from dcurate.text.presets import c4, gopher, nemo_english, nemo_non_english
from dcurate.text.python_source import documentation_length
from tests.growth import assert_linear, patterns

MARKDOWN = ["*", "**", "_", "__", "[", "](", "]", ")", "(", "a", " ", "\n", "[a](", "[a](b)", "**a", "_a", "\\"]
PROSE = [
    *(
        ".",
        ". ",
        "...",
        "'",
        '"',
        "’",
        "-",
        "–",
        "/",
        "@",
        ":",
        "(",
        ")",
        "A.",
        "Mr. ",
        "a ",
        "a",
        "\n",
        "\n\n",
        "\r\n",
    ),
    *(
        "\t",
        "1",
        ",",
        "$",
        "…",
        "•",
        "#",
        "{",
        "é",
        "e\u0301",
        "\u0301",
        "中",
        "あ",
        "ก",
        "한",
        "\u200d",
        "\x00",
        "\u3000",
    ),
    *("😀", "Ã©", "â€™", "lorem ipsum", "[1]", "[edit]", "http://", "www.", "privacy policy", "javascript", "\ufeff"),
    *("&amp;", "Ã", "ﬁ", "\ufffd", "1,", " ", "?", "!", "sign-in", "1 likes", "read more...", "1 items in cart"),
]
#: Those of which pairs are tried, too.
MARKS = [".", ". ", "'", "-", "/", "@", "a", "1", " ", "\n", "\r\n", "http://", "Ã", ","]
PERSONAL = [
    *("a", "1", "@", ".", "-", " ", "+", "(", ")", ":", "::", "/", "a.", "1.", "1-", "a@", "0x", "sk-", "AKIA", "eyJ"),
    *("-----BEGIN", "DE89", "\n", "www.", "card ", "@a.", "https://", "1234 ", "iban ", "password=", "fe80:"),
]
CODE = [
    *("/*", "*/", "//", "#", '"', "'", '"""', "'''", "\\", "(", "[", "{", "def ", "<!--", "--", 'f"', "f'{", "\n", " "),
    *(
        "a",
        ";",
        "<?xml",
        "<",
        "\t",
        "lambda ",
        "-",
        "not ",
        "x=",
        "x,",
        "class a:",
        "if a:\n ",
        "@",
        "`",
        "r'",
        "...",
        ")",
    ),
]
URLS = ["http://", "www.", "a", "/", ".", "-", "?", "=", "&", "%", "1", "@", ":", "#", " "]


def whole(*stages: Any) -> Callable[[str], object]:
    """What stages do to a batch of one text."""
    for stage in stages:
        stage.setup()

    def work(text: str) -> None:
        batch = DocumentBatch(data=pa.table({"text": [text]}))
        for stage in stages:
            batch = stage.process(batch)

    return work


def test_markdown_is_removed_in_linear_time() -> None:
    assert_linear(
        dcurate.MarkdownRemover().modify_document, patterns(MARKDOWN, MARKDOWN[:13]), lengths=(1_000, 4_000, 32_000)
    )


@pytest.mark.parametrize(
    "modifier",
    [
        dcurate.BoilerPlateStringModifier(),
        dcurate.FastTextLabelModifier("__label__a"),
        dcurate.LineRemover(["a"]),
        dcurate.NewlineNormalizer(),
        dcurate.QuotationRemover(),
        dcurate.Slicer(left="a", right="1"),
        dcurate.UnicodeReformatter(),
        dcurate.UrlRemover(),
    ],
    ids=lambda modifier: type(modifier).__name__,
)
def test_modifiers_take_linear_time(modifier: dcurate.DocumentModifier) -> None:
    assert_linear(modifier.modify_document, patterns(PROSE, MARKS[:4]), lengths=(16_000, 64_000))


def test_personal_data_is_found_in_linear_time() -> None:
    assert_linear(whole(Modify(PiiModifier())), patterns(PERSONAL, PERSONAL[:6]), lengths=(64_000,))


@pytest.mark.parametrize("words", [split_english, refinedweb.lines_left], ids=["english", "refinedweb"])
def test_words_and_lines_are_split_in_linear_time(words: Callable[[str], object]) -> None:
    assert_linear(words, patterns(PROSE, MARKS[:3]), lengths=(8_000,))


@pytest.mark.parametrize(
    "stages",
    [
        (Annotate([*nemo_english()]),),
        (Annotate([*gopher("dclm")]),),
        (Annotate([*gopher("datatrove")]),),
        (Annotate([*gopher("redpajama")]),),
        c4("datatrove", end_marks=False),
    ],
    ids=["nemo", "dclm", "datatrove", "redpajama", "c4"],
)
def test_rule_sets_take_linear_time(stages: tuple[Any, ...]) -> None:
    assert_linear(whole(*stages), patterns(PROSE, []), lengths=(32_000,))


@pytest.mark.parametrize("language", ["ja", "th", "zh"])
def test_texts_without_spaces_are_split_in_linear_time(language: str) -> None:
    work = whole(Annotate([rule for rule in nemo_non_english(language) if hasattr(rule, "lang")][:1]))
    assert_linear(
        work, patterns([".", ". ", "1", "a", "中", "あ", "ก", " ", "1,", "\n", "…"], []), lengths=(4_000, 16_000)
    )


def test_code_is_measured_in_linear_time() -> None:
    assert_linear(documentation_length, patterns(CODE, CODE[:4]), lengths=(4_000, 32_000))
    filters = [
        dcurate.AlphaFilter(),
        dcurate.GeneralCommentToCodeFilter("text/x-java"),
        dcurate.HTMLBoilerplateFilter(),
        dcurate.NumberOfLinesOfCodeFilter(),
        dcurate.XMLHeaderFilter(),
    ]
    assert_linear(whole(Annotate(filters)), patterns(CODE, []), lengths=(64_000,))


def test_addresses_are_looked_at_in_linear_time() -> None:
    rules = [dcurate.UrlsFilter(), dcurate.PornographicUrlsFilter()]
    assert_linear(whole(Annotate(rules)), patterns(URLS, URLS[:4]), lengths=(64_000,))
