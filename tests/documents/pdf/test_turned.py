"""Text is read as it is seen: turned by any angle, of negative sizes, of fonts in any unit, within the crop box."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dcurate.documents.pdf import extract_pdf
from tests.documents.pdf.writer import pages_of, paragraph, shown, stream

SENTENCE = "It is a truth universally acknowledged that a man in possession of a good fortune must be"
WORDS = SENTENCE.split()
LINES = [" ".join(WORDS[at % 7 : at % 7 + 6]) + f" {at}" for at in range(20)]


def turned(lines: list[str], degrees: float, x: float, y: float, size: float = 8) -> bytes:
    """Lines from x and y downwards, the page turned against the clock around its middle."""
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    out = b""
    for at, line in enumerate(lines):
        across, up = x - 297, y - 13 * at - 421
        place = 297 + across * cosine - up * sine, 421 + across * sine + up * cosine
        out += b"BT /F %g Tf %.7f %.7f %.7f %.7f %.4f %.4f Tm (%b) Tj ET\n" % (
            size, cosine, sine, -sine, cosine, *place, line.encode()
        )  # fmt: skip
    return out


@settings(max_examples=30, deadline=None)
@given(st.floats(-180, 180))
@example(1.0)
@example(3.4)
@example(-5.0)
@example(45.0)
@example(135.0)
def test_a_page_turned_by_any_angle_is_read_in_order(degrees: float) -> None:
    found = extract_pdf(pages_of([turned(LINES, degrees, 200, 530)]))
    assert found["text"].split() == " ".join(LINES).split()
    assert found["losses"] == []


def test_the_skew_of_a_page_is_a_signal() -> None:
    pages = extract_pdf(pages_of([turned(LINES, 2.5, 200, 530), paragraph(LINES, 60, 700)]))["pages"]
    assert (pages[0]["skew_degrees"], pages[1].get("skew_degrees")) == (-2.5, None)


def test_words_of_a_line_whose_angles_differ_a_little_stay_in_order() -> None:
    line = b"".join(turned([word], 1.2 + 0.3 * (at % 3 - 1), 60 + 40 * at, 500) for at, word in enumerate("abcdefghij"))
    assert extract_pdf(pages_of([line]))["text"].split() == list("abcdefghij")


def test_lines_turned_a_little_come_after_the_others_and_lines_turned_more_are_a_loss() -> None:
    page = paragraph(LINES[:9], 60, 800) + turned(["a note beside the text"], 6, 200, 300)
    found = extract_pdf(pages_of([page + turned(["CONFIDENTIAL"], 45, 200, 400)]))
    assert found["text"].split() == [*" ".join(LINES[:9]).split(), *["a", "note", "beside", "the", "text"]]
    assert found["losses"] == [{"what": "turned characters", "count": 12, "where": "page 1"}]
    assert found["pages"][0]["characters_turned"] == 12


@pytest.mark.parametrize("matrix", [b"-1 0 0 -1", b"0 1 -1 0", b"0 -1 1 0", b"1 0 0 1"])
def test_a_negative_size_turns_letters_by_half(matrix: bytes) -> None:
    lines = b"".join(b"BT /F -10 Tf %b %d %d Tm (%b) Tj ET " % (matrix, *place(matrix, at), LINES[at].encode())
                     for at in range(4))  # fmt: skip
    assert extract_pdf(pages_of([lines]))["text"].split() == " ".join(LINES[:4]).split()


def place(matrix: bytes, at: int) -> tuple[int, int]:
    """Where a line begins so that it is below the one before, as it is seen."""
    x, y = {b"-1": (100, 700 - 13 * at), b"1 ": (400, 400 + 13 * at)}.get(matrix[:2], (300 - 13 * at, 600))
    return (x, y) if matrix != b"0 -1 1 0" else (300 + 13 * at, 200)


def test_a_font_in_another_unit_is_read() -> None:
    """Type 3 fonts of dvips and Ghostscript have glyphs in pixels, and sizes below 1."""
    letters = b"abcdefghijklmnopqrstuvwxyz"
    glyph = b"60 0 0 0 50 50 d1 0 0 50 50 re f"
    named = b" ".join(b"/%c" % letter for letter in letters)
    procedures = b" ".join(b"/%c 21 0 R" % letter for letter in letters)
    to_unicode = (
        b"/CIDInit /ProcSet findresource begin 12 dict begin begincmap 1 begincodespacerange <00> <ff> "
        b"endcodespacerange 1 beginbfrange <61> <7a> <0061> endbfrange endcmap end end"
    )
    fonts = (
        (b"1 0 0 1", b"0 0 60 60", 0.12),
        (b"1 0 0 1", b"0 0 0 0", 0.2),
        (b"0.01 0 0 0.01", b"0 0 60 60", 12),
        (b"0.00001 0 0 0.00001", b"0 0 60 60", 12_000),
    )
    for matrix, bounds, size in fonts:
        font = (
            b"<< /Type /Font /Subtype /Type3 /FontBBox [%b] /FontMatrix [%b 0 0] /CharProcs << %b >> /FirstChar 97 "
            b"/LastChar 122 /Encoding << /Differences [97 %b] >> /Widths [%b] /Resources << >> /ToUnicode 22 0 R >>"
            % (bounds, matrix, procedures, named, b"60 " * 26)
        )
        lines = b"".join(
            b"BT /T %g Tf %d %d Td (%b) Tj ET " % (size, x, y, word)
            for x, y, word in ((100, 700, b"fish"), (160, 700, b"one"), (100, 686, b"fish"), (160, 686, b"two"))
        )
        data = pages_of([lines], fonts=b"/T 20 0 R ", more={20: font, 21: stream(glyph), 22: stream(to_unicode)})
        assert extract_pdf(data)["text"].split() == ["fish", "one", "fish", "two"], (matrix, size)


def test_the_broken_share_is_a_share() -> None:
    font = (
        b"/G << /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding << /BaseEncoding /WinAnsiEncoding "
        b"/Differences [65 /gid00043] >> >> "
    )
    lines = b"".join(b"BT /G 10 Tf 50 %d Td (A%b) Tj ET " % (700 - 13 * at, b"b" * 47) for at in range(10))
    (page,) = extract_pdf(pages_of([lines], fonts=font))["pages"]
    (alone,) = extract_pdf(pages_of([b"BT /G 10 Tf 50 700 Td (AAAA) Tj ET "], fonts=font))["pages"]
    assert (page["broken_share"], alone["broken_share"]) == (0.0208, 1.0)


def test_text_outside_the_crop_box_is_left_out() -> None:
    data = pages_of([paragraph(LINES, 60, 700)], page=b"/CropBox [0 615 400 842] ")
    assert extract_pdf(data)["text"].split() == " ".join(LINES[:7]).split()
    assert extract_pdf(data, {"crop": False})["text"].split() == " ".join(LINES).split()
    beyond = pages_of([paragraph(LINES, 60, 700)], page=b"/CropBox [-99 -99 2000 2000] ")
    assert extract_pdf(beyond)["text"].split() == " ".join(LINES).split()


FIELD = b"<< /Type /Annot /Subtype /Widget /F 4 /Rect [%d %d %d %d] %b >>"
NAME = FIELD % (100, 696, 250, 713, b"/FT /Tx /T (name) /V (John Smith)")
CITY = FIELD % (100, 676, 250, 693, b"/FT /Ch /Ff 131072 /T (city) /V (r) /Opt [[(r)(Rome)] [(p)(Paris)]]")
MANY = FIELD % (100, 600, 250, 650, b"/FT /Tx /Ff 4096 /T (m) /V (first line\\rsecond line)")
SECRET = FIELD % (100, 560, 250, 575, b"/FT /Tx /Ff 8192 /T (p) /V (secret)")
HIDDEN = NAME.replace(b"/F 4", b"/F 2").replace(b"John", b"Hidden")
NOTE = b"<< /Type /Annot /Subtype /FreeText /Rect [300 500 420 515] /Contents (a free note) >>"
APPEARANCE = NAME.replace(b"/V", b"/AP << /N 60 0 R >> /V")


def form(annotations: list[bytes], page: bytes = b"", catalog: bytes = b"") -> bytes:
    """A page with labels, fields and notes."""
    numbers = b" ".join(b"%d 0 R" % (40 + at) for at in range(len(annotations)))
    drawn = stream(
        b"/Tx BMC BT /F 10 Tf 2 4 Td (John Smith) Tj ET EMC", b"/Type /XObject /Subtype /Form /BBox [0 0 150 17] "
    )
    return pages_of(
        [shown("Name:", 50, 700) + shown("City:", 50, 680) + shown("The end.", 50, 400)],
        page=b"/Annots [%b] %b" % (numbers, page),
        more={**{40 + at: body for at, body in enumerate(annotations)}, 60: drawn},
        catalog=b"/AcroForm << /Fields [%b] /DA (/Helv 0 Tf) %b >> " % (numbers, catalog),
    )


def test_a_value_of_a_field_that_is_too_long_is_a_loss() -> None:
    words = [f"word{at}" for at in range(2_000)]
    long = extract_pdf(form([NAME.replace(b"John Smith", " ".join(words).encode())]))["text"].split()
    assert [word for word in long if word.startswith("word")] == words
    found = extract_pdf(form([NAME.replace(b"John Smith", b"a " * 1_100_000)]))
    assert [(loss["what"], loss["count"]) for loss in found["losses"]] == [("form fields", 1)]


@pytest.mark.parametrize("name", [NAME, APPEARANCE])
@pytest.mark.parametrize("rotate", [b"", b"/Rotate 90 "])
def test_what_is_written_in_a_form_is_read_where_it_is_seen(name: bytes, rotate: bytes) -> None:
    data = form([name, CITY, MANY, SECRET, HIDDEN, NOTE], rotate)
    words = "Name: John Smith City: Rome first line second line a free note The end."
    assert extract_pdf(data)["text"].split() == words.split()
    assert extract_pdf(data, {"forms": False})["text"].split() == ["Name:", "City:", "The", "end."]
