"""Calls of pdfium from compiled code: a call through ctypes takes as long as all that pdfium does for a character."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

#: Functions of pdfium that compiled code calls, by their place in the array of addresses that kernels are given.
NAMES = (
    "FPDFText_CountChars",
    "FPDFText_GetUnicode",
    "FPDFText_IsGenerated",
    "FPDFText_HasUnicodeMapError",
    "FPDFText_GetLooseCharBox",
    "FPDFText_GetCharOrigin",
    "FPDFText_GetTextObject",
    "FPDFText_GetFontSize",
    "FPDFText_GetMatrix",
    "FPDFTextObj_GetTextRenderMode",
    "FPDFTextObj_GetFont",
    "FPDFPageObj_GetFillColor",
    "FPDFPage_CountObjects",
    "FPDFPage_GetObject",
    "FPDFPageObj_GetType",
    "FPDFPageObj_GetBounds",
    "FPDFPath_GetDrawMode",
    "FPDFPath_CountSegments",
    "FPDFPath_GetPathSegment",
    "FPDFPathSegment_GetPoint",
    "FPDFPathSegment_GetType",
    "FPDFPathSegment_GetClose",
    "FPDFPageObj_GetMatrix",
    "FPDFPageObj_HasTransparency",
    "FPDFFormObj_CountObjects",
    "FPDFFormObj_GetObject",
    "FPDFFont_GetBaseFontName",
)

(
    COUNT_CHARS,
    UNICODE,
    IS_GENERATED,
    MAP_ERROR,
    LOOSE_BOX,
    ORIGIN,
    TEXT_OBJECT,
    FONT_SIZE,
    TEXT_MATRIX,
    RENDER_MODE,
    FONT,
    FILL_COLOR,
    COUNT_OBJECTS,
    GET_OBJECT,
    OBJECT_TYPE,
    BOUNDS,
    DRAW_MODE,
    COUNT_SEGMENTS,
    PATH_SEGMENT,
    SEGMENT_POINT,
    SEGMENT_TYPE,
    SEGMENT_CLOSE,
    OBJECT_MATRIX,
    TRANSPARENCY,
    FORM_COUNT,
    FORM_OBJECT,
    FONT_NAME,
) = range(len(NAMES))

#: Without a type: numba passes the first argument itself.
_as_call: Any = intrinsic

_INT = ir.IntType(32)
_LONG = ir.IntType(64)


def _called(builder: Any, address: Any, result: Any, arguments: list[Any]) -> Any:
    function = builder.inttoptr(
        address, ir.FunctionType(result, [argument.type for argument in arguments]).as_pointer()
    )
    return builder.call(function, arguments)


def _intrinsic(result: Any, native: Any, parameters: tuple[Any, ...], widths: tuple[Any, ...]) -> tuple[Any, Any]:
    """The signature and the code of a call whose parameters are integers: 64 bits for pointers, else 32."""

    def generate(_: Any, builder: Any, __: Any, values: Any) -> Any:
        arguments = [
            builder.trunc(value, _INT) if width is _INT else value
            for value, width in zip(values[1:], widths, strict=True)
        ]
        answer = _called(builder, values[0], native, arguments)
        return builder.sext(answer, _LONG) if native is _INT else answer

    return result(*parameters), generate


@_as_call
def call_p(_: Any, address: Any, a: Any) -> Any:
    """``int f(void*)``."""
    return _intrinsic(types.int64, _INT, (types.int64,) * 2, (_LONG,))


@_as_call
def call_pi(_: Any, address: Any, a: Any, b: Any) -> Any:
    """``int f(void*, int)``."""
    return _intrinsic(types.int64, _INT, (types.int64,) * 3, (_LONG, _INT))


@_as_call
def call_p_pointer(_: Any, address: Any, a: Any) -> Any:
    """``void* f(void*)``."""
    return _intrinsic(types.int64, _LONG, (types.int64,) * 2, (_LONG,))


@_as_call
def call_pi_pointer(_: Any, address: Any, a: Any, b: Any) -> Any:
    """``void* f(void*, int)``."""
    return _intrinsic(types.int64, _LONG, (types.int64,) * 3, (_LONG, _INT))


@_as_call
def call_pi_double(_: Any, address: Any, a: Any, b: Any) -> Any:
    """``double f(void*, int)``."""
    return _intrinsic(types.float64, ir.DoubleType(), (types.int64,) * 3, (_LONG, _INT))


@_as_call
def call_pp(_: Any, address: Any, a: Any, b: Any) -> Any:
    """``int f(void*, void*)``."""
    return _intrinsic(types.int64, _INT, (types.int64,) * 3, (_LONG, _LONG))


@_as_call
def call_ppp(_: Any, address: Any, a: Any, b: Any, c: Any) -> Any:
    """``int f(void*, void*, void*)``."""
    return _intrinsic(types.int64, _INT, (types.int64,) * 4, (_LONG,) * 3)


@_as_call
def call_pip(_: Any, address: Any, a: Any, b: Any, c: Any) -> Any:
    """``int f(void*, int, void*)``."""
    return _intrinsic(types.int64, _INT, (types.int64,) * 4, (_LONG, _INT, _LONG))


@_as_call
def call_pipp(_: Any, address: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """``int f(void*, int, void*, void*)``."""
    return _intrinsic(types.int64, _INT, (types.int64,) * 5, (_LONG, _INT, _LONG, _LONG))


@_as_call
def call_ppppp(_: Any, address: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
    """``int f(void*, void*, void*, void*, void*)``."""
    return _intrinsic(types.int64, _INT, (types.int64,) * 6, (_LONG,) * 5)


@_as_call
def place_of(_: Any, array: Any) -> Any:
    """The address of an array's first value."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        made = context.make_array(signature.args[0])(context, builder, values[0])
        return builder.ptrtoint(made.data, _LONG)

    return types.int64(array), generate
