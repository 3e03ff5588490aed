from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from dcurate import DocumentBatch, FileGroup, PipelineError, ProcessingStage, SinkStage, SourceStage, processing_stage
from dcurate.core.pipeline import AnyStage, PipelineDefinition
from dcurate.core.stage import Spec
from dcurate.text import HtmlExtractor


@dataclass
class Read(SourceStage[FileGroup, DocumentBatch]):
    yields: tuple[str, ...] | None = ("text", "url")
    name: str = "jsonl_reader"

    def splits(self) -> Iterator[FileGroup]:
        yield FileGroup()

    def columns(self) -> list[str] | None:
        return None if self.yields is None else list(self.yields)

    def process(self, task: FileGroup) -> DocumentBatch:
        return DocumentBatch()


@dataclass
class Step(ProcessingStage[DocumentBatch, DocumentBatch]):
    reads: str = "text"
    adds: str = "score"

    def inputs(self) -> Spec:
        return [], [self.reads]

    def outputs(self) -> Spec:
        return [], [self.adds]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task


@dataclass
class Write(SinkStage[DocumentBatch]):
    path: str = "out"

    @property
    def output_path(self) -> str:
        return self.path

    def prepare(self, resume: bool) -> None:
        pass

    def process(self, task: DocumentBatch) -> FileGroup:
        return FileGroup()


def build(*stages: AnyStage) -> tuple[AnyStage, ...]:
    return PipelineDefinition("test", stages=stages).build()


@pytest.mark.parametrize(
    ("stages", "sentence"),
    [
        ([], "pipeline 'test' has no stages; add a reader"),
        (
            [Read(), Step(reads="id")],
            "stage 'step' reads column 'id', but 'jsonl_reader' yields only 'text', 'url'; name the right column",
        ),
        ([Step(), Read()], "stage 'jsonl_reader' reads input, so it must come first, but 'step' comes before it"),
        ([Read(), Write(), Step()], "stage 'write' writes output, so it must come last, but 'step' follows it"),
    ],
)
def test_what_cannot_work_is_refused_when_built(stages: list[ProcessingStage[Any, Any]], sentence: str) -> None:
    with pytest.raises(PipelineError, match="^" + sentence):
        build(*stages)


def test_a_column_that_an_earlier_stage_adds_may_be_read() -> None:
    assert len(build(Read(), Step(adds="id"), Step(reads="id"))) == 3


def test_columns_are_not_checked_where_the_source_does_not_know_them() -> None:
    assert len(build(Read(None), Step(reads="anything"))) == 2


def test_stages_of_one_name_are_numbered() -> None:
    assert [stage.name for stage in build(Read(), Step(), Step(), Step())] == [
        "jsonl_reader",
        "step",
        "step_2",
        "step_3",
    ]


def test_building_changes_nothing() -> None:
    pipeline = PipelineDefinition("test").add_stage(Read()).add_stage(Step()).add_stage(Step())
    before = [stage.name for stage in pipeline.stages]
    assert pipeline.build() == pipeline.build()
    assert [stage.name for stage in pipeline.stages] == before


def test_something_that_is_no_stage_is_refused() -> None:
    with pytest.raises(PipelineError, match="Step is a class; add a stage made of it"):
        PipelineDefinition("test").add_stage(Step)  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="str 'x' is not a stage; a path is read by a stage"):
        PipelineDefinition("test").add_stage("x")  # type: ignore[arg-type]


def test_describe_shows_columns_and_resources() -> None:
    text = PipelineDefinition("test", "a demo", [Read(), Step()]).describe()
    assert text == (
        "Pipeline test: a demo\n"
        "  1. jsonl_reader (Read): 1 CPU\n"
        "     yields text, url\n"
        "  2. step (Step): 1 CPU\n"
        "     reads text\n"
        "     adds score"
    )


FUNCTION: Any = lambda batch: batch  # noqa: E731 - a function of any batch


class Anything(ProcessingStage[DocumentBatch, DocumentBatch]):
    """A stage that says nothing of its columns."""

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task


def test_a_stage_of_a_user_that_names_no_columns_may_add_any() -> None:
    function = processing_stage(FUNCTION)
    for maker in (function, Anything()):
        assert len(build(Read(), maker, Step(reads="good"))) == 3
    assert len(build(Read(), processing_stage(outputs=["good"])(FUNCTION), Step(reads="good"))) == 3


def test_a_column_that_a_stage_does_not_declare_is_not_blamed_on_the_reader() -> None:
    score = processing_stage(name="score", outputs=["other"])(FUNCTION)
    with pytest.raises(PipelineError) as raised:
        build(Read(), score, Step(reads="good"))
    assert str(raised.value) == (
        "stage 'step' reads column 'good', but after 'score' rows have only 'text', 'url', 'other'; name the right "
        "column, or add a stage that makes it, or, if 'score' makes it, declare it there in outputs"
    )


def test_a_column_that_a_stage_drops_is_not_there_after_it() -> None:
    with pytest.raises(PipelineError, match="reads column 'content', but after 'html_extractor' rows have only 'text'"):
        build(Read(("content",)), HtmlExtractor(), Step(reads="content"))


@pytest.mark.parametrize("name", [["a"], Read(), None, 3])
def test_a_pipeline_whose_name_is_forgotten_says_so(name: Any) -> None:
    with pytest.raises(PipelineError, match=r"the first argument of a pipeline is its name, .* write Pipeline\('name'"):
        PipelineDefinition(name)


def test_a_pipeline_without_a_name_is_refused_with_what_to_write() -> None:
    with pytest.raises(PipelineError, match=r"^a pipeline needs a name: write Pipeline\('name', stages=\[\.\.\.\]\)$"):
        PipelineDefinition(stages=[])
