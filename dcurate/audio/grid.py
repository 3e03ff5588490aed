"""Cut samples that come in windows at even times."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


class FrameGrid:
    """Places at which frames of a recording end.

    They are whole samples: frames of 0.1 s at 22,050 Hz have 2,205, and at 11,025 Hz 1,102 and 1,103 by turns.

    Args:
        rate: samples of a channel a second.
        hertz: frames a second; no frame is shorter than a sample.

    Examples:
        >>> grid = FrameGrid(11_025, 10)
        >>> grid.ends(2000).tolist(), grid.ends(3000).tolist()
        ([1102], [205, 1307, 2410])
    """

    def __init__(self, rate: int, hertz: int) -> None:
        self._rate, self._hertz = max(rate, hertz), hertz
        self._seen, self._frame = 0, 1

    def ends(self, count: int) -> npt.NDArray[np.int64]:
        """Return the places within the next samples at which frames end.

        Args:
            count: number of these samples.
        """
        seen, self._seen = self._seen, self._seen + count
        after = -(-(self._seen + 1) * self._hertz // self._rate)
        frames, self._frame = np.arange(self._frame, after), max(after, self._frame)
        return frames * self._rate // self._hertz - seen
