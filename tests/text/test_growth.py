"""The time of modifiers and filters grows with the length of a text, on hostile texts too."""

from __future__ import annotations

import inspect
import io
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
import sentencepiece
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

import dcurate
import dcurate.audio
import dcurate.text
from dcurate import DocumentBatch, Modify
from dcurate.learn import LabelScoreFilter, Student
from dcurate.text import Annotate, DocumentFilter, DocumentModifier, PiiModifier, SignalFilter, refinedweb
from dcurate.text.english import split_english
from dcurate.text.presets import c4, c4_filters, c4_paragraphs, fineweb_quality, gopher, nemo_english
from dcurate.text.python_source import documentation_length
from dcurate.text.segmentation import splitter
from tests.growth import LENGTHS, SHORT, assert_linear, pairs, repeated, singles

MODELS = Path(__file__).parent / "models"
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


HTML = [
    "<",
    ">",
    "</",
    "<a>",
    "</b>",
    "<br>",
    "<!--",
    "<![CDATA[",
    "<script>",
    "<a href='",
    "&",
    "&#",
    "=",
    "<?",
    "x",
    " ",
]
#: What is whitespace or the end of a sentence for one library, and a part of a word for another.
SPACES = [
    "=\u2028",
    "**\u2028",
    "||、",
    "=\u3000",
    "\u3000。",
    "ゔ",
    "〇一",
    "한\xa0",
    "ㄱ\x85",
    "1\u200b",
    "ก\x1c",
    "가\u2028",
]
UNSPACED = [
    *(
        ".",
        ". ",
        "1",
        "a",
        "中",
        "あ",
        "ア",
        "ก",
        "한",
        " ",
        "1,",
        "\n",
        "…",
        "。",
        "の",
        "한 ",
        "เ",
        "-",
        "😀",
        "\u200b",
    ),
    *("&", "+", "1.", "ー", "！"),
]

MODIFIERS: list[DocumentModifier] = [
    dcurate.text.BoilerPlateStringModifier(),
    dcurate.text.FastTextLabelModifier("__label__a"),
    dcurate.text.LineRemover(["a"]),
    dcurate.text.NewlineNormalizer(),
    dcurate.text.QuotationRemover(),
    dcurate.text.Slicer(left="a", right="1"),
    dcurate.text.UrlRemover(),
    refinedweb.RefinedWebLines(),
    dcurate.audio.AbbreviationJoiner(),
]
#: Those that have a test of their own below.
OTHER_MODIFIERS = [dcurate.text.MarkdownRemover(), PiiModifier(), dcurate.text.UnicodeReformatter()]

#: A student of fastText's model, while the tests run.
STUDENT = TemporaryDirectory()
Student.from_fasttext(str(MODELS / "quality.bin")).save(STUDENT.name + "/model")

OTHERS = [
    LabelScoreFilter(model=STUDENT.name + "/model"),
    dcurate.text.C4BadWordsFilter(["a", "a lorem", "..", "1"]),
    dcurate.text.SubstringFilter("aa", "any"),
    dcurate.text.FastTextLanguageFilter(MODELS / "languages.bin"),
    dcurate.text.FastTextQualityFilter(MODELS / "quality.bin"),
    dcurate.text.HistogramFilter("few", cache_dir=str(MODELS)),
    dcurate.text.PerplexityFilter(MODELS / "ngrams.arpa"),
    dcurate.text.PiiFilter(),
]
SOURCE = [
    dcurate.text.AlphaFilter(),
    dcurate.text.HTMLBoilerplateFilter(),
    dcurate.text.NumberOfLinesOfCodeFilter(),
    dcurate.text.PerExtensionFilter("python", "py"),
    dcurate.text.PythonCommentToCodeFilter(),
    dcurate.text.XMLHeaderFilter(),
]
COMMENTS = [
    "text/html",
    "text/x-c",
    "text/x-go",
    "text/x-javascript",
    "text/x-python",
    "text/x-ruby",
    "text/x-shellscript",
]
ADDRESSES = [dcurate.text.UrlsFilter(), dcurate.text.PornographicUrlsFilter()]
#: Those that need a tokenizer.
OTHER_FILTERS = (dcurate.text.TokenCountFilter, dcurate.text.TokenizerFertilityFilter)
#: Filters by what they look at, and what texts are made of for them.
RULES: dict[str, tuple[Sequence[DocumentFilter], Sequence[str]]] = {
    "nemo": (nemo_english(), PROSE),
    "dclm": (gopher("dclm"), PROSE[::3]),
    "datatrove": (gopher("datatrove"), PROSE[1::3]),
    "redpajama": (gopher("redpajama"), PROSE[2::3]),
    "c4": ((*c4_filters(), *c4_paragraphs(), dcurate.text.C4BadWordsFilter(["a b"])), PROSE[::3]),
    "fineweb": (fineweb_quality(), PROSE),
    "refinedweb": ([refinedweb.RefinedWebRemovedFilter()], PROSE),
    "others": (OTHERS, PROSE),
    "source": (SOURCE, CODE),
    "html": ([dcurate.text.HTMLBoilerplateFilter()], HTML),
    "addresses": (ADDRESSES, URLS),
    **{kind: ([dcurate.text.GeneralCommentToCodeFilter(kind)], CODE) for kind in COMMENTS},
}


def rest() -> list[DocumentFilter]:
    """The public filters of signals that need no arguments and are in no group but that of the preset."""
    held = {type(rule) for group, (rules, _) in RULES.items() if group != "nemo" for rule in rules}
    public = [getattr(dcurate.text, name) for name in dir(dcurate.text)]
    return [
        kind()
        for kind in public
        if inspect.isclass(kind)
        and issubclass(kind, SignalFilter)
        and not inspect.isabstract(kind)
        and kind not in held
        and all(setting.default is not setting.empty for setting in inspect.signature(kind).parameters.values())
    ]


#: A new filter that reads prose need not be named here.
RULES["rest"] = rest(), PROSE


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
    assert_linear(dcurate.text.MarkdownRemover().modify_document, singles(MARKDOWN))
    assert_linear(dcurate.text.MarkdownRemover().modify_document, pairs(MARKDOWN[:13]), SHORT)


@pytest.mark.parametrize("modifier", MODIFIERS, ids=lambda modifier: type(modifier).__name__)
def test_modifiers_take_linear_time(modifier: DocumentModifier) -> None:
    assert_linear(modifier.modify_document, singles(PROSE))
    assert_linear(modifier.modify_document, pairs(MARKS[:6]), SHORT)


def test_unicode_is_repaired_in_linear_time() -> None:
    assert_linear(dcurate.text.UnicodeReformatter().modify_document, singles([*PROSE[-24:], *HTML]))
    assert_linear(dcurate.text.UnicodeReformatter().modify_document, pairs(["Ã", "&", "\n", "a", ";"]), SHORT)


def test_personal_data_is_found_in_linear_time() -> None:
    assert_linear(whole(Modify(PiiModifier())), singles(PERSONAL))
    assert_linear(whole(Modify(PiiModifier())), pairs(PERSONAL[:6]), SHORT)


#: Python tokenizes long lines in quadratic time before 3.12.4 (python/cpython#119118).
SLOW_PYTHON = pytest.mark.xfail(
    (3, 12) <= sys.version_info < (3, 12, 4), reason="python/cpython#119118", raises=AssertionError, strict=True
)


@pytest.mark.parametrize(
    "rules", [pytest.param(one, marks=SLOW_PYTHON) if one in ("source", "text/x-python") else one for one in RULES]
)
def test_filters_take_linear_time(rules: str) -> None:
    filters, tokens = RULES[rules]
    work = whole(Annotate([*filters]))
    assert_linear(work, singles(tokens), SHORT if rules == "text/x-python" else LENGTHS)
    assert_linear(work, pairs(tokens[:3]), SHORT)


def test_lines_that_c4_leaves_are_found_in_linear_time() -> None:
    assert_linear(whole(*c4("datatrove", end_marks=False)), singles(PROSE))


def test_english_words_are_split_in_linear_time() -> None:
    assert_linear(split_english, pairs(MARKS[:3]), SHORT)


def test_documentation_is_measured_in_linear_time() -> None:
    assert_linear(documentation_length, pairs(CODE[:4]), SHORT)


def test_an_element_without_content_that_is_closed_costs_what_another_does() -> None:
    work = whole(Annotate([dcurate.text.HTMLBoilerplateFilter()]))
    assert_linear(work, [lambda length: "<br>" * (length // 8) + "</b>" * (length // 8)], (100_000, 1_000_000))


@pytest.mark.parametrize(
    ("language", "lengths"), [("ja", SHORT), ("th", SHORT), ("zh", LENGTHS), ("ko", (2_000, 20_000))]
)
def test_texts_without_spaces_are_split_in_linear_time(language: str, lengths: Sequence[int]) -> None:
    assert_linear(splitter(language), singles(UNSPACED), lengths)
    assert_linear(splitter(language), pairs(["a", "。", "한"]), lengths[:2])
    assert_linear(splitter(language), map(repeated, SPACES), lengths[:2])


def test_languages_are_identified_in_linear_time() -> None:
    work = whole(dcurate.text.LanguageId(paragraphs_field="languages"))
    assert_linear(work, singles(["a", "@", "\n\n", "www.", "<a ", ".", "1", "中", "://", "a\n\n"]))
    assert_linear(
        whole(dcurate.text.LanguageId(max_chars=10**7)), singles(["a", "a@", "@a", "www.", "<a ", "a.", "a://"]), SHORT
    )


@pytest.mark.parametrize("separator", ["a", "..", "\n\n"])
def test_documents_are_split_and_joined_in_linear_time(separator: str) -> None:
    split, join = dcurate.text.DocumentSplitter(separator), dcurate.text.DocumentJoiner(separator)

    def work(text: str) -> None:
        join.process(split.process(DocumentBatch(data=pa.table({"id": [1], "text": [text]}))))

    assert_linear(work, singles([*MARKS[:8], separator, f"{separator}a", f"{separator[0]}\n"]))


def test_tokens_are_counted_in_linear_time(tmp_path: Path) -> None:
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    assert_linear(dcurate.text.TokenCountFilter(tokenizer).score_document, singles(PROSE[:12]))
    trained = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a tale of two cities", "lorem ipsum"]),
        model_writer=trained,
        vocab_size=40,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    (tmp_path / "tiny.model").write_bytes(trained.getvalue())
    fertility = dcurate.text.TokenizerFertilityFilter(str(tmp_path / "tiny.model"))
    assert_linear(fertility.score_document, singles(PROSE[:12]))
