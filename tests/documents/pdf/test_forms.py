"""Ticks of boxes and buttons are read where they are seen; other annotations that draw text are a loss."""

from __future__ import annotations

import pytest

from dcurate.documents.pdf import extract_pdf
from tests.documents.pdf.test_turned import FIELD, NAME, NOTE, form
from tests.documents.pdf.writer import pages_of, shown, stream

RADIO, PUSH = b"/Ff 32768 ", b"/Ff 65536 "
#: Whether a state is shown as a tick: that of the appearance counts, not the value.
STATES = {
    b"/V /Yes /AS /Yes": "☒",
    b"/V /Off /AS /Off": "☐",
    b"/V /A#20B /AS /A#20B": "☒",
    b"/AS /1": "☒",
    b"/V /Yes": "☐",
    b"/V /Yes /AS /Off": "☐",
    b"": "☐",
}


def box(x: int, y: int, state: bytes, kind: bytes = b"", flags: bytes = b"/F 4") -> bytes:
    appearance = b"/AP << /N << /Yes 60 0 R /Off 61 0 R >> >> "
    field = FIELD % (x, y, x + 11, y + 11, b"/FT /Btn /T (%d %d) %b%b %b" % (x, y, kind, state, appearance))
    return field.replace(b"/F 4", flags)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("rotate", [b"", b"/Rotate 90 "])
def test_a_tick_is_read_where_it_is_seen(state: bytes, rotate: bytes) -> None:
    found = extract_pdf(form([box(100, 697, state), box(100, 677, b"/AS /Off"), box(120, 677, b"/AS /Yes")], rotate))
    assert found["text"].split() == ["Name:", STATES[state], "City:", "☐", "☒", "The", "end."]
    assert found["losses"] == []


def test_radio_buttons_are_ticked_by_their_own_state_and_hidden_ones_are_not_read() -> None:
    kinds = [box(100 + 20 * at, 697, state, RADIO) for at, state in enumerate([b"/AS /Off", b"/AS /b", b"/V /b"])]
    hidden = [box(200, 697, b"/AS /Yes", flags=flags) for flags in (b"/F 2", b"/F 32")]
    data = form([*kinds, *hidden])
    assert extract_pdf(data)["text"].split() == ["Name:", "☐", "☒", "☐", "City:", "The", "end."]
    assert extract_pdf(data, {"forms": False})["text"].split() == ["Name:", "City:", "The", "end."]


def test_boxes_stay_with_their_labels() -> None:
    labels = b"".join(shown(text, 120, 600 - 20 * at) for at, text in enumerate(["beef", "fish", "neither of them"]))
    boxes = [box(104, 598 - 20 * at, b"/AS /Yes" if at == 1 else b"/AS /Off") for at in range(3)]
    numbers = b" ".join(b"%d 0 R" % (40 + at) for at in range(3))
    data = pages_of(
        [labels],
        page=b"/Annots [%b] " % numbers,
        more={**{40 + at: body for at, body in enumerate(boxes)}, 60: stream(b""), 61: stream(b"")},
        catalog=b"/AcroForm << /Fields [%b] >> " % numbers,
    )
    assert extract_pdf(data)["text"].split("\n") == ["☐ beef", "☒ fish", "☐ neither of them"]


DRAWN = b"<< /Type /Annot /Subtype /%b /F 4 /Rect [300 500 420 515] /Contents (not shown) /AP << /N 60 0 R >> >>"
BUTTON = FIELD % (300, 300, 420, 315, b"/FT /Btn /T (push) /MK << /CA (Send) >> /AP << /N 60 0 R >> " + PUSH)
SIGNATURE = FIELD % (300, 300, 420, 315, b"/FT /Sig /T (sign) /AP << /N 60 0 R >> ")


@pytest.mark.parametrize(
    "annotation", [BUTTON, SIGNATURE, *(DRAWN % kind for kind in (b"Stamp", b"Watermark", b"Line", b"Redact"))]
)
def test_other_annotations_that_draw_text_are_a_loss(annotation: bytes) -> None:
    data = form([NAME, annotation, NOTE])
    found = extract_pdf(data)
    assert [(loss["what"], loss["count"], loss["where"]) for loss in found["losses"]] == [("form fields", 1, "page 1")]
    assert found["text"].split() == "Name: John Smith City: a free note The end.".split()  # noqa: SIM905
    for unseen in (b"/F 2", b"/F 32"):
        assert extract_pdf(form([annotation.replace(b"/F 4", unseen)]))["losses"] == []
    inner = stream(b"/X Do", b"/Subtype /Form /BBox [0 0 99 99] /Resources << /XObject << /X 60 0 R >> >> ")
    nested = data.replace(b"/N 60 0 R", b"/N 99 0 R").replace(b"\nxref", b"\n99 0 obj\n%b\nendobj\nxref" % inner)
    nested = nested[: nested.index(b"\nxref")] + b"\ntrailer << /Root 1 0 R >>\n%%EOF"
    assert extract_pdf(nested)["losses"] == found["losses"]


def test_annotations_that_draw_no_text_or_are_icons_are_not_a_loss() -> None:
    empty = [(DRAWN % kind).replace(b"60 0 R", b"61 0 R") for kind in (b"Stamp", b"Square", b"Ink", b"Highlight")]
    icons = [DRAWN % kind for kind in (b"Text", b"Popup", b"FileAttachment")]
    assert extract_pdf(form([*empty, *icons]))["losses"] == []
