"""The functions and constants of `nemo_curator.stages.text` around its stages."""

import pandas as pd
import pytest

from dcurate.compat.nemo import download, text

PROGRAM = '''
"""Of the module."""

class A:
    """Of a class."""
    def f(self):  # one
        """Of a function."""
        return "#"  # two
'''


def test_comments_and_docstrings_of_a_program_are_read():
    docstrings, comments = text.get_comments_and_docstring(PROGRAM)
    assert docstrings == "Of a class.\nOf a function.\nOf the module."
    assert comments.split() == ["#", "one#", "two"]
    assert text.get_comments_and_docstring(PROGRAM, clean_comments=True)[1].split() == ["one", "two"]
    assert text.get_comments_and_docstring(PROGRAM, comments=False)[1] == ""


def test_what_is_no_program_has_no_docstrings():
    with pytest.warns(UserWarning, match="cannot be"):
        assert text.get_comments_and_docstring("x = (") == (None, None)


def test_words_begin_where_the_text_without_punctuation_has_them():
    assert text.get_words("  It's  two,\nor 3.") == (["its", "two\nor", "3"], [2, 7, 14])
    assert text.get_words("") == ([], [])


@pytest.mark.parametrize(
    ("indices", "answer"), [([0, 1, 2], False), ([0], True), ([1], False), ([2], True), ([1, 2], True), ([0, 2], False)]
)
def test_paragraphs_are_at_one_end_of_the_text(indices, answer):
    assert text.is_paragraph_indices_in_top_or_bottom_only(indices, 3) is answer


def test_texts_are_split():
    assert text.get_paragraphs("a\nb\n\nc") == ["a\nb", "c"]
    assert text.get_sentences("a\n \nb") == ["a", "b"]
    assert text.get_word_splitter("ZH")("我爱北京") == ["我", "爱", "北京"]


def test_a_url_ends_where_no_url_goes_on():
    assert text.regex_url.findall("see http://x.com<bad> or https://A.B-C_D+E&f!*(g),h/i%2F;") == [
        *("http://x.com", "https://A.B-C_D+E&f!*(g),h/i%2F")
    ]
    assert text.URL_REGEX.sub("", "a WWW.x.y/z b") == "a  b"


def test_stop_words_are_those_of_justext_without_latin():
    lists = download.get_stop_list_dict()
    assert "the" in lists["ENGLISH"]
    assert "LATIN" not in lists
    assert lists["THAI"] == frozenset()
    assert {*download.get_stop_list_dict(["German", "Norwegian_Bokmal", "Chinese"])} == {
        "GERMAN",
        "NORWEGIAN",
        "CHINESE",
    }


def test_a_page_is_decoded_and_its_language_found():
    assert download.decode_html("<meta charset='latin-1'>\xe4".encode("latin-1")) == "<meta charset='latin-1'>ä"
    assert download.lang_detect("Das ist ein\x00 deutscher Text, und er ist lang genug.\x01\ufffe") == "GERMAN"


@pytest.mark.parametrize(
    ("given", "lowercase", "normalize_space", "expected"),
    [
        (" So  it\tGOES\x00\n", True, True, "so it goes"),
        (" So  it\tGOES\x00\n", False, True, "So it GOES"),
        (" So  it\tGOES\x00\n", True, False, " so  it\tgoes\x00\n"),
        ("\u00a0A\u3000B\u2009", True, True, "\u00a0a\u3000b\u2009"),
        ("\u0130", True, True, "i\u0307"),
        (None, True, True, None),
        ("", True, True, ""),
    ],
)
def test_texts_are_normalized_as_cudf_does(given, lowercase, normalize_space, expected):
    series = pd.Series(["x", given], index=[5, 3], name="text", dtype=object)
    made = text.normalize_text(series, lowercase=lowercase, normalize_space=normalize_space)
    pd.testing.assert_series_equal(made, pd.Series(["x", expected], index=[5, 3], name="text", dtype=object))


def test_only_a_series_is_normalized():
    with pytest.raises(TypeError, match="text_series is a list; give a Series of texts"):
        text.normalize_text(["a"])  # type: ignore[arg-type]
