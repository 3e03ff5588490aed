"""What the C2PA manifests of a file say about training and data mining; their signatures are not checked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import orjson

from dcurate.core.extras import needed
from dcurate.rights.fields import Use

#: Boxes of a store that are visited, the depth of boxes and of CBOR, and bytes of an assertion that are read.
_MOST, _DEPTH, _LARGEST = 2**16, 32, 2**16
#: Labels of the assertion: of C2PA 1.x and of CAWG, which took it over; with a version or a number at its end.
_LABEL = re.compile(r"(?:c2pa|cawg)\.training-mining(?:\.v\d+)?(?:__\d+)?")
#: Names of entries that are about training; mining is what training does first, and inference has no effect here.
_TRAINING, _MINING, _INFERENCE = ("ai_training", "ai_generative_training"), "data_mining", "ai_inference"
_USES = ("allowed", "notAllowed", "constrained")


class MiningEntry(NamedTuple):
    """An entry of the assertion.

    Args:
        text: entry and value, as ``cawg.ai_training notAllowed``.
        use: the use that it is about; None if it has no effect on one.
        allowed: whether the use is allowed.
        known: whether the entry is understood.
    """

    text: str
    use: Use | None = None
    allowed: bool | None = None
    known: bool = True


def mining_entries(store: bytes) -> Iterator[MiningEntry]:
    """Yield what all manifests of a store say, those of ingredients, too.

    Raises:
        ResourceError: cbor2, of the extra ``rights``, is not installed.
    """
    for kind, start, end in _contents(store):
        if end - start > _LARGEST:
            yield MiningEntry(f"training-mining of {end - start} bytes", known=False)
            continue
        try:
            assertion = _read(kind, store[start:end])
        except ValueError as error:
            yield MiningEntry(f"training-mining ({error})", known=False)
            continue
        entries = assertion.get("entries") if isinstance(assertion, Mapping) else None
        if not isinstance(entries, Mapping):
            yield MiningEntry("training-mining without entries", known=False)
        else:
            yield from _entries(entries)


def _read(kind: bytes, content: bytes) -> Any:
    """An assertion from JSON or CBOR.

    Raises:
        ValueError: it cannot be read.
    """
    if kind == b"json":
        return orjson.loads(content)
    cbor2 = needed("cbor2", "read the C2PA assertion on training and data mining of a file", "rights")
    try:
        return cbor2.loads(content, max_depth=_DEPTH, strict_hashable_types=True)
    except Exception as error:  # types of CBOR such as dates and patterns raise the errors of their own libraries
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _entries(entries: Mapping[Any, Any]) -> Iterator[MiningEntry]:
    """What entries say; a refusal of one kind of training counts for training as a whole."""
    values: dict[str, str] = {}
    for name, entry in entries.items():
        use = entry.get("use") if isinstance(entry, Mapping) else None
        values[str(name)] = str(use)
    refused = any(_short(name) in _TRAINING and value in _USES[1:] for name, value in values.items())
    for name, value in values.items():
        text = f"{name} {value}"
        if value not in _USES or _short(name) not in (*_TRAINING, _MINING, _INFERENCE):
            yield MiningEntry(text, known=False)
        elif _short(name) == _INFERENCE or (value == "allowed" and (refused or _short(name) == _MINING)):
            yield MiningEntry(text)
        else:
            yield MiningEntry(text, "train", value == "allowed")


def _short(name: str) -> str:
    """The name of an entry without whose it is; empty if it is nobody's that is known."""
    owner, _, short = name.partition(".")
    return short if owner in ("c2pa", "cawg") else ""


def _contents(store: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Kinds and places of the contents of the assertions in a store of JUMBF boxes (ISO 19566-5)."""
    # What is left to visit: the begin and end of boxes in a row, their depth, and the label of the box around them.
    rows: list[tuple[int, int, int, str]] = [(0, len(store), 0, "")]
    for _ in range(_MOST):
        if not rows:
            return
        at, end, depth, label = rows.pop()
        if at + 8 > end:
            continue
        size, kind, head = int.from_bytes(store[at : at + 4], "big"), store[at + 4 : at + 8], 8
        if size == 1:
            size, head = int.from_bytes(store[at + 8 : at + 16], "big"), 16
        size = end - at if size == 0 else size
        if size < head or at + size > end:
            continue
        if kind == b"jumd":
            label = _box_label(store[at + head : at + min(size, 300)])
        elif kind in (b"cbor", b"json") and _LABEL.fullmatch(label):
            yield kind, at + head, at + size
        rows.append((at + size, end, depth, label))
        if kind == b"jumb" and depth < _DEPTH:
            rows.append((at + head, at + size, depth + 1, ""))


def _box_label(description: bytes) -> str:
    """The label in a description: 16 bytes of a type, one that says that a label follows, and the label."""
    if len(description) < 17 or not description[16] & 2:
        return ""
    return description[17:].partition(b"\0")[0].decode("utf-8", "replace")
