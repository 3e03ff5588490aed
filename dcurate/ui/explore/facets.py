"""Columns of a few texts, such as languages and sources, by whose values documents are chosen."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

#: Values of a facet: a column with more, or with longer ones, is text and not a facet.
MOST_VALUES, LONGEST = 200, 80
#: Columns that are looked at, at most.
_COLUMNS = 50
#: Share of the documents that a column of identifiers has as different values.
_DIFFERENT = 0.5


class Facet:
    """Values of a column, by document.

    Attributes:
        values: the different values; the first is that of documents without one.
    """

    def __init__(self) -> None:
        self.values: dict[str, int] = {"": 0}
        self._codes = array("h")

    def add(self, row: int, value: str) -> bool:
        """Take in the value of a document; return whether the column can still be a facet."""
        self._codes.extend([0] * (row - len(self._codes)))
        if len(value) > LONGEST or (value not in self.values and len(self.values) > MOST_VALUES):
            return False
        self._codes.append(self.values.setdefault(value, len(self.values)))
        return True

    def codes(self, rows: int) -> npt.NDArray[np.int16]:
        """Return the place of each document's value in ``values``."""
        return np.array([*self._codes, *[0] * (rows - len(self._codes))], np.int16)


class Facets:
    """Finds the facets of documents while these are read.

    Examples:
        >>> facets = Facets(text_field="text")
        >>> for row, language in enumerate(["en", "de", "en", "en"]):
        ...     facets.add(row, {"id": f"d{row}", "text": "a", "language": language, "n": 1})
        >>> {name: facet.values for name, facet in facets.chosen(rows=4).items()}
        {'language': {'': 0, 'en': 1, 'de': 2}}
    """

    def __init__(self, text_field: str) -> None:
        self._facets: dict[str, Facet] = {}
        self._others = {text_field}

    def add(self, row: int, values: Mapping[str, Any]) -> None:
        """Take in a document, by its number."""
        for name, value in values.items():
            if not isinstance(value, str) or name in self._others or name.startswith("_dcurate_"):
                continue
            if name not in self._facets and len(self._facets) >= _COLUMNS:
                continue
            if not self._facets.setdefault(name, Facet()).add(row, value):
                del self._facets[name]
                self._others.add(name)

    def chosen(self, rows: int) -> dict[str, Facet]:
        """Return columns with at least two values that are not identifiers."""
        return {
            name: facet
            for name, facet in self._facets.items()
            if len(facet.values) + (facet.codes(rows) == 0).any() > 2 and len(facet.values) - 1 <= _DIFFERENT * rows
        }
