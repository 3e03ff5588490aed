"""`ErrorRates`: how a transcript differs from another, in words and characters."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dcurate.core.stage import NodeInfo, ProcessingStage, Spec, WorkerMetadata
from dcurate.errors import DataError, PipelineError
from dcurate.frames.columns import values
from dcurate.frames.document import DocumentBatch
from dcurate.frames.text import text_array
from dcurate.kernels.edits import Numbers, count_edits, encoded, numbered
from dcurate.kernels.layout import Ints

#: What becomes of characters, as in NeMo Curator 26.09: removed first, then replaced by a space, then by an apostrophe.
_SPACED = '/*":=_-{|}~\xa8\xab\xb7\xbb\xa1\xbf\u2026\u2027\u2039\u203a\u226a\u226b!:;\u02d0\u2192'
_MARKS = "\u060c\u061f.\u3001\uff1f\xbf!,?\u0964"
_REMOVED = '`\xa8\xb4\u2018\u201c\u201d\u02bb"'
_APOSTROPHES = dict.fromkeys(map(ord, "\u2018\u2019\u02bb"), "'")
_WITH_MARKS = _APOSTROPHES | dict.fromkeys(map(ord, _SPACED), " ") | dict.fromkeys(map(ord, _REMOVED), "")
_WITHOUT = (
    _APOSTROPHES | dict.fromkeys(map(ord, _SPACED + _MARKS), " ") | dict.fromkeys(map(ord, _REMOVED + "\u2019-"), "")
)
_BEFORE_MARK = re.compile(rf"(\w)\s+([{_MARKS}])")
_SIGNS = str.maketrans(dict.fromkeys("|\u2047<>", ""))
#: Rates of one measure, after its name and an underscore.
_PARTS = ("ins_rate", "del_rate", "sub_rate")


@dataclass
class ErrorRates(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Add word and character error rates of transcripts against a reference; limit them with `ColumnFilter`.

    A rate is the edits of a shortest list of them by the tokens of the reference: it can exceed 1. Measures:

    * ``wer``: of words, which are between white space. ``cer``: of characters, spaces included.
    * ``start_cer``, ``end_cer``: of the first and of the last `edge_chars` characters.
    * ``pnc_wer``, ``pnc_cer``: with ``pnc=True``, of texts with their punctuation and case.

    Each has its tokens in the reference and the rates of insertions, deletions and substitutions: ``wer_tokens``,
    ``wer_ins_rate``, ``wer_del_rate``, ``wer_sub_rate``. Counts are those of jiwer 4.0. For pairs whose matrix exceeds
    RapidFuzz's memory (texts of some 2,000 characters), it may take another of several shortest lists, which changes
    the rates of the kinds of edits, but not their sum. ``error_reason`` says why a row has no rates: ``no reference``,
    ``no hypothesis`` (null), ``empty reference`` or ``too long``.

    With `duration_field` there are ``char_rate`` (without spaces) and ``word_rate`` of the transcript as it is, per
    second; 0 where the duration is not above 0, null where it or the text is null.

    Texts are cleaned as NeMo Curator's ``ComputeWERStage`` does. Its rates are these, rounded to four digits, where its
    normalizer, which writes numbers as words, changes nothing. With ``clean=False``, ``wer`` times 100 is the
    ``wer_pct`` of its ``GetPairwiseWerStage``.

    Args:
        reference_field: the column of the texts that count as right.
        hypothesis_field: the column of transcripts.
        duration_field: the column of durations, in seconds; None for no ``char_rate`` and ``word_rate``.
        clean: whether to ignore case and punctuation; otherwise texts are only stripped.
        pnc: whether to add rates with punctuation and case; it needs ``clean=True``.
        edge_chars: characters that ``start_cer`` and ``end_cer`` look at.
        max_cells: work for a pair: cells of the matrix of edits; 100 million take half a second of CPU. Time is that of
            length times edits, so texts that are nearly equal may be long; other pairs of 10,000 characters each are
            ``too long``.
        prefix: comes before the name of every column.
        name: name of the stage.

    Raises:
        PipelineError: `edge_chars` or `max_cells` is below 1, or `pnc` is on without `clean`.
        DataError: a column does not hold text, or durations are not numbers.

    Examples:
        >>> texts = {"text": ["One, two!", "three", ""], "pred_text": ["one too", "three", "four"]}
        >>> rows = ErrorRates().process(DocumentBatch(data=pa.table(texts))).to_arrow().to_pydict()
        >>> rows["wer"], rows["wer_sub_rate"], rows["error_reason"]
        ([0.5, 0.0, None], [0.5, 0.0, None], [None, None, 'empty reference'])
    """

    reference_field: str = "text"
    hypothesis_field: str = "pred_text"
    duration_field: str | None = None
    clean: bool = True
    pnc: bool = False
    edge_chars: int = 12
    max_cells: int = 100_000_000
    prefix: str = ""
    name: str = "error_rates"

    def __post_init__(self) -> None:
        for setting, value in (("edge_chars", self.edge_chars), ("max_cells", self.max_cells)):
            if value < 1:
                raise PipelineError(f"stage {self.name!r}: {setting}={value} must be at least 1")
        if self.pnc and not self.clean:
            raise PipelineError(
                f"stage {self.name!r}: pnc=True adds rates to those of cleaned texts, and clean=False; set one"
            )

    def inputs(self) -> Spec:
        fields = (self.reference_field, self.hypothesis_field, self.duration_field)
        return ["data"], [field for field in fields if field is not None]

    def outputs(self) -> Spec:
        names = [name for kind in self._measures for name in (kind, f"{kind}_tokens", *(f"{kind}_{p}" for p in _PARTS))]
        names += ["char_rate", "word_rate"] if self.duration_field is not None else []
        return ["data"], [self.prefix + name for name in [*names, "error_reason"]]

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        count_edits(encoded(["a"]), encoded(["b"]), self.max_cells)

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = DocumentBatch.given(task).to_arrow()
        self.check_columns(table.column_names)
        references, hypotheses = (texts_of(table, field) for field in (self.reference_field, self.hypothesis_field))
        columns = self._rates(references, hypotheses)
        if self.duration_field is not None:
            columns |= speech_rates(hypotheses, durations_of(table, self.duration_field))
        for name in self.outputs()[1]:
            table = table.append_column(name, columns[name.removeprefix(self.prefix)])
        return task.with_data(table)

    @property
    def _measures(self) -> list[str]:
        return ["wer", "cer", "start_cer", "end_cer", *(["pnc_wer", "pnc_cer"] if self.pnc else [])]

    def _rates(self, references: list[str | None], hypotheses: list[str | None]) -> dict[str, pa.Array]:
        reasons: list[str | None] = [_missing(*pair) for pair in zip(references, hypotheses, strict=True)]
        present = [row for row, reason in enumerate(reasons) if reason is None]
        forms = [[signless(texts[row] or "") if self.clean else texts[row] or "" for row in present]
                 for texts in (references, hypotheses)]  # fmt: skip
        right, predicted = ([cleaned(text) if self.clean else text.strip() for text in texts] for texts in forms)
        edge = self.edge_chars
        counted = {
            "wer": _by_word(right, predicted, self.max_cells),
            "cer": _by_char(right, predicted, self.max_cells),
            "start_cer": _by_char([t[:edge] for t in right], [t[:edge] for t in predicted], self.max_cells),
            "end_cer": _by_char([t[-edge:] for t in right], [t[-edge:] for t in predicted], self.max_cells),
        }
        if self.pnc:
            marked, predicted_marked = ([with_marks(text) for text in texts] for texts in forms)
            counted["pnc_wer"] = _by_word(marked, predicted_marked, self.max_cells)
            counted["pnc_cer"] = _by_char(marked, predicted_marked, self.max_cells)
        known = np.ones(len(present), bool)
        for edits, _ in counted.values():
            known &= (edits >= 0).all(axis=1)
        for place, row in enumerate(present):
            if not right[place]:
                reasons[row], known[place] = "empty reference", False
            elif not known[place]:
                reasons[row] = "too long"
        rows = np.array(present, np.int64)[known]
        columns: dict[str, pa.Array] = {"error_reason": pa.array(reasons, pa.string())}
        for kind, (edits, tokens) in counted.items():
            columns |= _columns(kind, edits[known], tokens[known], rows, len(reasons))
        return columns


def signless(text: str) -> str:
    """A text without the signs of speech recognisers, such as ``<unk>``, and with single spaces.

    Examples:
        >>> signless("a <unk> |b")
        'a b'
    """
    return re.sub(r"\s+", " ", text.replace("<unk>", "").translate(_SIGNS))


def cleaned(text: str) -> str:
    """A text in lower case, without punctuation, with single spaces.

    Examples:
        >>> cleaned("Well-known: 'One', two!")
        "wellknown 'one' two"
    """
    return " ".join(text.lower().strip().translate(_WITHOUT).split())


def with_marks(text: str) -> str:
    """A text with its case and punctuation, without quotes and signs.

    Examples:
        >>> with_marks("Well-known ; yes , two .")
        'Well known yes, two.'
    """
    return " ".join(_BEFORE_MARK.sub(r"\1\2", text.strip().translate(_WITH_MARKS)).split())


def _missing(reference: str | None, hypothesis: str | None) -> str | None:
    if reference is None:
        return "no reference"
    return "no hypothesis" if hypothesis is None else None


def _by_word(references: Sequence[str], hypotheses: Sequence[str], max_cells: int) -> tuple[Ints, Ints]:
    """The edits of pairs of texts in words, and the words of the references."""
    numbers = Numbers()
    sides = [numbered(texts, numbers) for texts in (references, hypotheses)]
    return count_edits(sides[0], sides[1], max_cells), np.diff(sides[0][1])


def _by_char(references: Sequence[str], hypotheses: Sequence[str], max_cells: int) -> tuple[Ints, Ints]:
    """The edits of pairs of texts in characters, without spaces at the ends, which NeMo counts as tokens, though."""
    edits = count_edits(encoded([t.strip() for t in references]), encoded([t.strip() for t in hypotheses]), max_cells)
    return edits, np.array([len(text) for text in references], np.int64)


def _columns(kind: str, edits: Ints, tokens: Ints, rows: Ints, size: int) -> dict[str, pa.Array]:
    subs, dels, ins = edits.T
    found = dict(zip((kind, *(f"{kind}_{part}" for part in _PARTS)), (subs + dels + ins, ins, dels, subs), strict=True))
    columns = {name: _spread(count / np.maximum(tokens, 1), rows, size) for name, count in found.items()}
    return columns | {f"{kind}_tokens": _spread(tokens, rows, size)}


def _spread(numbers: npt.NDArray[Any], rows: Ints, size: int) -> pa.Array:
    """An array with numbers in some of its rows, and null in the others."""
    whole, absent = np.zeros(size, numbers.dtype), np.ones(size, bool)
    whole[rows], absent[rows] = numbers, False
    return pa.array(whole, mask=absent)


def speech_rates(texts: list[str | None], durations: list[float | None]) -> dict[str, pa.Array]:
    """The characters and words of texts per second."""
    spoken = [text or "" for text in texts]
    seconds = [None if text is None else s for text, s in zip(texts, durations, strict=True)]
    chars, words = ([len(text.replace(" ", "")) for text in spoken], [len(text.split()) for text in spoken])
    return {"char_rate": _per_s(chars, seconds), "word_rate": _per_s(words, seconds)}


def _per_s(counts: list[int], seconds: list[float | None]) -> pa.Array:
    rates = [
        None if s is None or math.isnan(s) else count / s if s > 0 else 0.0
        for count, s in zip(counts, seconds, strict=True)
    ]
    return pa.array(rates, pa.float64())


def texts_of(table: pa.Table, field: str) -> list[str | None]:
    """The texts of a column; a column that does not hold text is refused."""
    found = values(table, field)
    text_array(pa.nulls(0, table.schema.field(field).type), field)
    return found


def durations_of(table: pa.Table, field: str) -> list[float | None]:
    """The numbers of a column; a column that does not hold numbers is refused."""
    found = values(table, field)
    kind = table.schema.field(field).type
    if not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind)):
        raise DataError(f"column {field!r} holds {kind}, not numbers; name the column of durations in seconds")
    return found
