"""Which rows of interleaved documents go, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dcurate.core.batch import Rejection, Scored
from dcurate.frames.document import DocumentBatch
from dcurate.isolate.errors import MediaFault
from dcurate.media.interleaved.materialise import Ints
from dcurate.media.interleaved.schema import IMAGE, METADATA, TEXT, check

Mask = npt.NDArray[np.bool_]

#: Reasons for rows that go for the sake of others.
INVALID, ORPHAN = "invalid row", "no content left"


class Verdicts:
    """Which rows of a batch go, and why; what is left is made whole.

    Args:
        batch: interleaved rows.
        stage: the name of the stage.
    """

    def __init__(self, batch: DocumentBatch, stage: str) -> None:
        self.batch, self.stage = batch, stage
        self.table = batch.to_arrow()
        check(self.table.column_names)
        self.modality = self.table["modality"].to_numpy(zero_copy_only=False)
        self.position = self.table["position"].to_numpy(zero_copy_only=False)
        self.sample = pc.dictionary_encode(self.table["sample_id"].combine_chunks()).indices.to_numpy()
        self._faults: dict[int, MediaFault] = {}
        self._why = np.full(self.table.num_rows, "", object)

    def rows(self, modality: str) -> Ints:
        """The numbers of the rows of a modality."""
        return np.flatnonzero(self.modality == modality)

    def texts(self) -> list[tuple[int, str | None]]:
        """The texts of the text rows, each with the number of its sample."""
        rows = self.rows(TEXT)
        texts = self.table["text_content"].take(pa.array(rows)).to_pylist() if len(rows) else []
        return list(zip(self.sample[rows].tolist(), texts, strict=True))

    @property
    def kept(self) -> Mask:
        """Which rows do not go."""
        return np.asarray(self._why == "")

    def drop(self, rows: Ints, reason: str) -> None:
        """Drop rows, unless they go for another reason."""
        self._why[rows[self._why[rows] == ""]] = reason

    def fail(self, row: int, fault: MediaFault) -> None:
        """Send a row to quarantine."""
        if not self._why[row]:
            self._why[row] = fault.reason
            self._faults[row] = fault

    def drop_invalid(self) -> None:
        """Drop rows of an unknown modality, and those whose position does not go with theirs."""
        is_before = self.modality == METADATA
        known = np.isin(self.modality, (TEXT, IMAGE, METADATA))
        self.drop(
            np.flatnonzero(~known | (is_before & (self.position != -1)) | (~is_before & (self.position < 0))), INVALID
        )

    def result(self, added: Mapping[str, pa.Array] | None = None) -> DocumentBatch:
        """Return the rows that are left, with their positions counted from 0 in each sample.

        Metadata of samples without other rows goes as well.

        Args:
            added: columns to add to all rows.
        """
        kept = self.kept
        content = kept & (self.modality != METADATA)
        full = np.zeros(int(self.sample.max(initial=-1)) + 1, np.bool_)
        full[self.sample[content]] = True
        self.drop(np.flatnonzero(kept & ~content & ~full[self.sample]), ORPHAN)
        table = self.table
        for name, column in (added or {}).items():
            place = table.schema.get_field_index(name)
            table = table.append_column(name, column) if place < 0 else table.set_column(place, name, column)
        rejections = tuple(self._rejections(table))
        kept = self.kept
        numbered = self._numbered(kept & (self.modality != METADATA))
        if not np.array_equal(numbered, self.position):
            field = table.schema.field("position")
            column = pa.array(numbered).cast(field.type)
            table = table.set_column(table.schema.get_field_index("position"), field, column)
        table = table if kept.all() else table.filter(pa.array(kept))
        return replace(self.batch.with_data(table), rejections=rejections)

    def scored(self, scores: Mapping[int, float], reason: str, score_field: str | None) -> DocumentBatch:
        """Return the rows that are left, with their scores.

        Args:
            scores: score of each row that has one, by its number.
            reason: name of the score, under which the report counts it.
            score_field: column for the scores, null for rows without; None for no column.
        """
        added = {}
        if score_field is not None:
            added[score_field] = pa.array([scores.get(row) for row in range(self.table.num_rows)], pa.float64())
        result = self.result(added)
        return replace(result, scored=(Scored(self.stage, reason, list(scores.values())),) if scores else ())

    def _numbered(self, content: Mask) -> Ints:
        rows = np.flatnonzero(content)
        order = rows[np.lexsort((rows, self.position[rows], self.sample[rows]))]
        samples = self.sample[order]
        starts = np.flatnonzero(np.r_[True, samples[1:] != samples[:-1]]) if len(order) else np.zeros(0, np.int64)
        numbers = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
        numbered: Ints = self.position.astype(np.int64)
        numbered[order] = numbers
        return numbered

    def _rejections(self, table: pa.Table) -> list[Rejection]:
        rejections = []
        for reason in dict.fromkeys(why for why in self._why if why):
            for fault in (False, True):
                rows = np.flatnonzero(self._why == reason)
                rows = rows[[(row in self._faults) == fault for row in rows.tolist()]]
                if not len(rows):
                    continue
                gone = table.take(pa.array(rows))
                if fault and "materialize_error" in gone.column_names:
                    errors = pa.array([str(self._faults[row].detail or reason) for row in rows.tolist()], pa.string())
                    place = gone.schema.get_field_index("materialize_error")
                    gone = gone.set_column(place, "materialize_error", errors)
                rejections.append(Rejection(self.stage, reason, gone.num_rows, gone.nbytes, gone, fault=fault))
        return rejections
