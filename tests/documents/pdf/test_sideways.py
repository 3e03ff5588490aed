"""Text at right angles to most of its page, or upside down, is read after the rest and changes nothing of it."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dcurate.documents.pdf import extract_pdf
from tests.documents.pdf.test_turned import LINES, turned
from tests.documents.pdf.writer import pages_of, paragraph, shown
from tests.growth import assert_linear

#: What moves the origin to where a text begins that is turned by quarters against the clock, so that it is on the page.
TURNS = (b"1 0 0 1", b"0 1 -1 0", b"-1 0 0 -1", b"0 -1 1 0")
STARTS = ((60, 800), (40, 60), (540, 40), (560, 800))


def placed(text: str, x: float, y: float, turn: int, size: float = 8) -> bytes:
    return b"BT /F %g Tf %b %g %g Tm (%b) Tj ET\n" % (size, TURNS[turn], x, y, text.encode())


def block(lines: list[str], turn: int) -> bytes:
    """Lines below each other, as it is for one who reads them; each turn has its own side of the page."""
    x, y = STARTS[turn]
    down = ((0, -1), (1, 0), (0, 1), (-1, 0))[turn]
    return b"".join(placed(line, x + 11 * at * down[0], y + 11 * at * down[1], turn) for at, line in enumerate(lines))


WORD = st.from_regex(r"[a-z]{2,9}", fullmatch=True)
TEXT = st.lists(st.lists(WORD, min_size=1, max_size=4).map(" ".join), min_size=1, max_size=4)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 3), st.lists(TEXT, min_size=4, max_size=4), st.sets(st.integers(0, 3), min_size=1))
@example(0, [["some-"], ["thing"], ["a"], ["b"]], {0, 1, 2, 3})
@example(3, [["a b"], ["c d"], ["e"], ["f"]], {1})
def test_text_of_every_direction_is_read_after_the_rest(main: int, texts: list[list[str]], others: set[int]) -> None:
    body = LINES[:6] + texts[main]
    content = block(body, main)
    alone = extract_pdf(pages_of([content]))
    turned_texts = {turn: texts[turn] for turn in sorted(others - {main})}
    for turn, lines in turned_texts.items():
        content += block(lines, turn)
    found = extract_pdf(pages_of([content]))
    assert found["text"].startswith(alone["text"])
    assert found["markdown"].startswith(alone["markdown"])
    rest = found["text"].removeprefix(alone["text"]).replace("\n", " ")
    assert sorted(rest.split()) == sorted(" ".join(line for lines in turned_texts.values() for line in lines).split())
    for lines in turned_texts.values():
        assert " ".join(lines) in rest
    assert found["losses"] == []
    signals, before = found["pages"][0], alone["pages"][0]
    count = sum(len(word) for lines in turned_texts.values() for line in lines for word in line.split())
    assert signals["characters_turned"] == count
    assert {**signals, "characters_turned": 0, "text": "", "markdown": ""} == {**before, "text": "", "markdown": ""}


@settings(max_examples=20, deadline=None)
@given(st.floats(-14, 14), st.sampled_from([90, 180, -90]))
@example(2.0, 90)
@example(0.0, 90)
def test_a_note_at_about_a_right_angle_to_a_skewed_page_is_read(skew: float, angle: int) -> None:
    page = turned(LINES[:9], skew, 200, 530) + turned(["a note beside the text"], angle, 200, 650)
    found = extract_pdf(pages_of([page]))
    assert found["text"].split() == [*" ".join(LINES[:9]).split(), *["a", "note", "beside", "the", "text"]]
    assert (found["losses"], found["pages"][0]["characters_turned"]) == ([], 18)


def test_a_watermark_beside_a_margin_note_is_still_a_loss() -> None:
    page = paragraph(LINES[:9], 60, 800) + placed("kg", 30, 300, 1) + turned(["CONFIDENTIAL"], 45, 200, 400)
    found = extract_pdf(pages_of([page]))
    assert found["text"].endswith("\n\nkg")
    assert found["losses"] == [{"what": "turned characters", "count": 12, "where": "page 1"}]
    assert found["pages"][0]["characters_turned"] == 14


def test_a_landscape_table_on_a_portrait_page_keeps_its_cells_and_the_header_is_known_by_other_pages() -> None:
    cells = [["fruit", "price", "stock"], ["apple", "1.20", "14"], ["pear", "1.00", "3"], ["cherry", "8.00", "200"]]
    table = b"".join(
        placed(text, 200 + 16 * row, 100 + 120 * column, 1)
        for row, line in enumerate(cells)
        for column, text in enumerate(line)
    )
    head = [shown("A running head", 50, 810, 8) + shown(str(page + 1), 290, 30, 8) for page in range(4)]
    text = [
        paragraph([f"text {'abcd'[page] * 3} of {'xyz'[at % 3] * (at + 1)}" for at in range(9)], 50, 740)
        for page in range(4)
    ]
    text[2] = table + placed("Fruit of the season, as it was sold in the market of the town", 150, 100, 1)
    found = extract_pdf(pages_of([one + two for one, two in zip(head, text, strict=True)]))
    assert [table["cells"] for table in found["pages"][2]["tables"]] == [cells]
    assert sorted(found["headers_footers"]) == ["1", "2", "3", "4", *["A running head"] * 4]
    assert found["losses"] == []


def test_a_stamp_in_the_margin_of_each_page_is_left_out_and_one_on_a_page_is_kept() -> None:
    texts = [paragraph([f"text {'abcd'[page] * (at + 2)}" for at in range(9)], 80, 740) for page in range(4)]
    stamped = [text + placed(f"Copy {page} of 4", 20, 300, 1) for page, text in enumerate(texts)]
    stamped[0] += placed("arXiv:2401.00001v2", 34, 250, 1, 20)
    found, plain = extract_pdf(pages_of(stamped)), extract_pdf(pages_of(texts))
    assert found["headers_footers"] == [f"Copy {page} of 4" for page in range(4)]
    assert found["pages"][0]["text"] == plain["pages"][0]["text"] + "\n\narXiv:2401.00001v2"
    assert [page["text"] for page in found["pages"][1:]] == [page["text"] for page in plain["pages"][1:]]
    assert "#" not in found["markdown"]


@pytest.mark.parametrize("mixed", [True, False])
def test_pages_of_all_directions_are_read_in_linear_time(mixed: bool) -> None:
    def page(count: int) -> bytes:
        one = [placed("x y", 20 + 7 * (at % 80), 20 + 0.05 * at, at % 4 if mixed else 1, 3) for at in range(count)]
        return pages_of([b"".join(one) + shown("main " * count, 10, 700, 1)])

    assert_linear(extract_pdf, [page], (2_000, 8_000), bytes_each=60)
