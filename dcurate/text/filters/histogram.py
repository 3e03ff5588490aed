"""A filter that checks whether a text uses the characters of its language."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from dcurate.errors import DataError, listed
from dcurate.kernels.members import alphabet_signals
from dcurate.text.filter import Mask, Scores, SignalFilter, ratio
from dcurate.text.signals import Signals

_SOURCE = "https://dl.fbaipublicfiles.com/m2m_100/histograms.tar.gz"
_UNPACKED = "checkpoint/edunov/cc60_multilingual/clean_hists"
#: Where the tables lie in a folder: unpacked by NeMo Curator, unpacked by hand, put there one by one.
_PLACES = (f"histograms/{_UNPACKED}", _UNPACKED, "")


@dataclass(frozen=True)
class HistogramFilter(SignalFilter):
    r"""Keep texts with enough characters that are usual in a language: they score 1, others 0 (NLLB).

    A table lists the characters of a language, one at the start of each line, the most frequent first. Whitespace at
    the ends of a text counts as unusual. An empty text scores 0.

    Args:
        language: the language, which is the name of its table.
        threshold: the share of characters that a text must exceed.
        cache_dir: the folder with the tables; by default the user's cache folder, where NeMo Curator puts them.
        threshold_char: the table ends at the line that begins with this character.

    Nothing is downloaded. Where the table is missing, the error says how to get it.

    Raises:
        DataError: there is no table for the language, on first use.

    Examples:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> _ = Path(folder.name, "en").write_text("e 9\na 5\n] 0\nz 1\n")
        >>> usual = HistogramFilter("en", cache_dir=folder.name)
        >>> usual.score_document("eaea"), usual.score_document("eazz")
        (1, 0)
        >>> folder.cleanup()
    """

    language: str = "en"
    threshold: float = 0.8
    cache_dir: str = ""
    threshold_char: str = "]"
    _name = "histogram"

    def model_check_or_download(self) -> None:
        _usual_characters(self.cache_dir, self.language, self.threshold_char)

    def score(self, signals: Signals) -> Scores:
        usual = _usual_characters(self.cache_dir, self.language, self.threshold_char)
        letters = signals.of(alphabet_signals, usual)
        return (ratio(letters.members, letters.characters, 0.0) > self.threshold).astype(np.int64)

    def keep(self, scores: Scores) -> Mask:
        return np.equal(scores, 1)


@cache
def _usual_characters(cache_dir: str, lang: str, threshold_char: str) -> str:
    folder = Path(cache_dir or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    for place in _PLACES:
        if (table := folder / place / lang).is_file():
            return _before(threshold_char, table)
    tables = sorted(path.name for place in _PLACES[:2] for path in folder.joinpath(place).glob("*"))
    if tables:
        raise DataError(f"histogram: language={lang!r} has no table in {folder}; there are {listed(tables)}")
    raise DataError(
        f"histogram: no table for language={lang!r} in {folder}; unpack {_SOURCE} in a folder and give that as "
        "cache_dir"
    )


def _before(end: str, table: Path) -> str:
    """The first characters of the lines of a table, up to a line that begins with ``end``."""
    try:
        with table.open(encoding="utf-8") as lines:
            characters = [line[0] for line in lines]
    except UnicodeDecodeError as error:
        raise DataError(f"histogram: {table} is not UTF-8 text; unpack {_SOURCE} again") from error
    return "".join(characters[: characters.index(end)] if end in characters else characters)
