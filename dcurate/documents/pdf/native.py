"""Characters and drawings of pages of pdfium as arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pypdfium2 import raw

from dcurate.kernels.pdf import calls
from dcurate.kernels.pdf import characters as of_characters
from dcurate.kernels.pdf import drawings as of_drawings
from dcurate.kernels.pdf import visible as of_visible

_NAME = ctypes.create_string_buffer(256)
_NO_SPOTS = np.zeros((0, 2), np.float32)


class Characters(NamedTuple):
    """Characters that are no whitespace, in the order of pdfium; for columns see `dcurate.kernels.pdf.characters`.

    Args:
        codes: Unicode code points.
        places: in points, in a frame turned so that the text runs to the right.
        owners: the row of ``objects`` of each.
        flags: whether a space comes before it, and whether its font has a code point for it.
        objects: the text objects.
        fonts: addresses of the fonts.
        left_out: characters beyond the limit.
        spots: the middle of each character on the page, along and downwards in the frame of the nearest quarter turn,
            where that is not the middle of its place; or empty.
    """

    codes: npt.NDArray[np.int32]
    places: npt.NDArray[np.float32]
    owners: npt.NDArray[np.int32]
    flags: npt.NDArray[np.uint8]
    objects: npt.NDArray[np.int64]
    fonts: npt.NDArray[np.int64]
    left_out: int
    spots: npt.NDArray[np.float32] = _NO_SPOTS


class Drawings(NamedTuple):
    """What is drawn on a page beside text; places in points from the bottom left.

    Args:
        rules: from x, from y, to x, to y of lines that run straight across or down.
        areas: left, bottom, right, top, when it is painted, fill as 0xRRGGBB (-1: a picture, -2: a shading).
        texts: the address of each text object, and when it is painted.
        left_out: whether there are more objects than the limit.
    """

    rules: npt.NDArray[np.float32]
    areas: npt.NDArray[np.float64]
    texts: npt.NDArray[np.int64]
    left_out: bool


class PageFrame(NamedTuple):
    """A page turned so that most of its text runs to the right, with heights downwards.

    Args:
        turn: quarter turns against the clock that the text has on the page.
        box: from and to across, from and to downwards.
        cut: whether the file has more beyond the box, which viewers do not show.
    """

    turn: int
    box: tuple[float, float, float, float]
    cut: bool = False


@cache
def _addresses() -> npt.NDArray[np.int64]:
    """Where the functions that kernels call begin in the memory of this process."""
    return np.array([_address_of_call(getattr(raw, name)) for name in calls.NAMES], dtype=np.int64)


def _address_of(handle: Any) -> int:
    return ctypes.addressof(handle.contents)


def read_characters(textpage: Any, most: int) -> Characters:
    """Read the characters of a text page of pdfium, at most ``most``."""
    return Characters(*of_characters.read_characters(_address_of(textpage), _addresses(), most))


def read_drawings(page: Any, most: int) -> Drawings:
    """Read the drawings of a page of pdfium, at most ``most`` objects of any kind."""
    return Drawings(*of_drawings.read_drawings(_address_of(page), _addresses(), most))


@cache
def _font_calls() -> tuple[Callable[..., int], Callable[..., int]]:
    """Functions of pdfium that give the name and the flags of a font by its address."""
    name, flags = (_address_of_call(call) for call in (raw.FPDFFont_GetBaseFontName, raw.FPDFFont_GetFlags))
    return (
        ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t)(name),
        ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(flags),
    )


def _address_of_call(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


#: Flags of fonts in pdfium.
_FIXED_WIDTH = 1
_HEAVY = ("bold", "black", "heavy", "semibold", "cmbx")
_TYPEWRITER = ("mono", "courier", "typewriter", "consol", "cmtt", "menlo")


def fonts_of(characters: Characters) -> tuple[list[str], npt.NDArray[np.uint8]]:
    """Names of the fonts of a page; and for each character whether its font is bold (1) and of one width (2)."""
    names: dict[str, None] = {}
    styles = np.zeros(len(characters.fonts) + 1, np.uint8)
    name_of, flags_of = _font_calls()
    for number, address in enumerate(characters.fonts.tolist()):
        size = name_of(address, _NAME, len(_NAME))
        name, style = _style(_NAME.value if 0 < size <= len(_NAME) else b"", flags_of(address) & _FIXED_WIDTH)
        names[name] = None
        styles[number] = style
    if not styles.any():
        return list(names), np.zeros(len(characters.codes), np.uint8)
    return list(names), styles[characters.objects[:, of_characters.FONT]][characters.owners]


@lru_cache(4096)
def _style(raw_name: bytes, fixed: int) -> tuple[str, int]:
    """The name of a font without its prefix, and whether it is bold (1) and of one width (2)."""
    name = raw_name.decode("utf-8", "replace").rpartition("+")[2]
    low = name.lower()
    mono = fixed or any(word in low for word in _TYPEWRITER)
    return name, any(word in low for word in _HEAVY) + (2 if mono else 0)


def image_share(frame: PageFrame, areas: npt.NDArray[np.float64], times: npt.NDArray[np.float64]) -> float:
    """The share of the page's area that pictures cover."""
    return float(of_visible.image_share(np.array(frame.box), areas, times)) if len(areas) else 0.0


def seen(characters: Characters, drawings: Drawings, frame: PageFrame, areas: npt.NDArray[np.float64]) -> Any:
    """Find the characters of a page that can be seen; see `dcurate.kernels.pdf.visible`."""
    texts = drawings.texts
    if len(areas) and len(texts):
        texts = texts[np.argsort(texts[:, 0], kind="stable")]
    return of_visible.find_visible(
        characters.codes,
        characters.places,
        characters.spots,
        characters.owners,
        characters.flags,
        characters.objects,
        frame.turn,
        np.array([*frame.box, frame.cut]),
        areas,
        drawings.areas[:, 4:6],
        texts,
    )
