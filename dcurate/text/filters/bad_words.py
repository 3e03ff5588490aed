"""C4's bad-word filter, with a user-supplied list."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from itertools import pairwise
from typing import Any, NamedTuple

import fsspec
import numpy as np
import numpy.typing as npt

from dcurate.core.part import check_texts
from dcurate.core.redirects import guarded
from dcurate.errors import DataError, PipelineError
from dcurate.kernels.interning import Numbered
from dcurate.text import measures
from dcurate.text.filter import BoundedFilter, Scores, Share
from dcurate.text.signals import Signals

#: Words of the published lists that the reference allows: parts of common words where none are set apart by spaces.
ALLOWED = ("sm", "グロ", "女の子", "性")
_UNSPACED = ("ja", "th", "zh")
_WORD, _LAST_WORD = re.compile(r"\w+"), re.compile(r"\w+$")


#: What a run of characters may be: it holds a bad word; two pieces of one may meet at its end, or at its begin.
_HOLDS, _ENDS, _BEGINS = 1, 2, 4


class _Pieces(NamedTuple):
    """Patterns to search for in runs without whitespace: standalone words, or else any substring.

    ``single`` are of bad words in one piece, ``ends`` and ``begins`` of those in several: of two neighbouring pieces,
    the longest, what the first ends with and what the second begins with.
    """

    single: frozenset[str]
    ends: frozenset[str]
    begins: frozenset[str]
    other_single: tuple[str, ...]
    other_ends: tuple[str, ...]
    other_begins: tuple[str, ...]


@dataclass(frozen=True)
class _BadWords:
    """Find the runs of characters, and the texts, that contain bad words.

    Args:
        words: the bad words, in lower case.
        flanked: whether they count only between characters that are no letters or digits.
    """

    words: tuple[str, ...]
    flanked: bool

    def __call__(self, words: list[bytes]) -> list[int]:
        """Possible roles of each run of characters between whitespace, as bits."""
        pieces, pattern = _pieces(self), _pattern(self, alone=True)
        joined = b"\n".join(words).decode(errors="surrogatepass").lower()
        present = tuple(piece for piece in pieces.other_single if piece in joined)
        kinds = []
        for run in joined.split("\n"):
            inner = _WORD.findall(run)
            kind = 0
            if not pieces.single.isdisjoint(inner) or (present and any(piece in run for piece in present)):
                kind = _HOLDS * (pattern.search(run) is not None)
            if (inner and inner[-1] in pieces.ends) or run.endswith(pieces.other_ends):
                kind |= _ENDS
            if (inner and inner[0] in pieces.begins) or run.startswith(pieces.other_begins):
                kind |= _BEGINS
            kinds.append(kind)
        return kinds

    def in_pieces(self, text: str) -> bool:
        """Whether a text contains a bad word of several pieces."""
        return _pattern(self, alone=False).search(text.lower()) is not None


@cache
def _pieces(bad: _BadWords) -> _Pieces:
    by_kind: list[set[str]] = [set() for _ in range(6)]

    def put(kind: int, piece: str, word: re.Match[str] | None) -> None:
        if bad.flanked and word:
            by_kind[kind].add(word[0])
        else:
            by_kind[kind + 3].add(piece)

    for text in bad.words:
        parts = text.split()
        if len(parts) == 1:
            put(0, text, _WORD.match(text))
            continue
        first, second = max(pairwise(parts), key=lambda pair: len(pair[0]) + len(pair[1]))
        put(1, first, _LAST_WORD.search(first))
        put(2, second, _WORD.match(second))
    single, ends, begins = map(frozenset, by_kind[:3])
    return _Pieces(single, ends, begins, *(tuple(sorted(pieces)) for pieces in by_kind[3:]))


@cache
def _pattern(bad: _BadWords, alone: bool) -> re.Pattern[str]:
    """Bad words of one piece, or of several."""
    words = "|".join(re.escape(word) for word in bad.words if (len(word.split()) == 1) == alone) or "(?!)"
    return re.compile(rf"(?:\W|^)(?:{words})(?:\W|$)" if bad.flanked else words)


@dataclass(frozen=True)
class C4BadWordsFilter(BoundedFilter):
    """Drop texts that contain a word of a list, ignoring case (Raffel et al., 2020).

    A word of the list may be several words. It counts if it is not adjacent to a letter, digit or underscore;
    in Chinese, Japanese and Thai it counts anywhere. No list comes with dcurate. C4's is
    https://github.com/LDNOOBW/List-of-Dirty-Naughty-Obscene-and-Otherwise-Bad-Words (CC BY 4.0): a file for each
    language, a word in each line. C4 looks at the lines that stay: put this behind `dcurate.text.presets.c4`;
    datatrove's filter checks the text as it is.

    A text with a bad word scores above 0, up to 1, evenly and by its text and the seed alone; one without scores 0.

    Args:
        words: the list, or the path or URL of a file of it in UTF-8, a word a line, wherever fsspec can read.
        language: the language of the texts, an ISO 639-1 code.
        keep_fraction: share of the texts with bad words that stay all the same; which do follows from their text.
            (Those of datatrove follow from how many came before them, those of C4 from their URL.)
        seed: another one keeps others.
        allowed: words that do not count even if the list has them.
        storage_options: storage options of fsspec.

    Raises:
        PipelineError: no list, an empty one, or an invalid fraction.
        DataError: the file cannot be read.

    Examples:
        >>> rule = C4BadWordsFilter(("darn", "what the heck"))
        >>> rule.keep_document(rule.score_document("Darning socks.")), rule.keep_document(rule.score_document("DARN!"))
        (True, False)
    """

    words: str | Sequence[str]
    language: str = "en"
    keep_fraction: Share = 0.0
    seed: int = 0
    allowed: Sequence[str] = ALLOWED
    storage_options: Mapping[str, Any] | None = None
    _name = "c4_bad_words"
    _high = "keep_fraction"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.words, str):
            check_texts("C4BadWordsFilter", "words", self.words, "a list of words, or the path of a file of them")
        check_texts("C4BadWordsFilter", "allowed", self.allowed, "a list of words")
        if not self.words:
            raise PipelineError("C4BadWordsFilter: no words; give a list of them, or the path of a file of them")
        if not isinstance(self.words, str):
            object.__setattr__(self, "words", tuple(self.words))
        object.__setattr__(self, "allowed", tuple(self.allowed))

    @property
    def cheap_setup(self) -> bool:
        return not isinstance(self.words, str)

    def model_check_or_download(self) -> None:
        self.score_document("one two")  # reads the list, and compiles the kernels

    def load_model(self) -> None:
        vars(self)["_bad"] = self._read()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_bad"}

    def score(self, signals: Signals) -> Scores:
        if len(signals) == 0:
            return np.zeros(0, np.float64)
        if "_bad" not in vars(self):
            self.load_model()
        bad: _BadWords = vars(self)["_bad"]
        words = measures.words(signals, "whitespace")
        kinds = words.marked(bad)[words.found.numbers]
        holds, meet = kinds & _HOLDS > 0, (kinds[:-1] & _ENDS > 0) & (kinds[1:] & _BEGINS > 0)
        bad_at, doubtful = (self._places(signals, words.found, np.flatnonzero(at)) for at in (holds, meet))
        texts = {place: self._text(signals, place) for place in bad_at | doubtful}
        scores = np.zeros(len(signals), np.float64)
        for place, encoded in texts.items():
            if place in bad_at or bad.in_pieces(encoded.decode(errors="surrogatepass")):
                drawn = blake2b(encoded, digest_size=8, salt=self.seed.to_bytes(8, "little", signed=True)).digest()
                scores[place] = ((int.from_bytes(drawn, "little") >> 11) + 1) / 2**53
        return scores

    def _places(self, signals: Signals, numbered: Numbered, words: npt.NDArray[np.int64]) -> set[int]:
        """The numbers of the texts that contain the words; ``words`` are positions among the words of all texts."""
        begins, counts = numbered.begins[signals.rows], numbered.counts[signals.rows]
        places = np.searchsorted(begins, words, "right") - 1
        within = (places >= 0) & (words < (begins + counts)[places])
        return set(places[within].tolist())

    def _text(self, signals: Signals, place: int) -> bytes:
        row = signals.rows[place]
        return signals.column.data[signals.column.offsets[row] : signals.column.offsets[row + 1]].tobytes()

    def _read(self) -> _BadWords:
        lines = self.words
        if isinstance(lines, str):
            try:
                with fsspec.open(lines, "rb", **guarded(lines, self.storage_options)) as file:
                    lines = file.read().decode("utf-8-sig").splitlines()
            except (OSError, ValueError, ImportError) as error:
                reason = " ".join(str(error).split())
                raise DataError(
                    f"C4BadWordsFilter: {self.words!r} cannot be read: {reason}; give a text file"
                ) from error
        words = {line.strip() for line in lines} - {"", *self.allowed}
        if not words:
            raise PipelineError(f"C4BadWordsFilter: no word in {self.words!r}; write one word per line")
        return _BadWords(tuple(sorted(words)), self.language.partition("-")[0].lower() not in _UNSPACED)
