"""Texts that make the rules work: any Unicode, and texts of few pieces that repeat."""

from __future__ import annotations

import unicodedata

from hypothesis import strategies as st

#: Marks and other symbols may be alphabetic without being letters, which the plain-Python oracle cannot know;
#: a table test covers them.
characters = st.characters(exclude_categories=["Cs", "Mn", "Mc", "So", "Cn"]).filter(
    lambda character: unicodedata.category(character) != "Cn"
)

pieces = st.sampled_from(
    [
        *(
            " ",
            " ",
            " ",
            "\n",
            "\n",
            "\n\n",
            "\t",
            "\r\n",
            "\x0b",
            "\x1c",
            "\x85",
            "\xa0",
            "\u1680",
            "\u2003",
            "\u2028",
        ),
        *("\u202f", "\u205f", "\u3000", "\b", "\x00", "\u200b", "\u180e", "\ufeff"),
        *(
            "a",
            "a",
            "b",
            "the",
            "the",
            "of",
            "and",
            "with",
            "that",
            "have",
            "be",
            "to",
            "The",
            "th",
            "abcdefgh",
            "abcdefghi",
        ),
        *(
            "...",
            "…",
            "[...]",
            "(...)",
            "[…]",
            "-»",
            "»",
            "..",
            ".",
            "read more",
            "Read More",
            "read more..",
            "READ",
            "MORE",
        ),
        *(
            "#",
            "##",
            "#a#",
            "#a",
            "•",
            "  ‣ x",
            "⦿",
            "●",
            "é",
            "ñandú",
            "中文",
            "Ⅷ",
            "٣",
            "𝟘",
            "😀",
            "👍🏽",
            "❤\ufe0f",
            "🇫🇷",
            "👩\u200d🚀",
            "©",
            "1969",
            "7",
            "⟨",
            "⟩",
            "(",
            "]",
        ),
        *("?", "!", '"', "'", ",", "-", "_"),
    ]
)

#: Pieces of addresses and of what pages say of themselves; one with a Kelvin sign, which is a k in lower case.
notices = st.sampled_from(
    [
        *(
            "http",
            "https",
            "s",
            "://",
            ":",
            "/",
            "a.b/c",
            "%20",
            "%2",
            "%zz",
            "porn",
            "Porn",
            " ",
            "\n",
            "\n\n",
            "(",
            "é",
        ),
        *(">", "use cookies", "Uses Cookies", "privacy & cookies policy", "Privacy", " policy", "terms of use"),
        *("lorem ipsum", "use coo\u212aies", "use", " cookie", "s", "use of "),
    ]
)

texts = st.one_of(
    st.lists(notices, max_size=30).map("".join),
    st.text(characters),
    st.lists(pieces, max_size=60).map("".join),
    st.lists(st.sampled_from(["a", "b", "ab", "ba"]), max_size=40).map(" ".join),
    st.lists(st.sampled_from(["x y", "x y", "z", "", " ", "é"]), max_size=20).map("\n".join),
)
