"""What checks a stage finds each way in which one can break what the engine relies on, and nothing in good stages."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from dcurate import (
    CompositeStage,
    DaskExecutor,
    DocumentBatch,
    ExactDuplicates,
    JsonlReader,
    JsonlWriter,
    LocalCluster,
    Modify,
    PipelineError,
    ProcessingStage,
    ScoreFilter,
    processing_stage,
)
from dcurate.testing import LAWS, check_stage, run_stage
from dcurate.text import AddId, NewlineNormalizer, PiiModifier, WordCountFilter

pytestmark = pytest.mark.cluster

BATCH = DocumentBatch(data=pa.table({"text": ["one two", "three", "four five six"], "n": [1, 2, 3]}))
NEAR = [law for law in LAWS if law != "cluster"]
Rows = ProcessingStage[DocumentBatch, DocumentBatch]
COUNTER = itertools.count()


@dataclass
class Count(Rows):
    """Adds the length of each text, as a stage should; each flaw below is one way to do it wrong."""

    def inputs(self) -> tuple[list[str], list[str]]:
        return [], ["text"]

    def outputs(self) -> tuple[list[str], list[str]]:
        return [], ["length"]

    def process(self, task: DocumentBatch) -> DocumentBatch | list[DocumentBatch] | None:
        return task.with_data(self.counted(task.to_pandas()))

    def counted(self, frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(length=frame.text.fillna("").str.len())


@dataclass
class Locked(Count):
    lock: Any = field(default_factory=threading.Lock)


@dataclass
class Forgetful(Count):
    """Has a setting that is another in every process."""

    born: int = -1

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update({**state, "born": next(COUNTER)})


@dataclass
class Numbering(Count):
    def setup(self, worker_metadata: Any = None) -> None:
        self._seen = 0

    def counted(self, frame: pd.DataFrame) -> pd.DataFrame:
        self._seen += 1
        return super().counted(frame).assign(length=self._seen)


@dataclass
class EachSlotAnother(Count):
    def setup(self, worker_metadata: Any = None) -> None:
        self._mine = next(COUNTER)

    def counted(self, frame: pd.DataFrame) -> pd.DataFrame:
        return super().counted(frame).assign(length=self._mine)


@dataclass
class InPlace(Count):
    def process(self, task: DocumentBatch) -> DocumentBatch:
        frame = task.data if isinstance(task.data, pd.DataFrame) else task.to_pandas()
        frame["length"] = frame["text"].str.len()
        return task.with_data(frame)


@dataclass
class ReadsMore(Count):
    def counted(self, frame: pd.DataFrame) -> pd.DataFrame:
        return super().counted(frame[frame.n > 0])


@dataclass
class AddsMore(Count):
    def counted(self, frame: pd.DataFrame) -> pd.DataFrame:
        return super().counted(frame).assign(unsaid=1)


@dataclass
class AddsLess(Count):
    def counted(self, frame: pd.DataFrame) -> pd.DataFrame:
        return frame


@dataclass
class NeedsRows(Count):
    def counted(self, frame: pd.DataFrame) -> pd.DataFrame:
        return super().counted(frame).assign(length=max(map(len, frame.text.fillna(""))))


@dataclass
class NeedsTexts(Count):
    def counted(self, frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(length=[len(text) for text in frame.text])


@dataclass
class PandasOnly(Count):
    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task.with_data(self.counted(task.data.copy()))


@dataclass
class MixesBatches(Count):
    def process_batch(self, tasks: list[DocumentBatch]) -> list[Any]:
        return [self.process(task) for task in reversed(tasks)]


@dataclass
class ByHash(Count):
    def counted(self, frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(length=[hash(f"{text}") for text in frame.text])


@dataclass
class Both(CompositeStage[DocumentBatch, DocumentBatch]):
    def decompose(self) -> list[ProcessingStage[Any, Any]]:
        return [Count(), AddId("id")]


FLAWS = [
    (Locked, "travels", "attribute 'lock' (lock) cannot be pickled"),
    (Forgetful, "travels", "its settings are others after pickling"),
    (Numbering, "repeats", "the same batch twice gives other rows: row 0"),
    (EachSlotAnother, "repeats", "another slot gives other rows"),
    (InPlace, "keeps_input", "it changes the batch that it was given"),
    (ReadsMore, "columns", "name every column that it needs in inputs"),
    (AddsMore, "columns", "adds ['unsaid'], which outputs() does not name"),
    (AddsLess, "columns", "outputs() names ['length'], but"),
    (NeedsRows, "no_rows", "give back a batch without rows, or None"),
    (NeedsTexts, "nulls", "a value of column 'text' may be missing"),
    (PandasOnly, "frames", "take rows with to_pandas() or to_arrow()"),
    (MixesBatches, "together", "two batches in one call give other rows than each alone"),
]


def others_than(*laws: str) -> list[str]:
    return [law for law in LAWS if law not in laws]


@pytest.mark.parametrize(("flawed", "law", "sentence"), FLAWS, ids=lambda value: getattr(value, "__name__", None))
def test_a_flaw_breaks_its_law_and_the_message_names_stage_and_fix(
    flawed: type[Count], law: str, sentence: str
) -> None:
    with pytest.raises(AssertionError) as caught:
        check_stage(flawed(), BATCH, skip=others_than(law))
    assert f"stage {flawed().name!r}" in str(caught.value)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    "stage",
    [
        Count(),
        ScoreFilter(WordCountFilter(min_words=2), score_field="words"),
        Modify(NewlineNormalizer()),
        Modify(PiiModifier()),
        AddId("id"),
        processing_stage(name="same")(lambda task: task),  # type: ignore[type-var]
    ],
    ids=lambda stage: stage.name,
)
def test_good_stages_pass(stage: Rows) -> None:
    check_stage(stage, BATCH, skip=["cluster"])


def test_worker_processes_make_the_same_rows_or_the_check_says_so() -> None:
    with LocalCluster(n_workers=2) as cluster:
        executor = DaskExecutor(cluster=cluster)
        check_stage(Count(), BATCH, executor=executor, skip=NEAR)
        with pytest.raises(AssertionError, match="worker processes make other rows than this one: row 0"):
            check_stage(ByHash(), BATCH, executor=executor, skip=NEAR)


def test_a_batch_that_was_checked_is_as_it_was() -> None:
    batch = DocumentBatch(data=BATCH.to_pandas())
    check_stage(Count(), batch, skip=["cluster"])
    assert batch.key is None
    assert batch.get_columns() == ["text", "n"]


@pytest.mark.parametrize(
    ("stage", "batch", "sentence"),
    [
        (JsonlReader("x"), BATCH, "test it in a pipeline"),
        (JsonlWriter("x"), BATCH, "test it in a pipeline"),
        (ExactDuplicates(), BATCH, "test it in a pipeline"),
        (Both(), BATCH, "is a composite"),
        (Count(), BATCH.rows(0, 1), "needs two rows or more, and the batch has 1"),
        (Count(), BATCH.with_data(pa.table({"n": [1, 2]})), "reads ['text'], which the batch does not have"),
    ],
)
def test_what_cannot_be_checked_is_refused(stage: Any, batch: DocumentBatch, sentence: str) -> None:
    with pytest.raises(PipelineError) as caught:
        check_stage(stage, batch)
    assert sentence in str(caught.value)


def test_a_law_that_there_is_not_is_refused_with_the_nearest() -> None:
    with pytest.raises(PipelineError, match="no law 'repeat'; did you mean 'repeats'"):
        check_stage(Count(), BATCH, skip=["repeat"])


def test_a_stage_runs_alone_with_its_set_up() -> None:
    [made] = run_stage(Numbering(), BATCH)
    assert made.to_pandas().length.tolist() == [1, 1, 1]
    assert run_stage(ScoreFilter(WordCountFilter(min_words=9)), BATCH)[0].num_items == 0
