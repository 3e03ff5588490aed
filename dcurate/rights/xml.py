"""Read XML that anybody may have written: without document types, so that entities cannot grow or name files."""

from __future__ import annotations

from typing import Protocol
from xml.parsers import expat


class XmlError(ValueError):
    """A text is not XML, or not of the kind that is read."""


class XmlEvents(Protocol):
    """Takes the elements and texts of a document; a tag is the namespace, a space and the local name."""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Take the begin of an element."""

    def end(self, tag: str) -> None:
        """Take the end of an element."""

    def data(self, text: str) -> None:
        """Take a piece of text."""


def read_xml(document: bytes, events: XmlEvents) -> None:
    """Read a document in UTF-8, in time linear in its size.

    Raises:
        XmlError: it is not XML, or has a document type declaration.
    """
    parser = expat.ParserCreate("utf-8", " ")
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = _refuse
    parser.StartElementHandler = events.start
    parser.EndElementHandler = events.end
    parser.CharacterDataHandler = events.data
    try:
        parser.Parse(document, True)
    except (expat.ExpatError, LookupError) as error:
        raise XmlError(str(error)) from error


def _refuse(*_: object) -> None:
    raise XmlError("it has a document type declaration")
