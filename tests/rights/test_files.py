"""Rights in the metadata of files, which the usual programs wrote."""

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import av
import cbor2
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, IptcImagePlugin
from PIL.PngImagePlugin import PngInfo

from dcurate import DocumentBatch, InlineExecutor, MediaReader, Pipeline
from dcurate.rights import FindRights
from dcurate.rights.c2pa import mining_entries
from dcurate.rights.files import of_file
from tests.growth import assert_linear
from tests.rights.signing import signed
from tests.rights.test_xmp import xmp

TYPES = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp", "TIFF": "image/tiff", "AVIF": "image/avif"}
LICENCE = "https://creativecommons.org/licenses/by-sa/4.0/"
PROHIBITED = xmp('plus:DataMining="http://ns.useplus.org/ldf/vocab/DMI-PROHIBITED-AIMLTRAINING"')


def picture(kind: str, side: int = 8, **info: Any) -> bytes:
    file = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 255, (side, side, 3), np.uint8)
    Image.fromarray(pixels).save(file, kind, **info)
    return file.getvalue()


def rights(file: bytes) -> dict[str, Any]:
    (row,) = FindRights().process(DocumentBatch(data=pa.table({"bytes": [file]}))).to_arrow().to_pylist()
    return dict(row)


def exif(**texts: str) -> Image.Exif:
    made = Image.Exif()
    for tag, name in ((0x8298, "copyright"), (0x013B, "artist")):
        if name in texts:
            made[tag] = texts[name]
    return made


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_notices_in_exif_are_shown_and_licences_are_read(kind: str) -> None:
    row = rights(picture(kind, exif=exif(copyright="(c) A. Bee", artist="Ann Bee")))
    assert sorted(row["rights_signals"]) == ["file EXIF: Artist Ann Bee", "file EXIF: Copyright (c) A. Bee"]
    assert (row["rights_train"], row["rights_licences"]) == (None, [])
    assert rights(picture(kind, exif=exif(copyright=f"A. Bee, see {LICENCE}.")))["rights_licences"] == ["CC-BY-SA-4.0"]


def datasets(**texts: str) -> bytes:
    numbers = {"instructions": 40, "by_line": 80, "notice": 116}
    made = b"\x1c\x01\x5a\0\x03\x1b%G" + b"".join(
        struct.pack(">BBBH", 0x1C, 2, numbers[name], len(text.encode())) + text.encode() for name, text in texts.items()
    )
    resource = b"8BIM\x04\x04\0\0" + struct.pack(">I", len(made)) + made + b"\0" * (len(made) % 2)
    return b"Photoshop 3.0\0" + b"8BIM\x04\x0b\x03abc" + struct.pack(">I", 1) + b"x\0" + resource


def with_segment(jpeg: bytes, marker: int, data: bytes) -> bytes:
    return jpeg[:2] + struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data + jpeg[2:]


def test_iptc_is_read_as_pillow_reads_it() -> None:
    texts = {"instructions": "No AI", "by_line": "Ann Bée", "notice": "(c) Bee"}
    file = with_segment(picture("JPEG"), 0xED, datasets(**texts))
    read = IptcImagePlugin.getiptcinfo(Image.open(io.BytesIO(file)))
    assert read is not None
    assert read[2, 80] == texts["by_line"].encode()
    assert rights(file)["rights_signals"] == [
        "file IPTC: Special Instructions No AI",
        "file IPTC: By-line Ann Bée",
        "file IPTC: Copyright Notice (c) Bee",
    ]


def test_xmp_that_png_compresses_is_read() -> None:
    text = PngInfo()
    text.add_itxt("XML:com.adobe.xmp", PROHIBITED.decode(), zip=True)
    text.add_text("Copyright", "A. Bee", zip=True)
    row = rights(picture("PNG", pnginfo=text))
    assert row["rights_signals"] == [
        "file XMP: plus:DataMining DMI-PROHIBITED-AIMLTRAINING -> train=no",
        "file text: PNG Copyright A. Bee",
    ]


def test_extended_xmp_is_put_together() -> None:
    packet = xmp('tdm:reservation="1"', f"<dc:rights>{'x' * 150_000}</dc:rights>")
    file = picture("JPEG", xmp=PROHIBITED)
    head, at = file[:2], len(packet) // 2
    for start, end in ((at, len(packet)), (0, at)):  # in any order
        part = b"http://ns.adobe.com/xmp/extension/\0" + b"A" * 32 + struct.pack(">II", len(packet), start)
        for begin in range(start, end, 60_000):
            part = part[:-8] + struct.pack(">II", len(packet), begin)
            head += with_segment(b"\xff\xd8", 0xE1, part + packet[begin : min(begin + 60_000, end)])[2:]
    row = rights(head[:2] + file[2:20] + head[2:] + file[20:])  # JFIF comes first, then these, then the short packet
    assert "file XMP: tdm-reservation 1 -> train=no" in row["rights_signals"]
    assert not [text for text in row["rights_signals"] if "understood" in text]


@pytest.mark.parametrize("kind", TYPES)
def test_assertions_on_training_are_read_from_signed_pictures(kind: str) -> None:
    # A picture so large that its thumbnail makes the manifest longer than a segment of JPEG.
    file = signed(picture(kind, 600), TYPES[kind], {"cawg.ai_training": {"use": "notAllowed"}})
    row = rights(file)
    assert (row["rights_train"], row["rights_search"]) == (False, None)
    assert row["rights_signals"] == ["file C2PA: cawg.ai_training notAllowed -> train=no"]


@pytest.mark.parametrize("kind", ["GIF", "SVG", "MP3", "FLAC", "PDF"])
def test_assertions_on_training_are_read_from_other_signed_files(kind: str) -> None:
    if kind in ("MP3", "FLAC"):
        file, media_type = sound(kind.lower()), f"audio/{kind.lower()}"
    elif kind == "PDF":
        file, media_type = pdf("Ann"), "application/pdf"
    elif kind == "SVG":
        file, media_type = b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'></svg>", "image/svg+xml"
    else:
        file, media_type = picture("GIF", 300), "image/gif"
    file = signed(file, media_type, {"cawg.ai_training": {"use": "notAllowed"}})
    row = rights(file)
    assert (row["rights_train"], row["rights_search"]) == (False, None)
    assert "file C2PA: cawg.ai_training notAllowed -> train=no" in row["rights_signals"]
    for end in range(0, len(file), len(file) // 50):
        rights(file[:end])


@pytest.mark.parametrize(
    ("entries", "train"),
    [
        ({"c2pa.ai_training": "allowed", "c2pa.ai_generative_training": "allowed"}, True),
        ({"c2pa.ai_training": "allowed", "c2pa.ai_generative_training": "notAllowed"}, False),
        ({"c2pa.ai_generative_training": "constrained"}, False),
        ({"c2pa.data_mining": "notAllowed"}, False),
        ({"c2pa.data_mining": "allowed", "c2pa.ai_inference": "notAllowed"}, None),
        ({"c2pa.ai_training": "perhaps"}, None),
        ({"mine.ai_training": "notAllowed"}, None),
    ],
)
def test_entries_of_c2pa_say_what_their_names_say(entries: dict[str, str], train: bool | None) -> None:
    uses = {name: {"use": use} for name, use in entries.items()}
    row = rights(signed(picture("JPEG"), "image/jpeg", uses, "c2pa.training-mining"))
    assert (row["rights_train"], row["rights_conflict"]) == (train, False)
    unknown = "perhaps" in entries.values() or "mine.ai_training" in entries
    assert ("not understood" in row["rights_signals"][0]) == unknown


def test_the_strictest_of_xmp_and_c2pa_counts() -> None:
    jpeg = picture("JPEG", xmp=xmp('plus:DataMining="DMI-PROHIBITED"'))
    row = rights(signed(jpeg, "image/jpeg", {"cawg.ai_training": {"use": "allowed"}}))
    assert (row["rights_train"], row["rights_conflict"]) == (False, True)


def pdf(info: str, metadata: bytes = b"") -> bytes:
    file = io.BytesIO()
    Image.new("L", (8, 8)).save(file, "PDF", author=info)
    return file.getvalue() + metadata


@pytest.mark.parametrize("author", ["A. Bee (and more)", "Ann Bée"])
def test_information_of_pdf_is_shown(author: str) -> None:
    assert rights(pdf(author))["rights_signals"] == [f"file text: PDF Author {author}"]


def test_xmp_that_pdf_compresses_is_read() -> None:
    packed = zlib.compress(PROHIBITED)
    head = f"9 0 obj\n<</Type /Metadata /Subtype /XML /Filter /FlateDecode /Length {len(packed)}>>\nstream\r\n"
    assert rights(pdf("A", head.encode() + packed + b"\nendstream\nendobj\n"))["rights_train"] is False


def sound(kind: str, notice: str = "") -> bytes:
    file = io.BytesIO()
    codec = {"mp3": "mp3", "flac": "flac", "ogg": "libopus", "wav": "pcm_s16le"}.get(kind, "aac")
    with av.open(file, "w", kind) as container:
        container.metadata["copyright"] = notice
        stream = container.add_stream(codec, rate=48_000)
        assert isinstance(stream, av.AudioStream)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 4800), np.int16), "s16", "mono")
        frame.sample_rate = 48_000
        for part in (frame, None):
            container.mux(stream.encode(part))
    return file.getvalue()


@pytest.mark.parametrize("kind", ["mp3", "flac", "ogg", "mp4", "mov", "wav"])
def test_notices_in_sounds_and_films_are_read(kind: str) -> None:
    row = rights(sound(kind, f"A. Bee {LICENCE}" if kind != "wav" else "A. Bee"))
    if kind == "wav":
        assert row["rights_signals"] == ["file text: RIFF Copyright A. Bee"]
    else:
        assert row["rights_licences"] == ["CC-BY-SA-4.0"]


def test_files_that_rows_refer_to_are_fetched_once_and_those_that_are_gone_go_to_quarantine(tmp_path: Path) -> None:
    for name, file in (("a.jpg", picture("JPEG", xmp=PROHIBITED)), ("b.png", picture("PNG")), ("c.png", b"")):
        (tmp_path / name).write_bytes(file)
    (batch,) = Pipeline("read", stages=[MediaReader(str(tmp_path))]).run(InlineExecutor(), observers=[])
    assert isinstance(batch, DocumentBatch)
    (tmp_path / "b.png").unlink()
    made = FindRights().process(batch)
    assert made.to_arrow()["rights_train"].to_pylist() == [False, None]
    assert [(gone.fault, gone.rows) for gone in made.rejections] == [(True, 1)]
    assert made.found["file XMP"] == 1


def box(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content) + 8) + kind + content


def store(content: bytes, kind: bytes = b"cbor", label: bytes = b"cawg.training-mining") -> bytes:
    return box(b"jumb", box(b"jumd", b"\0" * 16 + b"\3" + label + b"\0") + box(kind, content))


HOSTILE = [
    b"",
    b"\xff" * 100,
    b"\x81" * 60_000,
    b"\x9b" + b"\xff" * 8,
    b"\xbf" * 1000,
    b"\x5b" + b"\x7f" + b"\xff" * 7,
    cbor2.dumps({"entries": {"cawg.ai_training": [1]}}),
    b"\xc5\x82\x1b\x7f\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\xd8\x23\x78\x30" + b"(" * 48,
    b"\xd8\x1d\x00",
]


@pytest.mark.parametrize("content", HOSTILE)
def test_hostile_assertions_are_said_not_to_be_understood(content: bytes) -> None:
    (entry,) = mining_entries(store(content))
    assert (entry.known, entry.use) == (False, None)


def test_assertions_that_are_too_large_are_not_read() -> None:
    (entry,) = mining_entries(store(cbor2.dumps({"entries": {}, "x": "y" * 2**16})))
    assert not entry.known


def test_boxes_in_boxes_without_end_are_read() -> None:
    nested = store(cbor2.dumps({"entries": {"cawg.ai_training": {"use": "notAllowed"}}}))
    for _ in range(8):
        nested = box(b"jumb", nested)
    assert [entry.allowed for entry in mining_entries(nested)] == [False]
    for _ in range(1000):
        nested = box(b"jumb", nested)
    assert list(mining_entries(nested)) == []


def test_what_unpacks_to_more_than_a_megabyte_is_not_read() -> None:
    text = PngInfo()
    text.add_itxt("XML:com.adobe.xmp", xmp(elements="<dc:rights>" + "x" * 2**21).decode(), zip=True)
    (signal,) = rights(picture("PNG", pnginfo=text))["rights_signals"]
    assert signal == "file text: a compressed text is larger than 1 MiB (not understood)"


HEADS = [
    b"\xff\xd8\xff\xe1\0\x10Exif\0\0",
    b"\x89PNG\r\n\x1a\n\0\0\0\x08iTXtXML:com.adobe.xmp\0\1\0\0\0",
    b"RIFF\xff\xff\0\0WEBPEXIF",
    b"II*\0\x08\0\0\0\x01\0\x98\x82\x02\0",
    b"\0\0\0\x08ftyp\0\0\0\x20uuid\xd8\xfe\xc3\xd6\x1b\x0eH<\x92\x97X(\x87~\xc4\x81",
    b"%PDF-1.7 /Info 1 0 R 1 0 obj /Author",
    b"ID3\4\0\0\0\0\x7f\x7fTCOP",
    b"fLaC\4\0\0\x20",
    b"OggSOpusTags",
    b"GIF89a\1\0\1\0\0\0\0!\xff\x0bC2PA_GIF\1\0\0",
    b"GIF89a\1\0\1\0\xf7\0\0,",
    b"<svg><c2pa:manifest>AAA",
    b"ID3\4\0\0\0\0\x7f\x7fGEOB\0\0\0\x40\0\0\3application/c2pa\0",
    b"%PDF-1.7 2 0 obj /C2PA_Manifest /EF<</F 1 0 R>> 1 0 obj stream\n",
]


@given(st.sampled_from(HEADS), st.binary(max_size=80), st.binary(max_size=20))
def test_any_bytes_are_read(head: bytes, data: bytes, piece: bytes) -> None:
    of_file(head + data + piece * 3, "")
    of_file(head + piece, "")


TIFF = b"II*\0\x08\0\0\0\xff\xff" + struct.pack("<HHII", 34377, 7, 10**6, 0) * 65_535
PIECES = {
    "segments": (b"\xff\xd8", b"\xff\xe1\0\x08Exif\0\0"),
    "chunks": (b"\x89PNG\r\n\x1a\n", b"\0\0\0\0eXIf\0\0\0\0"),
    "compressed": (
        b"\x89PNG\r\n\x1a\n",
        b"\0\0\x04\x10zTXtCopyright\0\0" + zlib.compress(b"a" * 10**6)[:1029].ljust(1029, b"\0") + b"\0\0\0\0",
    ),
    "riff": (b"RIFF\xff\xff\xff\xffWEBP", b"EXIF\0\0\0\0"),
    "boxes": (b"\0\0\0\x08ftyp", b"\0\0\0\x08udta"),
    "metadata": (b"%PDF-1.7", b"obj/Type/Metadata/FlateDecode stream\n" + zlib.compress(b"a" * 10**6)[:960]),
    "information": (b"%PDF-1.7", b"/Info 1 0 R 11 0 obj/Author(\\("),
    "frames": (b"ID3\4\0\0\x7f\x7f\x7f\x7f", b"TCOP\0\0\0\0\0\0"),
    "comments": (b"GIF89a\1\0\1\0\0\0\0", b"!\xfe\1a\0"),
    "manifests in GIF": (b"GIF89a\1\0\1\0\0\0\0", b"!\xff\x0bC2PA_GIF\1\0\0\1a\0"),
    "manifests in SVG": (b"<svg>", b"<c2pa:manifest>AAA"),
    "manifests in PDF": (b"%PDF-1.7", b"1 0 obj /C2PA_Manifest /EF<</F 1 0 R>> obj stream\n\0\0\0\xff"),
    "jumbf": (b"\0\0\0\x08ftyp", b"\0\0\0\x0bjumbjum"),
    "tiff": (TIFF, b"8BIM\x04\x04\0\0\0\0\0\0"),
}


@pytest.mark.parametrize("name", PIECES)
def test_hostile_files_are_read_in_linear_time(name: str) -> None:
    head, piece = PIECES[name]

    assert_linear(
        lambda file: of_file(file, ""), [lambda size: head + piece * (size // len(piece))], (100_000, 1_600_000)
    )
