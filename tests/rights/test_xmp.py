"""Rights in the XMP of files of any kind."""

import io
import time
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from dcurate import DocumentBatch
from dcurate.rights import FindRights
from dcurate.rights.xmp import DATA_MINING_USES, packets

_NAMESPACES = " ".join(
    f'xmlns:{prefix}="{address}"'
    for prefix, address in {
        "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
        "plus": "http://ns.useplus.org/ldf/xmp/1.0/",
        "tdm": "http://www.w3.org/ns/tdmrep/",
        "cc": "http://creativecommons.org/ns#",
        "xmpRights": "http://ns.adobe.com/xap/1.0/rights/",
        "dc": "http://purl.org/dc/elements/1.1/",
    }.items()
)


def xmp(attributes: str = "", elements: str = "") -> bytes:
    return (
        f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF {_NAMESPACES}><rdf:Description rdf:about="" {attributes}>'
        f"{elements}</rdf:Description></rdf:RDF></x:xmpmeta>"
    ).encode()


def rights(file: bytes, **columns: Any) -> dict[str, Any]:
    table = pa.table({name: [value] for name, value in {"bytes": file, **columns}.items()})
    (row,) = FindRights().process(DocumentBatch(data=table)).to_arrow().to_pylist()
    return dict(row)


VOCABULARY = "http://ns.useplus.org/ldf/vocab/"


@pytest.mark.parametrize("value", DATA_MINING_USES)
def test_values_of_data_mining_say_what_their_names_say(value: str) -> None:
    for packet in (
        xmp(f'plus:DataMining="{VOCABULARY}{value}"'),
        xmp(elements=f'<plus:DataMining rdf:resource="{VOCABULARY}{value}"/>'),
        xmp(elements=f"<plus:DataMining> {value} </plus:DataMining>"),
    ):
        row = rights(packet)
        expected = None if value == "DMI-UNSPECIFIED" else value == "DMI-ALLOWED"
        assert row["rights_train"] is expected
        assert row["rights_signals"][0].startswith(f"file XMP: plus:DataMining {value}")
    searched = {"DMI-ALLOWED": True, "DMI-PROHIBITED-EXCEPTSEARCHENGINEINDEXING": True, "DMI-PROHIBITED": False}
    assert value not in searched or row["rights_search"] is searched[value]


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_images_say_what_is_in_their_xmp(kind: str) -> None:
    file = io.BytesIO()
    packet = xmp(f'plus:DataMining="{VOCABULARY}DMI-PROHIBITED-AIMLTRAINING"')
    info: dict[str, Any] = {"xmp": packet}
    if kind == "PNG":
        text = PngInfo()
        text.add_itxt("XML:com.adobe.xmp", packet.decode())
        info = {"pnginfo": text}
    if kind == "TIFF":
        info = {"tiffinfo": {700: packet}}
    Image.new("RGB", (8, 8)).save(file, kind, **info)
    assert rights(file.getvalue())["rights_train"] is False


def test_licences_and_reservations_are_read() -> None:
    licence = "https://creativecommons.org/licenses/by-nc/4.0/"
    row = rights(
        xmp(
            'tdm:reservation="1" tdm:policy="https://a.org/policy"',
            f"<xmpRights:WebStatement>{licence}</xmpRights:WebStatement>"
            "<dc:rights><rdf:Alt><rdf:li>A. Bee</rdf:li><rdf:li>CC0</rdf:li></rdf:Alt></dc:rights>"
            '<cc:license rdf:resource="https://a.org/own"/>',
        )
    )
    assert row["rights_licences"] == ["CC-BY-NC-4.0", "CC0-1.0", "https://a.org/own"]
    assert row["rights_signals"] == [
        "file XMP: tdm-reservation 1 -> train=no",
        "file XMP: tdm:policy https://a.org/policy",
        "file XMP: dc:rights A. Bee",
    ]


def test_content_that_is_not_html_is_a_file() -> None:
    packet = xmp('tdm:reservation="1"')
    columns = {"content": b"%PDF-1.7 " + packet, "mime_type": "application/pdf"}
    assert rights(b"", **columns)["rights_train"] is False
    assert rights(b"", **{**columns, "mime_type": "text/html"})["rights_train"] is None


@pytest.mark.parametrize(
    "packet",
    [
        b"<x:xmpmeta></x:xmpmeta>",
        b'<x:xmpmeta xmlns:x="a"><a></x:xmpmeta>',
        xmp().replace(b"<rdf:RDF", b"<!DOCTYPE a><rdf:RDF"),
        xmp(elements="\0"),
        xmp(elements="&bomb;"),
    ],
)
def test_packets_that_cannot_be_read_say_so(packet: bytes) -> None:
    (signal,) = rights(packet + xmp('tdm:reservation="x"').replace(b"x:xmpmeta", b"y:xmpmeta"))["rights_signals"]
    assert signal.startswith("file XMP: ")
    assert signal.endswith("(not understood)")


@given(st.binary(max_size=100))
def test_any_bytes_are_read(data: bytes) -> None:
    rights(b"<x:xmpmeta" + data + b"</x:xmpmeta>" + data)


@pytest.mark.parametrize("piece", [b"<x:xmpmeta", b"</x:xmpmeta>", xmp("", "<dc:rights>"), xmp('tdm:reservation="1"')])
def test_files_are_read_in_linear_time(piece: bytes) -> None:
    def seconds(size: int) -> float:
        file = piece * (size // len(piece))
        begin = time.process_time()
        rights(file)
        return time.process_time() - begin

    small = min(seconds(100_000) for _ in range(2))
    assert min(seconds(1_600_000) for _ in range(2)) < 48 * small + 0.05
    assert len(list(packets(piece * 100))) <= 16
