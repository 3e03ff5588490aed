"""The functions and constants of `nemo_curator.stages.text` around its stages."""

import pandas as pd
import pytest

from dcurate.compat.nemo import download, text


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
