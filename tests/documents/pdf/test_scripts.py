"""Letters beyond the basic plane, and vertical writing."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from dcurate.documents.pdf import extract_pdf
from tests.documents.pdf.writer import pages_of, shown, squares, stream

#: Lines of vertical writing, from the right.
LINES = ["吾輩は猫である。名前は", "まだ無い。どこで生れた", "か頓と見当がつかぬ。"]


def written(texts: Iterable[tuple[str, str, float, float]], latin: bytes = b"") -> bytes:
    """A page of texts in fonts of squares that are mapped to their letters, each with its font and place.

    Fonts: H for lines across, N for narrow ones, V for vertical writing.
    """
    texts = list(texts)
    codes = {character: code for code, character in enumerate(dict.fromkeys("".join(each[1] for each in texts)), 1)}
    pairs = "\n".join(f"<{code:04X}> <{each.encode('utf-16-be').hex()}>" for each, code in codes.items())
    unicode = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def /CMapType 2 def\n"
        "1 begincodespacerange <0000> <FFFF> endcodespacerange\n"
        f"{len(codes)} beginbfchar\n{pairs}\nendbfchar endcmap end end"
    )
    content = b""
    for name, text, x, y in texts:
        glyphs = "".join(f"{codes[each]:04X}" for each in text)
        font_and_width = "H 12 Tf 50 Tz" if name == "N" else f"{name} 12 Tf 100 Tz"
        content += f"BT /{font_and_width} {x} {y} Td <{glyphs}> Tj ET\n".encode()
    font = b"<< /Type /Font /Subtype /Type0 /BaseFont /A /Encoding /Identity-%b /DescendantFonts [7 0 R] "
    font += b"/ToUnicode 8 0 R >>"
    objects = {
        5: font % b"H",
        6: font % b"V",
        7: b"<< /Type /Font /Subtype /CIDFontType2 /BaseFont /A /CIDToGIDMap /Identity /DW 1000 /FontDescriptor 9 0 R "
        b"/CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>",
        8: stream(unicode.encode()),
        9: b"<< /Type /FontDescriptor /FontName /A /Flags 4 /FontBBox [0 -200 1000 900] /ItalicAngle 0 /Ascent 900 "
        b"/Descent -200 /CapHeight 700 /StemV 80 /FontFile2 90 0 R >>",
        90: stream(squares(len(codes) + 1)),
    }
    return pages_of([content + latin], fonts=b"/H 5 0 R /V 6 0 R", more=objects)


@pytest.mark.parametrize(
    "text",
    ["a𝐴𝑥b = 𝔸ℝ", "𠀋𠮷野家", "👍👎", "𐐀x𐐨"],
    ids=["mathematical letters", "extension B", "pictures", "Deseret"],
)
def test_letters_beyond_the_basic_plane(text: str) -> None:
    found = extract_pdf(written([("H", text, 50, 700)]))
    assert found["text"] == text
    assert found["pages"][0]["broken_share"] == 0


def test_letters_beyond_the_basic_plane_in_lines_to_the_left() -> None:
    assert extract_pdf(written([("H", "שלום👍👎עולם"[::-1], 50, 700)]))["text"] == "שלום👍👎עולם"


def test_half_a_letter_is_broken() -> None:
    data = written([("H", "abc𝐴", 50, 700)]).replace("𝐴".encode("utf-16-be").hex().encode(), b"D835    ")
    found = extract_pdf(data)
    assert found["text"] == "abc\ufffd"
    assert found["pages"][0]["broken_share"] == 0.25


def test_vertical_lines_are_read_from_the_right() -> None:
    found = extract_pdf(written(("V", line, 500 - 20 * at, 780) for at, line in enumerate(LINES)))
    assert found["text"] == "".join(LINES)


@pytest.mark.parametrize("font", "HV")
def test_vertical_lines_of_single_characters(font: str) -> None:
    found = extract_pdf(
        written(
            (font, each, 500 - 20 * at, 780 - 12 * step)
            for at, line in enumerate(LINES)
            for step, each in enumerate(line)
        )
    )
    assert found["text"] == "".join(LINES)


def test_tiers_of_vertical_lines_are_read_one_after_the_other() -> None:
    tiers = [("V", line, 500 - 20 * at, top) for top in (780, 560) for at, line in enumerate(4 * LINES)]
    assert extract_pdf(written(tiers))["text"].replace("\n", "") == 8 * "".join(LINES)


def test_digits_side_by_side_are_within_their_vertical_line() -> None:
    year = [("V", "昭和", 500, 780), ("N", "12", 494, 746), ("V", "年の春に。", 500, 744)]
    texts = [*year, *(("V", line, 480 - 20 * at, 780) for at, line in enumerate(LINES))]
    assert extract_pdf(written(texts))["text"] == "昭和12年の春に。\n" + "".join(LINES)


def test_lines_across_and_vertical_writing_on_one_page_are_both_read() -> None:
    vertical = [("V", line, 500 - 20 * at, 600) for at, line in enumerate(LINES)]
    few = extract_pdf(written(vertical, shown("Notes of a cat", 50, 700)))
    assert few["text"] == "".join(LINES) + "\n\nNotes of a cat"
    prose = b"".join(shown(f"A line of prose in English, number {at}, of a cat.", 50, 700 - 13 * at) for at in range(9))
    many = extract_pdf(written([("V", LINES[0], 500, 700)], prose))
    assert many["text"].endswith("number 8, of a cat.\n\n" + LINES[0])
    assert many["pages"][0]["characters"] == len("".join(many["text"].split()))


def test_single_characters_in_the_cells_of_rows_are_not_vertical() -> None:
    rows = [("H", each, 100 + 60 * column, 700 - 20 * row) for row in range(5) for column, each in enumerate("男女計")]
    assert extract_pdf(written(rows))["text"].split() == 5 * ["男", "女", "計"]
