"""Parse untrusted XML from publishers."""

from __future__ import annotations

from typing import Any
from xml.parsers import expat

from dcurate.errors import DataError

XML_ERRORS = expat.ExpatError


class RefusedError(Exception):
    """The XML contains a construct that a listing or dump never has."""


def parser() -> Any:
    """An expat parser that refuses document type declarations, and with them entity expansion attacks.

    Examples:
        >>> parser().Parse(b"<!DOCTYPE a><a/>")
        Traceback (most recent call last):
        ...
        dcurate.download.markup.RefusedError: it holds a document type declaration
    """
    made = expat.ParserCreate()
    made.buffer_text = True
    made.StartDoctypeDeclHandler = _refuse
    return made


def fields(data: bytes, element: str, name: str) -> list[dict[str, str]]:
    """The texts within each element of a name, by the names of its children.

    Raises:
        DataError: it is not XML, or holds a document type declaration.

    Examples:
        >>> fields(b"<all><file><size>3</size></file></all>", "file", "the listing")
        [{'size': '3'}]
    """
    elements: list[dict[str, str]] = []
    path: list[str] = []

    def begin(tag: str, _: dict[str, str]) -> None:
        path.append(tag)
        if tag == element:
            elements.append({})

    def text(characters: str) -> None:
        if len(path) > 1 and path[-2] == element:
            elements[-1][path[-1]] = elements[-1].get(path[-1], "") + characters

    made = parser()
    made.StartElementHandler, made.CharacterDataHandler = begin, text
    made.EndElementHandler = lambda _: path.pop()
    try:
        made.Parse(data, True)
    except (RefusedError, XML_ERRORS) as error:
        raise DataError(f"{name} is not an XML listing: {error}; check the address") from error
    return elements


def _refuse(*_: object) -> None:
    raise RefusedError("it holds a document type declaration")
