from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import DocumentBatch, PipelineError
from dcurate.documents import NeedsOcr
from dcurate.documents.noise import odd_words, without_noise
from dcurate.documents.router import decide, no_language

ENGLISH = (
    "Cold water holds more oxygen than warm water, and so the fish of the far north grow slowly but live for a long "
    "time. In the spring they come close to the coast, where the boats of the villages wait for them. A good year "
    "fills the drying racks by the end of April; after a bad one half of the young people leave for the towns. "
) * 3
RUSSIAN = (
    "В холодной воде больше кислорода, чем в тёплой, поэтому северная рыба растёт медленно, но живёт долго. Весной она "
    "подходит к берегу, где её ждут лодки из деревень. После плохого года половина молодёжи уезжает в города. "
) * 3
JAPANESE = (
    "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。人間は、理性と良心とを授けられている。"
    * 4
)
KOREAN = (
    "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 인간은 천부적으로 이성과 양심을 부여받았다. "
    * 4
)
COMMANDS = ["update", "search", "list", "rdepends", "policy", "show", "install"]
GOOD_TEXTS = [ENGLISH, RUSSIAN, JAPANESE, KOREAN, ENGLISH + RUSSIAN, "12.5  30.1\n7  8", "", "def f(x): x"]
GOOD = {"characters": 900, "image_share": 0.0, "text_over_image": 0.0, "broken_share": 0.0}


def enciphered(text: str, seed: int) -> str:
    """A text whose letters are swapped, as by a font with a wrong map to Unicode."""
    letters = sorted({character for character in text.lower() if character.isalpha()})
    others = random.Random(seed).sample(letters, len(letters))
    return text.lower().translate(dict(zip(map(ord, letters), others, strict=True)))


@pytest.mark.parametrize("text", GOOD_TEXTS, ids=str.__len__)
def test_good_text_stays(text: str) -> None:
    route = decide(GOOD, text)
    assert (route.way, route.reason) == ("text", "")
    assert route.need < 0.4


@pytest.mark.parametrize("text", [ENGLISH, RUSSIAN], ids=["en", "ru"])
@pytest.mark.parametrize("seed", range(3))
def test_text_of_fonts_with_wrong_maps_is_found(text: str, seed: int) -> None:
    assert (no_language(enciphered(text, seed)) or 0) > 0.5
    assert decide(GOOD, enciphered(text, seed)).reason == "no language"


@pytest.mark.parametrize("text", [RUSSIAN, JAPANESE, KOREAN], ids=["ru", "ja", "ko"])
def test_commands_among_words_of_another_script_are_no_noise(text: str) -> None:
    """A reference card: half of each line is a command in Latin letters."""
    words = text.split() if " " in text else [text[at : at + 8] for at in range(0, len(text), 8)]
    lines = [f"apt-cache {command} pkg\t{word}" for command, word in zip(COMMANDS * 9, words, strict=False)]
    assert (no_language("\n".join(lines)) or 0) < 0.3


@pytest.mark.parametrize("text", [ENGLISH, RUSSIAN, JAPANESE, KOREAN], ids=["en", "ru", "ja", "ko"])
def test_letters_that_a_map_turns_into_rare_characters_are_found(text: str) -> None:
    spread = "".join(chr(0x3400 + 37 * ord(each) % 0x6A00) if each.isalpha() else each for each in text)
    assert (no_language(spread) or 0) > 0.5


@pytest.mark.parametrize(
    ("signals", "text", "reason"),
    [
        ({"characters": 0, "image_share": 0.99}, "", "scanned"),
        ({"characters": 40, "image_share": 0.9}, "Page 3 of 7", "scanned"),
        ({"broken_share": 0.6}, ENGLISH, "broken characters"),
        ({"image_share": 1.0, "text_over_image": 1.0}, ENGLISH.replace("a", "|").replace(" t", " ~.I"), "bad OCR"),
    ],
)
def test_other_signs_are_named(signals: dict, text: str, reason: str) -> None:
    route = decide({**GOOD, **signals}, text, "vision")
    assert (route.way, route.reason) == ("vision", reason)


@pytest.mark.parametrize(
    ("signals", "text"),
    [
        ({"image_share": 1.0, "text_over_image": 1.0}, ENGLISH),  # a scan with a good layer of text
        ({"image_share": 0.9, "characters": 900}, ENGLISH),  # a picture behind the text
        ({"characters": 0, "image_share": 0.1}, ""),  # nearly blank
        ({"broken_share": 0.03}, ENGLISH),
    ],
)
def test_pages_that_look_like_scans_stay(signals: dict, text: str) -> None:
    assert decide({**GOOD, **signals}, text).way == "text"


@pytest.mark.parametrize("text", GOOD_TEXTS, ids=str.__len__)
def test_no_word_of_good_text_is_noise(text: str) -> None:
    assert without_noise(text) == text


def test_a_layer_whose_noise_was_left_out_still_needs_ocr() -> None:
    page = {**GOOD, "image_share": 1.0, "text_over_image": 1.0}
    assert decide({**page, "noise_share": 0.4}, ENGLISH).reason == "bad OCR"
    assert decide({**page, "noise_share": None}, ENGLISH).way == "text"


@settings(max_examples=60, deadline=None)
@given(
    st.fixed_dictionaries(
        {name: st.none() | st.floats(0, 1) for name in ("image_share", "text_over_image", "broken_share")}
    ),
    st.integers(0, 10**6),
    st.text(max_size=300),
)
def test_every_page_goes_somewhere(signals: dict, characters: int, text: str) -> None:
    route = decide({**signals, "characters": characters}, text)
    assert 0 <= route.need <= 1
    assert 0 <= odd_words(text) <= 1
    assert (route.way == "ocr") == (route.need >= 0.5) == bool(route.reason)


def test_documents_go_by_the_share_of_their_pages() -> None:
    text = ENGLISH + "\n\n"
    spans = [{"start": 0, "stop": len(ENGLISH)}, {"start": len(text), "stop": len(text)}]
    pages = [{"number": 1, **GOOD}, {"number": 2, **GOOD, "characters": 0, "image_share": 1.0}]
    batch = DocumentBatch(data=pa.table({"id": [7], "text": [text], "pages": [pages], "page_spans": [spans]}))
    (row,) = NeedsOcr().process(batch).to_arrow().to_pylist()
    assert [page["route"] for page in row["pages"]] == ["text", "ocr"]
    assert (row["id"], row["route"], row["ocr_share"]) == (7, "ocr", 0.5)
    (row,) = NeedsOcr(max_ratio=0.5).process(batch).to_arrow().to_pylist()
    assert row["route"] == "text"
    with pytest.raises(PipelineError, match="otherwise='text' is not one of"):
        NeedsOcr(otherwise="text")
