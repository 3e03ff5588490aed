"""cuDF whose frames are bytes of a GPU."""

from __future__ import annotations

from typing import Any

import rmm

from cudf.core.frame import Frame

OPTIONS: dict[str, Any] = {}
rmm.ASKED.append(("import cudf", {}))


class DataFrame(Frame):
    """Rows of one column, of which only the number and the size are known."""

    def __init__(self, rows: int = 1, size: int = 8) -> None:
        self.rows, self.size = rows, size
        self.columns = ["text"]

    def __len__(self) -> int:
        return self.rows

    def memory_usage(self, index: bool = True) -> Any:
        import numpy as np  # noqa: PLC0415

        return np.array([self.size])

    def __reduce__(self) -> Any:
        return _from_host, (self.rows, bytes(self.size))


def _from_host(rows: int, content: bytes) -> DataFrame:
    return DataFrame(rows, len(content))


class Series(Frame):
    pass


class Index:
    pass


class RangeIndex(Index):
    pass


class MultiIndex(Index):
    pass


def set_option(name: str, value: Any) -> None:
    OPTIONS[name] = value


def get_option(name: str) -> Any:
    return OPTIONS.get(name, False)
