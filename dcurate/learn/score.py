"""Score texts by a student: all heads in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dcurate.core.stage import NodeInfo, ProcessingStage, Spec, WorkerMetadata
from dcurate.errors import PipelineError, listed
from dcurate.frames.columns import table_of, values, with_column, with_text, with_values
from dcurate.frames.document import DocumentBatch
from dcurate.learn.columns import ColumnStudent, loaded
from dcurate.learn.head import Answering, StudentHead
from dcurate.learn.student import Student, stamp_of
from dcurate.text.filter import Mask, Scores, SignalFilter
from dcurate.text.signals import Signals

#: Attributes made by `setup`, which are not pickled.
_OF_SLOT = ("_student",)


@dataclass(kw_only=True)
class ScoreLabels(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Add the answers of a student's heads, all in one pass over the text; runs on CPUs.

    Each head adds a column of its name with the class, flag or number, and one with its score: the probability of the
    positive class, else of the likeliest class, calibrated if the student is; of a number the number itself. A text
    without words, or a row without all features, has null and 0. Use the scores in `refilter` and in mixtures; to drop
    texts in the pass of other filters, use `LabelScoreFilter`.

    Args:
        model: the folder that `Learn` wrote; it must be there on every host.
        heads: names of the heads.
        prefix: comes before the name of every new column.
        text_field: the column that is scored.
        feature_fields: for a student of columns, these instead, in the order in which it was trained on them.
        group_field: the column by which thresholds were chosen, if they were.
        overwrite: replace columns of these names instead of refusing.
        name: name of the stage.

    Raises:
        PipelineError: no ``model``, a head that it does not have, or a column that is there already.
        DataError: the model is missing or damaged.

    Examples:
        >>> ScoreLabels(model="model", heads=["quality"], prefix="student_").outputs()
        (['data'], ['student_quality', 'student_quality_score'])
    """

    paths: ClassVar[tuple[str, ...]] = ("model",)

    model: str
    heads: Sequence[str] = ("label",)
    prefix: str = ""
    text_field: str = "text"
    feature_fields: Sequence[str] = ()
    group_field: str | None = None
    overwrite: bool = False
    name: str = "score_labels"

    def __post_init__(self) -> None:
        if not self.model:
            raise PipelineError(f"stage {self.name!r}: no model; give the folder that Learn wrote")
        if isinstance(self.heads, str) or not self.heads:
            raise PipelineError(f"stage {self.name!r}: heads={self.heads!r} must be a list of names")
        if isinstance(self.feature_fields, str):
            raise PipelineError(
                f"stage {self.name!r}: feature_fields={self.feature_fields!r} must be a list of columns"
            )
        columns = self.outputs()[1]
        shared = sorted({column for column in columns if columns.count(column) > 1})
        if shared:
            raise PipelineError(f"stage {self.name!r}: heads={list(self.heads)!r} would add {listed(shared)} twice")

    def inputs(self) -> Spec:
        return ["data"], [*self._read, *([self.group_field] if self.group_field else [])]

    @property
    def _read(self) -> list[str]:
        return list(self.feature_fields) or [self.text_field]

    def outputs(self) -> Spec:
        return ["data"], [f"{self.prefix}{head}{suffix}" for head in self.heads for suffix in ("", "_score")]

    def settings(self) -> dict[str, Any]:
        return {name: value for name, value in super().settings().items() if name not in _OF_SLOT}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in _OF_SLOT}

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        self._checked()

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        self._student = self._checked()

    def _checked(self) -> Answering:
        student = loaded(str(self.model), stamp_of(self.model))
        fields = student.fields if isinstance(student, ColumnStudent) else ()
        if len(fields) != len(self.feature_fields):
            wanted = f"columns; give feature_fields={list(fields)}" if fields else "texts; leave out feature_fields"
            raise PipelineError(f"stage {self.name!r}: the model in {self.model!r} reads {wanted}")
        for head in self.heads:
            student.head(head)
        return student

    def process(self, task: DocumentBatch) -> DocumentBatch:
        self.check_columns(task.get_columns())
        table, student = task.to_arrow(), self._student
        outputs = student.answers_of(table, self._read)
        groups = None
        if self.group_field is not None:
            groups = [None if group is None else str(group) for group in values(table, self.group_field)]
        for name in self.heads:
            head, answers = student.head(name), outputs[:, student.outputs_of(name)]
            table = _with_answers(table, self.prefix + name, head, head.answers(answers, groups))
            scores = np.nan_to_num(head.calibrated(head.scores(answers)))
            table = with_column(table, f"{self.prefix}{name}_score", scores)
        return task.with_data(table)


def _with_answers(table: Any, name: str, head: StudentHead, answers: list[Any]) -> Any:
    if head.kind == "classes":
        return with_text(table, name, answers)
    return with_values(table, name, table_of({name: answers}), name)


@dataclass(frozen=True)
class LabelScoreFilter(SignalFilter):
    """Keep texts that a student scores high enough.

    Filters of one model share one pass over the text, and so do other filters with them.

    Args:
        model: the folder that `Learn` wrote; it must be there on every host.
        head: name of the head.
        label: the class whose probability is the score; by default the positive class, or the number of a regression.
        min_label_score: the lowest score that is kept; by default the threshold of the model for all groups.

    Raises:
        PipelineError: no ``model``, or no such head or class.
        DataError: the model is missing or damaged.

    Examples:
        >>> LabelScoreFilter("model", min_label_score=0.8).keep_document(0.9)
        True
    """

    paths = ("model",)
    model: str = ""
    head: str = "label"
    label: str | None = None
    min_label_score: float | None = None
    _name = "label_score"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.model:
            raise PipelineError(f"{type(self).__name__}: no model; give the folder that Learn wrote")

    def model_check_or_download(self) -> None:
        self._loaded()

    def load_model(self) -> None:
        self._loaded()

    def _loaded(self) -> Student:
        student = loaded(str(self.model), stamp_of(self.model))
        if not isinstance(student, Student):
            raise PipelineError(
                f"{self.name}: the model in {self.model!r} reads columns; use ScoreLabels with feature_fields, and a "
                "filter of its score"
            )
        return student

    def score(self, signals: Signals) -> Scores:
        student = self._loaded()
        head = student.head(self.head)
        answers = signals.of(student.score)[:, student.outputs_of(self.head)]
        if self.label is None:
            return np.nan_to_num(head.scores(answers))
        if self.label not in head.labels:
            raise PipelineError(
                f"{self.name}: head {head.name!r} has no class {self.label!r}; "
                f"it has {listed(head.labels) or 'numbers'}"
            )
        return np.nan_to_num(answers[:, head.labels.index(self.label)].astype(np.float64))

    def keep(self, scores: Scores) -> Mask:
        limit = self.min_label_score
        if limit is None:
            limit = self._loaded().head(self.head).thresholds.get("", 0.5)
        return np.asarray(scores >= limit)
