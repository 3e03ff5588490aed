"""What pages look like, and what is read from them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate.documents.pdf import extract_pdf
from tests.documents.pdf.writer import pages_of, paragraph, shown, stream
from tests.growth import assert_linear

LEFT = [f"left column line {number} of prose that goes on" for number in range(12)]
RIGHT = [f"right column line {number} of prose that goes on" for number in range(12)]


def text_of(*contents: bytes, **options: object) -> str:
    return extract_pdf(pages_of(contents), options)["text"]


@pytest.mark.parametrize("shift", [0, 4])
def test_columns_are_read_one_after_the_other(shift: int) -> None:
    columns = [shown(line, x, y - 14 * at) for lines, x, y in ((LEFT, 50, 700), (RIGHT, 320, 700 - shift))
               for at, line in enumerate(lines)]  # fmt: skip
    words = text_of(b"".join(columns[::2] + columns[1::2])).split()
    assert words == " ".join(LEFT + RIGHT).split()


def test_a_title_over_columns_comes_first() -> None:
    page = paragraph(RIGHT, 320, 680) + shown("A title that is wider than any of the columns", 50, 740, 20)
    words = text_of(page + paragraph(LEFT, 50, 680)).split()
    assert words == " ".join(["A title that is wider than any of the columns", *LEFT, *RIGHT]).split()


def test_words_are_joined_at_hyphens_and_compounds_keep_theirs() -> None:
    lines = ["It is a well-known fact that the long words of some languages are bro-", "ken here, as is the well-",
             "known hyphen."]  # fmt: skip
    lines[1] = "ken at the ends of lines, and that a compound such as the word well-"
    found = text_of(paragraph(lines, 50, 700))
    assert "are broken at the ends" in found
    assert found.endswith("the word well-known hyphen.")
    assert "bro-\nken" in text_of(paragraph(lines, 50, 700), join_hyphens=False)


def test_headers_footers_and_page_numbers_are_left_out() -> None:
    pages = [
        shown("A running head", 50, 810, 8)
        + paragraph(
            [f"text {'abcd'[page] * 3} of a page {'xyz'[line % 3] * (line + 1)}" for line in range(20)], 50, 740
        )
        + shown(f"{page + 1} / 4", 290, 30, 8)
        for page in range(4)
    ]
    found = extract_pdf(pages_of(pages))
    assert "running" not in found["text"]
    assert "/" not in found["text"]
    assert sorted(found["headers_footers"]) == [*(f"{page} / 4" for page in range(1, 5)), *4 * ["A running head"]]
    assert "A running head" in text_of(*pages, keep_headers=True)


def test_a_ruled_table_becomes_markdown_by_its_cells() -> None:
    cells = [["name", "size"], ["first file", "10"], ["second", "2 | 3"]]
    page = b"".join(
        b"%d %d 100 20 re S\n" % (50 + 100 * column, 700 - 20 * row) + shown(text, 54 + 100 * column, 706 - 20 * row)
        for row, line in enumerate(cells)
        for column, text in enumerate(line)
    )
    found = extract_pdf(pages_of([shown("Before the table.", 50, 760) + page + shown("After it.", 50, 600)]))
    assert [table["cells"] for table in found["pages"][0]["tables"]] == [cells]
    assert found["markdown"] == (
        "Before the table.\n\n| name | size |\n| --- | --- |\n| first file | 10 |\n| second | 2 \\| 3 |\n\nAfter it."
    )


def test_an_aligned_table_has_its_cells() -> None:
    cells = [["fruit", "price", "stock"], ["apple", "1.20", "14"], ["pear", "", "3"], ["cherry", "8.00", "200"]]
    page = b"".join(
        shown(text, 50 + 120 * column, 700 - 16 * row)
        for row, line in enumerate(cells)
        for column, text in enumerate(line)
        if text
    )
    assert [table["cells"] for table in extract_pdf(pages_of([page]))["pages"][0]["tables"]] == [cells]


def test_hidden_text_is_left_out() -> None:
    hidden = (
        b"1 g " + shown("white", 50, 600) + b"0 g " + shown("tiny", 50, 580, 0.3) + shown("away", 50, -400)
        + b"3 Tr " + shown("mode", 50, 560) + b"0 Tr " + shown("covered", 50, 540) + b"0.5 g 40 530 200 30 re f 0 g "
    )  # fmt: skip
    assert text_of(shown("Seen by everyone.", 50, 700) + hidden) == "Seen by everyone."
    on_dark = b"0 g 40 530 200 30 re f 1 g " + shown("Light on dark.", 50, 540)
    assert text_of(on_dark) == "Light on dark."


GRAPHICS = (
    b"/ExtGState << /Faint << /ca 0.4 >> /Multiply << /BM /Multiply >> >> /XObject << /Image 50 0 R /Form 51 0 R >> "
)
OVER = {
    50: stream(b"\x80", b"/Subtype /Image /Width 1 /Height 1 /BitsPerComponent 8 /ColorSpace /DeviceGray "),
    51: stream(b"1 1 0 rg 0 0 1 1 re f", b"/Subtype /Form /BBox [0 0 1 1] /Group << /S /Transparency >> "),
}


@pytest.mark.parametrize(
    ("drawn", "state"),
    [
        (drawn, state)
        for drawn in (b"/Image Do", b"/Form Do", b"1 1 0 rg 0 0 1 1 re f")
        for state in (b"/Faint gs", b"/Multiply gs", b"")
        if (drawn, state) != (b"/Form Do", b"/Multiply gs")  # pdfium does not tell the blend mode of a form
    ],
)
def test_text_under_what_can_be_seen_through_is_read_and_other_text_is_counted(drawn: bytes, state: bytes) -> None:
    page = paragraph(LEFT, 50, 700) + shown("Over here.", 60, 500) + b"q %b 200 0 0 30 50 490 cm %b Q " % (state, drawn)
    found = extract_pdf(pages_of([page], resources=GRAPHICS, more=OVER))
    assert found["text"].endswith("Over here.") is bool(state)
    assert found["pages"][0]["characters_hidden"] == (0 if state else 9)


def test_text_printed_twice_is_read_once() -> None:
    assert text_of(shown("Bold by ink.", 50, 700) + shown("Bold by ink.", 50.4, 700)) == "Bold by ink."


@pytest.mark.parametrize("turn", [b"0 1 -1 0 300 100", b"-1 0 0 -1 500 700", b"0 -1 1 0 300 700"])
def test_turned_text_is_read_upright(turn: bytes) -> None:
    lines = b"".join(b"BT /F 10 Tf 0 %d Td (line %d of text) Tj ET " % (-13 * at, at) for at in range(5))
    expected = " ".join(f"line {at} of text" for at in range(5))
    assert text_of(b"q " + turn + b" cm " + lines + b"Q").split() == expected.split()


def test_lists_of_contents_lose_leaders_and_page_numbers_but_prices_stay() -> None:
    contents = [f"{at} A chapter " + ". " * 30 + str(7 * at) for at in range(1, 6)]
    assert text_of(paragraph(contents, 50, 700)).split("\n") == [f"{at} A chapter" for at in range(1, 6)]
    prices = [f"Soup {at} " + ". " * 30 + str(9 - at) for at in range(1, 6)]
    assert "Soup 1 8" in text_of(paragraph(prices, 50, 700))


def test_markdown_has_headings_lists_and_code() -> None:
    page = (
        shown("The title", 50, 780, 20)
        + paragraph(["Prose that is long enough to be what most of this page is made of, line by line."] * 4, 50, 740)
        + paragraph(["\u2022 one", "\u2022 two"], 50, 660)
        + shown("if x:", 50, 600, 10, "M")
        + shown("return y", 74, 587, 10, "M")
    )
    found = extract_pdf(pages_of([page]))["markdown"]
    assert found.startswith("# The title\n\nProse")
    assert "- one\n- two" in found
    assert found.endswith("```\nif x:\n    return y\n```")


def test_numbers_of_lines_are_left_out() -> None:
    lines = [f"Sentence number {at} of a manuscript with numbered lines in its margin." for at in range(20)]
    numbers = b"".join(shown(str(at + 1), 30, 700 - 13 * at, 7) for at in range(20))
    assert text_of(paragraph(lines, 80, 700) + numbers).split() == " ".join(lines).split()


def test_a_scan_is_known_by_its_picture() -> None:
    image = stream(
        b"\x80", b"/Type /XObject /Subtype /Image /Width 1 /Height 1 /BitsPerComponent 8 /ColorSpace /DeviceGray "
    )
    document = pages_of(
        [b"q 595 0 0 842 0 0 cm /I Do Q", shown("Text. " * 10, 50, 700)],
        resources=b"/XObject << /I 9 0 R >>",
        more={9: image},
    )
    scan, text = extract_pdf(document)["pages"]
    assert (scan["scanned"], scan["image_share"], text["scanned"], text["image_share"]) == (True, 1.0, False, 0.0)


def test_work_grows_with_the_characters_and_ends_at_the_limit() -> None:
    def page(count: int) -> bytes:
        return pages_of([b"".join(shown("x y", 20 + 7 * (at % 80), 830 - 0.05 * at, 3) for at in range(count))])

    assert_linear(extract_pdf, [page], (4_000, 16_000), bytes_each=40)
    limited = extract_pdf(pages_of([shown("many " * 1000, 10, 700, 1)]), {"max_chars_per_page": 100})
    assert limited["pages"][0]["characters_left_out"] > 0
    assert limited["pages"][0]["characters"] <= 100


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.lists(st.from_regex(r"[A-Za-z]{1,12}", fullmatch=True), min_size=1, max_size=8), min_size=1, max_size=12
    )
)
def test_every_word_is_read_once_in_order(lines: list[list[str]]) -> None:
    found = text_of(paragraph([" ".join(line) for line in lines], 60, 700))
    assert found.split() == [word for line in lines for word in line]
