from __future__ import annotations

import pickle

import ftfy
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dcurate import PipelineError
from dcurate.text import UnicodeReformatter

pieces = st.sampled_from(
    [
        *(
            "sÃ­",
            "â€œ",
            "voilÃ ",
            "Ã",
            "\xa0",
            "é",
            "中",
            "ﬁ",
            "Ａ",
            "“",
            "’",
            "&amp;",
            "&EACUTE;",
            "&",
            ";",
            "<",
            ">",
            "a",
            "b ",
        ),
        *(
            "\n",
            "\n",
            "\r",
            "\r\n",
            "\u2028",
            "\x85",
            "\x1b[31m",
            "\x00",
            "\x7f",
            "\ufeff",
            "\x93",
            "\ud83d",
            "\ude00",
            "�",
            "?",
        ),
    ]
)
#: What comes of UTF-8 that is read in another encoding, and good text of the same scripts.
mojibake = st.builds(
    lambda text, encoding: text.encode().decode(encoding, "replace"),
    st.text(st.sampled_from("éàœÂÃß€“”’—…°ñšжГВРяСЂβΟمه中あ한\u00a0 aZ.0"), max_size=8),
    st.sampled_from(["latin-1", "cp1252", "cp1251", "cp1253", "mac-roman", "cp437", "iso8859-2", "utf-8"]),
)
texts = st.one_of(
    st.lists(st.one_of(mojibake, st.sampled_from([" ", "\n", "a", "“", "é"])), max_size=8).map("".join),
    st.lists(pieces, max_size=25).map("".join),
    st.text(max_size=30),
)
booleans = st.sampled_from(
    [
        *("remove_terminal_escapes", "fix_encoding", "restore_byte_a0", "replace_lossy_sequences"),
        *("decode_inconsistent_utf8", "fix_c1_controls", "fix_latin_ligatures", "fix_character_width", "uncurl_quotes"),
        *("fix_line_breaks", "fix_surrogates", "remove_control_chars"),
    ]
)
configurations = st.builds(
    dict,
    st.dictionaries(booleans, st.booleans()),
    unescape_html=st.sampled_from(["auto", True, False]),
    normalization=st.sampled_from([None, "NFC", "NFKD"]),
    max_decode_length=st.sampled_from([1, 3, 1_000_000]),
)


@settings(max_examples=300, deadline=None)
@given(texts, configurations)
@example("&amp;\n<\n&amp;", {"max_decode_length": 1})
@example("a&amp;<b>&amp;", {"max_decode_length": 3})
@example("voilÃ le travail", {"restore_byte_a0": False})
def test_a_text_is_repaired_as_ftfy_does(text: str, settings: dict[str, object]) -> None:
    usual = {
        "fix_latin_ligatures": False,
        "fix_character_width": False,
        "uncurl_quotes": False,
        "fix_line_breaks": False,
    }
    config = ftfy.TextFixerConfig(**{"normalization": None, **usual, **settings})  # type: ignore[arg-type]
    expected = ftfy.fix_text(text, config)
    assert UnicodeReformatter(**settings).modify_document(text) == expected  # type: ignore[arg-type]
    assert UnicodeReformatter(config).modify_document(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sÃ­ &amp; no", "sí & no"),
        ("&lt;\n&lt;p>", "<\n<p>"),
        ("<p>\n&lt;p&gt;", "<p>\n&lt;p&gt;"),
        ("\x1b[31mred\x1b[0m\x00", "red"),
        ("\ud83d\ude00 \ud83d", "😀 \ufffd"),
        ("“curly” ﬁ Ａ\r\n", "“curly” ﬁ Ａ\r\n"),
        ("", ""),
    ],
)
def test_by_default_what_is_broken_is_fixed_and_what_is_style_stays(text: str, expected: str) -> None:
    assert UnicodeReformatter().modify_document(text) == expected


def test_explanations_change_nothing() -> None:
    text = "voilÃ le travail"
    for explain in (True, False):
        cautious = UnicodeReformatter(restore_byte_a0=False, decode_inconsistent_utf8=False, explain=explain)
        assert cautious.modify_document(text) == text
    assert UnicodeReformatter().modify_document(text) == "voilà le travail"


def test_a_repairer_is_its_settings() -> None:
    repairer = UnicodeReformatter(normalization="NFC")
    repairer.modify_document("é")
    assert pickle.loads(pickle.dumps(repairer)) == repairer != UnicodeReformatter()


def test_pieces_of_no_length_are_refused() -> None:
    with pytest.raises(PipelineError, match="max_decode_length must be at least 1"):
        UnicodeReformatter(max_decode_length=0)
