import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pytest

from dcurate import (
    CompositeStage,
    DocumentBatch,
    ExactDuplicates,
    InlineExecutor,
    Pipeline,
    PipelineError,
    ProcessingStage,
    Resources,
    processing_stage,
)
from dcurate.core.fingerprint import fingerprint
from dcurate.text import AddId

FRAME = pd.DataFrame({"text": ["one", "two"]})


@dataclass
class Keep(ProcessingStage[DocumentBatch, DocumentBatch]):
    letter: str = "a"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task


class Both(CompositeStage[DocumentBatch, DocumentBatch]):
    def decompose(self) -> list[ProcessingStage[Any, Any]]:
        return [Keep().with_(name="one"), Keep("b").with_(name="two")]


def test_a_stage_without_a_name_is_called_after_its_class() -> None:
    assert Keep.name == "keep"


def test_with_changes_a_copy_and_leaves_the_stage() -> None:
    stage = Keep("z")
    changed = stage.with_(name="n", resources=Resources(gpus=1), batch_size=4, num_workers=3)
    assert (changed.name, changed.resources.gpus, changed.batch_size, changed.num_workers()) == ("n", 1, 4, 3)
    assert (stage.name, stage.resources.gpus, stage.batch_size, stage.num_workers()) == ("keep", 0, 1, None)
    assert changed.with_(num_workers=None).num_workers() is None


@pytest.mark.parametrize("settings", [{"batch_size": 0}, {"num_workers": 0}])
def test_with_refuses_less_than_one(settings: dict) -> None:
    with pytest.raises(PipelineError, match="stage 'keep': .*=0 must be at least 1"):
        Keep().with_(**settings)


def test_equal_settings_make_equal_stages() -> None:
    assert Keep("x") == Keep("x") != Keep("y")


def test_a_composite_gives_its_inner_stages_their_settings() -> None:
    one, two = Both().with_({"two": {"batch_size": 7}}).decompose_and_apply_with()
    assert (one.batch_size, two.batch_size) == (1, 7)


def test_a_composite_refuses_settings_for_a_stage_it_has_not() -> None:
    with pytest.raises(PipelineError, match="composite 'both' has no inner stage 'tow'; did you mean 'two'?"):
        Both().with_({"tow": {}}).decompose_and_apply_with()


def test_a_composite_refuses_settings_of_its_own() -> None:
    with pytest.raises(PipelineError, match="stage 'both' is a composite; name the inner stage"):
        Both().with_(batch_size=2)


def test_a_barrier_refuses_to_process_one_batch() -> None:
    barrier = ExactDuplicates()
    assert not isinstance(barrier, ProcessingStage)
    with pytest.raises(PipelineError, match="stage 'exact_duplicates' needs every row .*; run it in a pipeline"):
        barrier.process(DocumentBatch())  # type: ignore[attr-defined]
    assert not hasattr(barrier, "process")


def test_a_function_becomes_a_stage_and_stays_callable() -> None:
    @processing_stage(name="upper", resources={"cpus": 2}, batch_size=3)
    def upper(batch: DocumentBatch) -> DocumentBatch:
        return batch

    batch = DocumentBatch()
    assert (upper.name, upper.resources, upper.batch_size) == ("upper", Resources(cpus=2), 3)
    assert upper(batch) is batch
    assert upper.process_batch([batch, batch]) == [batch, batch]


def test_a_class_with_the_earlier_name_of_cheap_setup_is_accepted() -> None:
    with pytest.warns(DeprecationWarning, match="Heavy.light is now cheap_setup"):

        class Heavy(ProcessingStage[DocumentBatch, DocumentBatch]):
            @property
            def light(self) -> bool:
                return False

            def process(self, task: DocumentBatch) -> DocumentBatch:
                return task

    assert Heavy().cheap_setup is False


def keep(batch: DocumentBatch) -> DocumentBatch:
    return batch


def test_a_function_becomes_a_stage_with_and_without_parentheses() -> None:
    for stage in (processing_stage(keep), processing_stage()(keep), processing_stage(name="keep")(keep)):
        assert (stage.name, stage.resources.cpus, stage.batch_size) == ("keep", 1, 1)
    assert processing_stage(outputs=["a"])(keep).outputs()[1] == ["a"]


ANY: Any = processing_stage


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ANY(Keep), "is for a function of a batch, and this is <class"),
        (lambda: ANY("score"), "is for a function of a batch, and this is 'score'; write @processing"),
        (lambda: ANY(name=3), "processing_stage: name=3 must be text"),
        (lambda: processing_stage(outputs="good"), "processing_stage: outputs='good' must be a list of column names"),
    ],
)
def test_what_cannot_be_a_function_stage_is_refused_where_it_is_made(make: Any, said: str) -> None:
    with pytest.raises(PipelineError) as raised:
        make()
    assert said in str(raised.value)


def test_a_function_that_returns_nothing_is_refused_where_it_is_made() -> None:
    with pytest.raises(PipelineError, match="stage 'own': the function returns nothing; end it with 'return'"):

        @processing_stage
        def own(batch: DocumentBatch) -> None:
            def inner() -> int:
                return 1

            batch.to_pandas().assign(n=inner())


def test_a_function_that_may_return_nothing_is_a_stage() -> None:
    @processing_stage
    def drop(batch: DocumentBatch) -> None:
        return None

    @processing_stage
    def some(batch: DocumentBatch) -> DocumentBatch | None:
        if batch.num_items:
            return batch
        return None

    @processing_stage
    def fail(batch: DocumentBatch) -> None:
        raise ValueError("no")

    assert [stage.name for stage in (drop, some, fail, ANY(lambda batch: batch))][:3] == [
        "drop",
        "some",
        "fail",
    ]


def test_outputs_are_not_part_of_what_a_resumed_run_compares() -> None:
    assert fingerprint([processing_stage(keep)]) == fingerprint([processing_stage(outputs=["a"])(keep)])


def test_overwrite_is_a_setting_of_every_stage() -> None:
    stage = Keep("z")
    assert (stage.overwrite, stage.with_(overwrite=True).overwrite) == (False, True)
    assert fingerprint([stage]) != fingerprint([stage.with_(overwrite=True)])
    with pytest.raises(PipelineError, match="stage 'keep': overwrite='yes' must be True or False"):
        stage.with_(overwrite="yes")  # type: ignore[arg-type]


def test_a_stage_that_returned_no_rows_at_all_is_named() -> None:
    @processing_stage
    def shorten(batch: DocumentBatch) -> DocumentBatch | None:
        if batch.num_items > 100:
            return batch
        return None

    run = Pipeline("p", stages=[shorten]).run(InlineExecutor(), initial_tasks=FRAME, observers=[])
    assert run.report.notices == (
        "stage 'shorten' returned None or no rows for each batch, and so dropped all rows (2); if it should keep some, "
        "see whether a 'return' is missing",
    )
    kept = Pipeline("p", stages=[AddId("id")]).run(InlineExecutor(), initial_tasks=FRAME, observers=[])
    assert kept.report.notices == ()


def returning(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(function)
    def wrapper(batch: Any) -> Any:
        function(batch)
        return batch

    return wrapper


def test_a_function_whose_decorator_returns_or_whose_branches_raise_is_a_stage() -> None:
    @processing_stage
    @returning
    def changes(batch: DocumentBatch) -> None:
        batch.found = {"seen": 1}

    @processing_stage
    def refuses(batch: DocumentBatch) -> Any:
        if batch.num_items:
            raise ValueError("rows")
        raise KeyError("no rows")

    assert (changes.name, refuses.name) == ("changes", "refuses")
