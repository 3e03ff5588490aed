from __future__ import annotations

import csv
import inspect
import pickle
import subprocess
import warnings
from functools import reduce
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dcurate import DataError, DocumentBatch, PipelineError, ScoreFilter
from dcurate.frames.text import text_column
from dcurate.text import (
    AlphaFilter,
    GeneralCommentToCodeFilter,
    HistogramFilter,
    HTMLBoilerplateFilter,
    Needs,
    NumberOfLinesOfCodeFilter,
    PerExtensionFilter,
    PythonCommentToCodeFilter,
    SignalFilter,
    Signals,
    XMLHeaderFilter,
)
from dcurate.text.filters.extension import ExtensionLimits
from tests.text.code_oracle import RULES, python_documentation
from tests.text.strategies import characters

ALL = reduce(Needs.__or__, (rule.needs for rule, _ in RULES))

marks = st.sampled_from(
    [
        *(
            '"',
            "'",
            "`",
            "\\",
            "\\\\",
            '\\"',
            "\\'",
            "/",
            "//",
            "/*",
            "*/",
            "*",
            "#",
            "<!--",
            "-->",
            "<!-",
            "--",
            ">",
            "<",
        ),
        *("\n", "\n", " ", "a", "b", "é", "中", "😀", "\r", "\t", "\r\n", '"""', "'''"),
        *('<?xml version="1.0"?>', "<?xml version", "=", "<?", "x" * 99, "y" * 900),
    ]
)
markup = st.sampled_from(
    [
        *("<p>", "</p>", "<pre>", "</pre>", "<br>", "</br>", "<br/>", "<script>", "</script>", "<style>", "</style>"),
        *(
            "<template>",
            "</template>",
            "<rt>",
            "</rt>",
            "<textarea>",
            "<script/>",
            " ",
            "\n",
            "ab",
            "é",
            "\xa0",
            "\x0b",
        ),
        *("&amp;", "&lt", "&#65;", "&#x41;", "&#32;", "&#xA;", "&Tab;", "&no;", "&", "&#", "&#0;", "&#9999999;", ";"),
        *(
            "<!--",
            "-->",
            "<![CDATA[",
            "]]>",
            "<![CDATA[]]>",
            "<!DOCTYPE html>",
            "<!x>",
            "<?pi>",
            "<",
            "</",
            ">",
            "<![x[",
        ),
    ]
)
python = st.sampled_from(
    [
        *(
            "# one",
            "  # two é",
            "x = 1",
            "x = '#'",
            '"""Doc."""',
            "'''Do\n  c.'''",
            '"a \\" # b"',
            "'''# \\''' '''",
            "r'\\'",
        ),
        *(
            "def f():\n    '''Doc\n      more.'''",
            "class A:\n    'Doc.'\n    def f(self):\n        ''",
            "async def f():\n    'Doc.'",
        ),
        *(
            "if x:\n    def f(): 'Doc.'",
            "try:\n    def f(): 'D'\nexcept E:\n    class B: 'D'",
            "match x:\n    case 1:\n        def f(): 'D'",
        ),
        *(
            "f = lambda: 'no'",
            "x = '\\d'",
            "f'{x}#'",
            "(",
            ")",
            "'",
            '"',
            "    y",
            "\\",
            "0x",
            "\x00",
            "\ufeff",
            "\r",
            "\f",
        ),
    ]
)
surrogates = st.text(st.sampled_from("\ud800\udfff/*#\"'<a \n"), max_size=9)
texts = st.one_of(
    st.lists(marks, max_size=40).map("".join),
    st.lists(markup, max_size=20).map("".join),
    st.lists(python, max_size=8).map("\n".join),
    st.text(characters),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(texts, min_size=1, max_size=4))
@example(["", " ", "\x00", "/*", "<!--", "'''", "#"])
@example(["\\\r\n"])
@example(["def f():\n\tx\n        y", "9" * 5000, "<!-->", "/*/", "<![CDATA[]]>"])
def test_every_filter_for_code_scores_as_its_rule_says(documents: list[str]) -> None:
    signals = Signals(text_column(pa.table({"text": documents}), "text"), ALL)
    for rule, expected in RULES:
        assert rule.score(signals).tolist() == [expected(text) for text in documents], rule


@settings(max_examples=40, deadline=None)
@given(st.one_of(texts, surrogates))
@pytest.mark.parametrize(("rule", "expected"), RULES, ids=lambda value: getattr(value, "name", ""))
def test_a_filter_for_code_scores_any_string(rule: SignalFilter, expected: object, text: str) -> None:
    assert rule.score_document(text) == expected(text)  # type: ignore[operator]


@settings(max_examples=50, deadline=None)
@given(st.lists(texts, min_size=2, max_size=5), st.data())
def test_scores_of_some_rows_are_those_rows_of_the_scores_of_all(documents: list[str], data: st.DataObject) -> None:
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(documents), max_size=len(documents))))
    before = Signals(text_column(pa.table({"text": documents}), "text"), ALL)
    scores = [rule.score(before) for rule, _ in RULES]
    kept = before.narrowed(mask)
    for (rule, _), score in zip(RULES, scores, strict=True):
        assert rule.score(kept).tolist() == score[mask].tolist()


def test_modules_of_the_standard_library_score_as_ast_and_tokenize_say() -> None:
    for module in (csv, inspect, pickle, subprocess):
        source = Path(str(module.__file__)).read_text("utf-8")
        assert PythonCommentToCodeFilter().score_document(source) == python_documentation(source) > 0.1


@pytest.mark.parametrize("text", ["x = '\\d'  # one", "if x is 1: pass  # one"])
def test_what_the_parser_warns_of_is_neither_an_error_nor_heard(text: str) -> None:
    ignored = [kind for kind, *_ in warnings.filters].count("ignore")
    assert PythonCommentToCodeFilter().score_document(text) == 5 / len(text)
    assert PythonCommentToCodeFilter().score_document(text) == 5 / len(text)
    assert [kind for kind, *_ in warnings.filters].count("ignore") <= 1 + ignored


@pytest.mark.parametrize(
    "text", ["[" * 300 + "]" * 300, "-" * 100_000 + "1", "a" + ".b" * 100_000, "(" * 10**6, "if a:\n" * 200]
)
def test_source_that_is_too_deep_for_the_parser_scores_as_no_source(text: str) -> None:
    assert PythonCommentToCodeFilter().score_document(text + "  # comment") == 0.0


def test_a_page_of_nothing_but_tags_without_an_end_scores_as_no_page() -> None:
    assert HTMLBoilerplateFilter().score_document("<!--" * 100_000) == 0.0
    assert HTMLBoilerplateFilter().score_document("<!--" + "x" * 999_996) == 1.0


def test_comments_are_distinguished_from_strings() -> None:
    def comments(language: str, text: str) -> float:
        return round(GeneralCommentToCodeFilter(language).score_document(text) * len(text), 9)

    assert comments("text/x-c", 'char *s = "//"; // ab\n/* c */ int i;') == len(" ab  c ")
    assert comments("text/x-javascript", "s = 'it\\'s // no'; // yes") == len(" yes")
    assert comments("text/x-go", "s := `// no`; /* yes */") == len(" yes ")
    assert comments("text/x-shellscript", "echo \\# '# no' # yes") == len(" yes")
    assert comments("text/x-ruby", 'puts "# no" # yes\nit\'s # too') == len(" yes  too")
    assert comments("text/xml", '<a b="<!-- no -->"/><!-- yes -->') == len(" yes ")
    assert comments("text/x-python", "s = '# no'  # yes") == len(" yes")


@pytest.mark.parametrize("text", ["int i; /* no end", "<!-- no end", "x = ("])
def test_a_comment_without_an_end_drops_a_text_whatever_the_limits(text: str) -> None:
    language = "text/x-c" if "/*" in text else "text/html" if "<" in text else "text/x-python"
    rule = GeneralCommentToCodeFilter(language, 0.0, 1.0)
    assert rule.score_document(text) == 9999.0
    assert not rule.keep_document(9999.0)


def test_a_language_without_known_comments_is_refused() -> None:
    with pytest.raises(PipelineError, match="language='text/x-asm' has no known comment syntax; did you mean"):
        GeneralCommentToCodeFilter("text/x-asm")


def test_a_filter_for_code_keeps_by_its_limits_ends_included() -> None:
    assert [NumberOfLinesOfCodeFilter(2, 3).keep_document(lines) for lines in (1, 2, 3, 4)] == [
        False,
        True,
        True,
        False,
    ]
    assert [AlphaFilter().keep_document(score) for score in (0.24, 0.25)] == [False, True]
    assert [HTMLBoilerplateFilter().keep_document(score) for score in (0.19, 0.2)] == [False, True]
    assert [XMLHeaderFilter().keep_document(score) for score in (0, 1)] == [True, False]
    for rule in (PythonCommentToCodeFilter(), GeneralCommentToCodeFilter("text/x-c")):
        assert [rule.keep_document(score) for score in (0.009, 0.01, 0.85, 0.86)] == [False, True, True, False]


def test_a_beginning_of_less_than_nothing_is_refused() -> None:
    with pytest.raises(PipelineError, match="char_prefix_search_length=-1 must be at least 0"):
        XMLHeaderFilter(-1)


def test_filters_for_code_are_equal_by_their_settings_and_travel_small() -> None:
    for rule, _ in RULES:
        assert pickle.loads(pickle.dumps(rule)) == rule
        assert len(pickle.dumps(rule)) < 400


def test_filters_for_code_work_on_in_one_pass() -> None:
    source = "\n".join(f"x = {number}  # a comment" for number in range(12))
    batch = DocumentBatch(data=pa.table({"text": [source, "x = 1", None, "1" * 99]}))
    rules = [NumberOfLinesOfCodeFilter(), GeneralCommentToCodeFilter("text/x-python"), PerExtensionFilter("C#", "cs")]
    kept = ScoreFilter(rules, score_field=["lines", "comments", "usual"]).process(batch)  # type: ignore[arg-type]
    assert kept.to_arrow().to_pydict()["lines"] == [12]
    assert [(rejection.reason, rejection.rows) for rejection in kept.rejections] == [("num_lines", 3)]


# Extensions


def test_a_language_and_an_extension_may_be_spelled_as_people_do() -> None:
    assert PerExtensionFilter("C#", ".cs").limits == PerExtensionFilter("c-sharp", "cs").limits
    assert PerExtensionFilter("Common Lisp", "lisp").limits.included
    assert PerExtensionFilter("makefile", None).limits == PerExtensionFilter("makefile", "").limits
    assert PerExtensionFilter("F#", "fs").limits == ExtensionLimits(True, 1000, 0.25, None)


def test_an_extension_that_the_table_leaves_out_or_does_not_know_is_dropped() -> None:
    assert PerExtensionFilter("bison", "bison").score_document("good code") == 0
    assert PerExtensionFilter("python", "exe").score_document("good code") == 0


def test_a_language_that_the_table_does_not_know_is_refused() -> None:
    with pytest.raises(PipelineError, match="language='pyton' is not in code_meta.csv; did you mean 'python'"):
        PerExtensionFilter("pyton", "py")


def test_a_table_of_ones_own_is_read_once_where_the_filter_is_made(tmp_path: Path) -> None:
    table = tmp_path / "own.csv"
    table.write_text(
        "language,extension,Include,Alphanum_threshold,Long_line_threshold,Alpha filter\n"
        "python,py,1,remove,0,0.5\nada,ada\n"
    )
    rule = PerExtensionFilter("python", "py", str(table))
    assert rule.limits == ExtensionLimits(True, None, None, 0.5)
    assert PerExtensionFilter("ada", "ada", str(table)).limits == ExtensionLimits()
    table.unlink()
    assert pickle.loads(pickle.dumps(rule)).score_document("ab12") == 1


def test_a_table_that_is_not_there_or_lacks_a_column_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nope.csv cannot be read .* leave metadata_file out to use dcurate's table"):
        PerExtensionFilter("python", "py", "nope.csv")
    table = tmp_path / "own.csv"
    table.write_text("language,extension\npython,py\n")
    with pytest.raises(DataError, match="has no column 'Include', 'Long_line_threshold'"):
        PerExtensionFilter("python", "py", str(table))
    table.write_bytes(b"\xff\n")
    with pytest.raises(DataError, match="cannot be read"):
        PerExtensionFilter("python", "py", str(table))


# Histograms


@pytest.fixture(
    params=[
        "histograms/checkpoint/edunov/cc60_multilingual/clean_hists",
        "checkpoint/edunov/cc60_multilingual/clean_hists",
        ".",
    ]
)
def tables(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A folder with a table, in each of the ways that one may come to lie there."""
    folder = tmp_path / request.param
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "xx").write_text("é 9\na 5\n  3\n\u2028 2\n\n] 0\nz 1\n", "utf-8")
    return tmp_path


@settings(max_examples=60, deadline=None)
@given(text=st.lists(st.sampled_from(["é", "a", "z", " ", "\n", "\u3000", "中", "b"]), max_size=12).map("".join))
def test_a_text_is_kept_if_enough_of_it_is_usual(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp()
    (folder / "yy").write_text("é 9\na 5\n  3\n\n] 0\nz 1\n", "utf-8")
    rule = HistogramFilter("yy", 0.5, str(folder))
    usual = sum(character in "éa \n" for character in text.strip())
    assert rule.score_document(text) == int(bool(text) and usual / len(text) > 0.5)


def test_a_table_is_found_where_it_was_unpacked(tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert HistogramFilter("xx", cache_dir=str(tables)).score_document("éa é") == 1
    assert HistogramFilter("xx", cache_dir=str(tables)).score_document("éazz") == 0
    assert HistogramFilter("xx", cache_dir=str(tables)).score_document("é\u2028a") == 1
    assert HistogramFilter("xx", cache_dir=str(tables), threshold_char="?").score_document("éazz") == 1
    monkeypatch.setenv("XDG_CACHE_HOME", str(tables))
    assert HistogramFilter("xx").score_document("éa") == 1


def test_a_table_that_is_missing_is_an_error_that_says_how_to_get_it(tables: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(
        DataError, match="no table for language='en' in .*; unpack https://.* and give that as cache_dir"
    ):
        HistogramFilter(cache_dir=str(empty)).model_check_or_download()
    with pytest.raises(DataError, match="language='en'"):
        HistogramFilter(cache_dir=str(tables)).score_document("x")
    assert not list(empty.iterdir())
    (empty / "en").write_bytes(b"\xff")
    with pytest.raises(DataError, match="en is not UTF-8 text"):
        HistogramFilter(cache_dir=str(empty)).score_document("x")


def test_a_formatted_string_is_a_string() -> None:
    assert PythonCommentToCodeFilter().score_document("f'{x}#' # a") == 3 / 11
