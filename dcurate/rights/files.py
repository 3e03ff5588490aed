"""What the metadata of a file say about the rights to it, each as a signal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from dcurate.rights import xmp
from dcurate.rights.blocks import BlockError, MetadataBlock, blocks_of
from dcurate.rights.c2pa import mining_entries
from dcurate.rights.exif import exif_texts, iptc_texts, photoshop_texts
from dcurate.rights.licences import spdx_licence
from dcurate.rights.pdf_texts import pdf_blocks
from dcurate.rights.signals import LONGEST, UNKNOWN, RightsSignal, RightsSignals, licence_of, reserved
from dcurate.rights.sound_texts import sound_texts
from dcurate.rights.xml import XmlError

_ADDRESS = re.compile(r"""https?://[^\s<>"']{1,300}+""")
#: Characters of a text that are read, and how many texts and packets of a file are.
_LONGEST_TEXT, _MOST = 2000, 256


def of_file(data: bytes, url: str) -> RightsSignals:
    """Return what the metadata of a file say.

    Args:
        data: bytes of the file.
        url: address of the file.

    Raises:
        ResourceError: the file has a C2PA assertion on training, and the extra ``rights`` is not installed.
    """
    made = RightsSignals([], [])
    divided: int | None = None
    for block in _blocks(data, made):
        if block.kind == "xmp":
            _add_xmp(made, block.data, url)
            divided = min(divided or len(data), block.start)
        elif block.kind == "jumbf":
            _add_mining(made, block.data)
        elif block.kind == "text":
            _add_text(made, "file text", block)
        elif block.kind == "exif":
            _add_all(made, "file EXIF", exif_texts(block.data))
        else:
            _add_all(made, "file IPTC", photoshop_texts(block.data))
    for packet in xmp.packets(data, divided):
        _add_xmp(made, packet, url)
    return made


def _blocks(data: bytes, made: RightsSignals) -> Iterator[MetadataBlock]:
    """The blocks of a file, as far as it can be read."""
    readers = (blocks_of(data), pdf_blocks(data), sound_texts(data))
    for blocks in readers:
        try:
            yield from islice(blocks, _MOST)
        except BlockError as error:
            made.signals.append(RightsSignal("file text", f"{error}{UNKNOWN}"))


def _add_all(made: RightsSignals, place: str, blocks: Iterable[MetadataBlock]) -> None:
    for block in islice(blocks, _MOST):
        if block.kind == "text":
            _add_text(made, place, block)
        elif block.kind == "photoshop":
            _add_all(made, "file IPTC", photoshop_texts(block.data))
        elif block.kind == "iptc":
            _add_all(made, "file IPTC", iptc_texts(block.data))
        else:
            _add_mining(made, block.data)


def _add_text(made: RightsSignals, place: str, block: MetadataBlock) -> None:
    """Add a text: a licence that it is or has the address of; else what it says, without an effect."""
    text = _decoded(block.data)
    licences = [licence for licence in (spdx_licence(text), *map(spdx_licence, _addresses(text))) if licence]
    made.licences.extend(licences)
    if text and not licences:
        made.signals.append(RightsSignal(place, f"{block.name} {text}"))


def _addresses(text: str) -> list[str]:
    return [address.rstrip(".,;)") for address in _ADDRESS.findall(text)]


def _decoded(data: bytes) -> str:
    data = data[:_LONGEST_TEXT]
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return " ".join(text.replace("\0", " ").split())


def _add_mining(made: RightsSignals, store: bytes) -> None:
    for entry in islice(mining_entries(store), _MOST):
        text = entry.text if entry.known else f"{entry.text[:LONGEST]}{UNKNOWN}"
        made.signals.append(RightsSignal("file C2PA", text, entry.use, entry.allowed))


def _add_xmp(made: RightsSignals, packet: bytes, url: str) -> None:
    """Add what a packet of XMP says."""
    try:
        properties = xmp.properties(packet)
    except XmlError as error:
        made.signals.append(RightsSignal("file XMP", f"{error}{UNKNOWN}"))
        return
    for name, value in properties:
        licence = spdx_licence(value)
        linked = [known for known in map(spdx_licence, _addresses(value[:_LONGEST_TEXT])) if known]
        if name == xmp.DATA_MINING:
            made.signals.extend(_mined(value))
        elif name == xmp.RESERVATION:
            made.signals.append(reserved("file XMP", value))
        elif name == xmp.LICENSE or (licence and name != xmp.POLICY):
            made.licences.append(licence or licence_of(value, url))
        elif linked and name in (xmp.RIGHTS, xmp.TERMS):
            made.licences.extend(linked)
        else:
            made.signals.append(RightsSignal("file XMP", f"{name} {value}"))


def _mined(value: str) -> list[RightsSignal]:
    """What a value of plus:DataMining says."""
    name = value.rpartition("/")[2].upper()
    if name not in xmp.DATA_MINING_USES:
        return [RightsSignal("file XMP", f"plus:DataMining {value[:LONGEST]}{UNKNOWN}")]
    uses = xmp.DATA_MINING_USES[name]
    signals = [RightsSignal("file XMP", f"plus:DataMining {name}", use, allowed) for use, allowed in uses.items()]
    return signals or [RightsSignal("file XMP", f"plus:DataMining {name}")]
