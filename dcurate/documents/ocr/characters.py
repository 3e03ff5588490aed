"""Characters that were read from pictures, as the layout of PDF pages takes them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dcurate.documents.pdf.native import Characters
from dcurate.kernels.pdf.characters import ANGLE, COLOR, FONT, TURN

_BLACK = 0xFF000000
_COLUMNS = ANGLE + 1


def read_off(
    codes: npt.NDArray[np.int32], places: npt.NDArray[np.float32], spaces: npt.NDArray[np.bool_], turn: int = 0
) -> Characters:
    """Return characters as if they were of one black text object of a font without a name.

    Args:
        codes: Unicode code points.
        places: from and to along the line, the baseline downwards, the size of the font, in points; float32 (n, 4).
        spaces: whether a space comes before each.
        turn: quarter turns against the clock that the text has on the page.
    """
    objects = np.zeros((1, _COLUMNS), np.int64)
    objects[0, FONT], objects[0, TURN], objects[0, COLOR] = -1, turn, _BLACK
    nothing = np.zeros(len(codes), np.int32)
    return Characters(codes, places, nothing, spaces.astype(np.uint8), objects, np.zeros(0, np.int64), 0)
