"""Rights in the XMP of files: what IPTC's Data Mining, TDMRep and Creative Commons say inside of a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dcurate.rights.fields import Use
from dcurate.rights.xml import read_xml

_BEGIN, _END = b"<x:xmpmeta", b"</x:xmpmeta>"
#: Bytes of the largest packet that is read, and how many packets of a file are.
_LARGEST_PACKET, _MOST_PACKETS = 2**20, 16
#: Names of the properties that are read, by namespace and name.
DATA_MINING, RESERVATION, POLICY, LICENSE, STATEMENT, TERMS, MARKED, RIGHTS = (
    *("plus:DataMining", "tdm:reservation", "tdm:policy", "cc:license", "xmpRights:WebStatement"),
    *("xmpRights:UsageTerms", "xmpRights:Marked", "dc:rights"),
)
_PROPERTIES = {
    "http://ns.useplus.org/ldf/xmp/1.0/ DataMining": DATA_MINING,
    "http://www.w3.org/ns/tdmrep/ reservation": RESERVATION,
    "http://www.w3.org/ns/tdmrep# reservation": RESERVATION,
    "http://www.w3.org/ns/tdmrep/ policy": POLICY,
    "http://www.w3.org/ns/tdmrep# policy": POLICY,
    "http://creativecommons.org/ns# license": LICENSE,
    "http://ns.adobe.com/xap/1.0/rights/ WebStatement": STATEMENT,
    "http://ns.adobe.com/xap/1.0/rights/ UsageTerms": TERMS,
    "http://ns.adobe.com/xap/1.0/rights/ Marked": MARKED,
    "http://purl.org/dc/elements/1.1/ rights": RIGHTS,
}
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
#: Values of plus:DataMining (https://ns.useplus.org/LDF/ldf-XMPSpecification) and the uses that they are about.
DATA_MINING_USES: Mapping[str, Mapping[Use, bool]] = {
    "DMI-UNSPECIFIED": {},
    "DMI-ALLOWED": {"train": True, "search": True},
    "DMI-PROHIBITED": {"train": False, "search": False},
    "DMI-PROHIBITED-AIMLTRAINING": {"train": False},
    "DMI-PROHIBITED-GENAIMLTRAINING": {"train": False},
    "DMI-PROHIBITED-EXCEPTSEARCHENGINEINDEXING": {"train": False, "search": True},
    "DMI-PROHIBITED-SEECONSTRAINT": {"train": False, "search": False},
    "DMI-PROHIBITED-SEEEMBEDDEDRIGHTSEXPR": {"train": False, "search": False},
    "DMI-PROHIBITED-SEELINKEDRIGHTSEXPR": {"train": False, "search": False},
}


def packets(file: bytes, end: int | None = None) -> Iterator[bytes]:
    """The packets of XMP in a file of any kind, as far as the file does not compress or divide them; the first 16.

    Args:
        file: bytes of the file.
        end: where to stop, as what comes then is divided; None for the end of the file.

    Examples:
        >>> list(packets(b"..<x:xmpmeta>a</x:xmpmeta>..<x:xmpmeta>"))
        [b'<x:xmpmeta>a</x:xmpmeta>']
    """
    at = 0
    for _ in range(_MOST_PACKETS):
        begin = file.find(_BEGIN, at, end)
        last = file.find(_END, begin) if begin >= 0 else -1
        if last < 0:
            return
        at = last + len(_END)
        if at - begin <= _LARGEST_PACKET:
            yield file[begin:at]


def properties(packet: bytes) -> list[tuple[str, str]]:
    """Return the properties of a packet that say something about rights: names and values.

    Raises:
        XmlError: it is not XML, or has a document type declaration.
    """
    reader = _PropertyReader()
    read_xml(packet, reader)
    return list(dict.fromkeys(reader.values))


class _PropertyReader:
    """Collects properties, which are attributes, texts, resources, or items of lists."""

    def __init__(self) -> None:
        self.values: list[tuple[str, str]] = []
        self._name = ""
        self._text: list[str] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        for key, value in attributes.items():
            self._put(_PROPERTIES.get(key, ""), value)
        if tag in _PROPERTIES:
            self._name, self._text = _PROPERTIES[tag], []
            self._put(self._name, attributes.get(f"{_RDF} resource", ""))
        elif tag == f"{_RDF} li":
            self._text = []

    def data(self, text: str) -> None:
        if self._name:
            self._text.append(text)

    def end(self, tag: str) -> None:
        if self._name and (tag in _PROPERTIES or tag == f"{_RDF} li"):
            self._put(self._name, "".join(self._text))
            self._text = []
            if tag in _PROPERTIES:
                self._name = ""

    def _put(self, name: str, value: str) -> None:
        if name and value.strip():
            self.values.append((name, value.strip()))
