"""Readers, writers and stages that are given the most likely wrong thing say so where they are made."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dcurate
from dcurate import (
    DataError,
    DcurateError,
    DocumentBatch,
    ExactDuplicates,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    ParquetWriter,
    Pipeline,
    PipelineError,
    ProcessingStage,
)
from dcurate.core.part import Part
from dcurate.core.public import find_public, homes
from dcurate.core.stage import Stage
from dcurate.text import C4BadWordsFilter, LanguageFilter, UnicodeReformatter, WordCountFilter

FRAME = pd.DataFrame({"text": ["one", "two"]})
ROWS = {
    "pandas": FRAME,
    "Arrow": pa.table({"text": ["one"]}),
    "Polars": pl.DataFrame({"text": ["one"]}),
    "Dask": dd.from_pandas(FRAME, npartitions=1),
    "a batch": DocumentBatch(data=FRAME),
    "a series": FRAME.text,
    "a list of frames": [FRAME],
}
#: Values that no first argument of text takes.
OTHERS = {"a number": 3, "a dict": {"text": "one"}, "a filter": WordCountFilter(), "bytes": b"one", "a function": len}
#: Stages whose first argument may be one of these, or is a switch.
TAKES = {
    "Filter": {"a function"},
    "Modify": {"a function"},
    "Score": {"a function", "a filter"},
    "ScoreFilter": {"a filter"},
    "Annotate": {"a filter"},
    "ImportanceWeights": set(),
    "SampleFraction": set(),
    "SampleRows": {"a number"},
    "SampleStrata": {"a number"},
    "Rebatch": {"a number"},
    "AddColumns": {"a dict"},
    "CheckSchema": {"a dict"},
    "SubstringDuplicates": {"a number"},
    "Blend": {"a number"},
    "AudioDecontaminate": {"a dict"},
    "ImageDecontaminate": {"a dict"},
    "ImageNearDuplicates": {"a number"},
    "Shuffle": {"a number"},
    "FindSpeech": {"a number"},
    "FixedStrideClips": {"a number"},
    "MakePreviews": {"a number"},
    "Dnsmos": {"a number"},
}


def kinds(base: type) -> dict[str, tuple[Any, str]]:
    """Every public class made of another one, with its first argument."""
    found = {}
    for name in sorted(homes()):
        kind = find_public(name)
        if inspect.isclass(kind) and issubclass(kind, base) and not inspect.isabstract(kind):
            arguments = list(inspect.signature(kind).parameters.values())
            if arguments:
                found[name] = (kind, arguments[0].name)
    return found


KINDS = kinds(Stage)
#: Filters, modifiers and other parts of stages.
PARTS = {name: found for name, found in kinds(Part).items() if name not in KINDS and found[1] not in ("args", "kwargs")}


def sentence_of(kind: Any, argument: str, value: Any) -> str:
    """What making an object with one wrong argument says; the others are missing where there must be more."""
    with pytest.raises((DcurateError, TypeError)) as raised:
        kind(**{argument: value})
    sentence = str(raised.value)
    if isinstance(raised.value, TypeError):  # Python's own, of an argument that is missing
        assert "missing" in sentence, sentence
    assert "\n" not in sentence
    assert len(sentence) < 320
    return sentence


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("what", ROWS)
def test_rows_where_a_setting_is_wanted_are_refused_with_where_they_go(name: str, what: str) -> None:
    kind, argument = KINDS[name]
    sentence = sentence_of(kind, argument, ROWS[what])
    assert sentence.startswith(f"{name}: {argument}= is ")
    assert sentence.endswith("give them to the run: pipeline.run(initial_tasks=frame)")


@pytest.mark.parametrize("name", [name for name, (_, argument) in KINDS.items() if not argument.startswith("drop_")])
@pytest.mark.parametrize("what", OTHERS)
def test_a_first_argument_of_another_kind_is_refused_where_it_is_given(name: str, what: str) -> None:
    kind, argument = KINDS[name]
    if what not in TAKES.get(name, ()):
        sentence_of(kind, argument, OTHERS[what])


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("value", [*ROWS.values(), *OTHERS.values(), 0.5, -1, [3], [None], object()], ids=type)
def test_a_filter_or_modifier_takes_its_first_argument_or_refuses_it_in_a_sentence(name: str, value: Any) -> None:
    kind, argument = PARTS[name]
    said = ""
    try:
        kind(**{argument: value})
    except DcurateError as error:
        said = str(error)
    except TypeError as error:
        if "missing" not in str(error):  # Python's own, of another argument
            raise
    assert "\n" not in said


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (C4BadWordsFilter, "words=int 3 is not a list of texts; give a list of words, or the path of a file of them"),
        (LanguageFilter, "languages=int 3 is not a list of texts; give codes such as 'en' or ['en', 'ceb']"),
        (UnicodeReformatter, "config=int 3 is not a TextFixerConfig of ftfy; give the settings as arguments"),
    ],
)
def test_a_number_where_texts_or_settings_are_wanted_is_refused(kind: Any, sentence: str) -> None:
    with pytest.raises(PipelineError, match=f"^{kind.__name__}: {re.escape(sentence)}"):
        kind(3)


@pytest.mark.parametrize("name", KINDS)
def test_every_name_of_a_column_must_be_text(name: str) -> None:
    kind, _ = KINDS[name]
    for argument in inspect.signature(kind).parameters.values():
        if argument.name.endswith("_field") and not argument.name.startswith(("drop_", "keep_", "add_")):
            for value in (3, len, WordCountFilter()):
                assert f"{argument.name}=" in sentence_of(kind, argument.name, value)


@pytest.mark.parametrize("name", [name for name, (_, argument) in KINDS.items() if argument in ("path", "file_paths")])
@pytest.mark.parametrize("value", [None, 3, [3], [{"text": "one"}], {"path": "out"}, b"out"], ids=str)
def test_a_path_must_be_text(name: str, value: Any) -> None:
    kind, argument = KINDS[name]
    sentence_of(kind, argument, value)


class Table(ProcessingStage[DocumentBatch, DocumentBatch]):
    """A stage of a user that looks rows up in a frame."""

    def __init__(self, rows: Any, count_field: int) -> None:
        self.table, self.count_field = rows, count_field

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task


def test_a_stage_of_a_user_takes_what_it_wants() -> None:
    assert Table(FRAME, count_field=3).count_field == 3


def test_an_index_into_a_batch_says_how_to_look_at_its_rows() -> None:
    batch = DocumentBatch(data=FRAME)
    with pytest.raises(DataError, match=r"take columns of its rows: batch.to_pandas\(\)\['text'\], or to_arrow\(\)"):
        batch["text"]
    with pytest.raises(DataError, match="a batch has no items"):
        list(batch)  # type: ignore[call-overload]


def test_no_stages_on_a_frame_are_refused() -> None:
    with pytest.raises(PipelineError, match=r"apply\(\) is given no stages; give at least one"):
        dcurate.apply([], ROWS["Dask"])


def test_rows_in_place_of_an_executor_say_where_they_go() -> None:
    for value in (FRAME, ROWS["Arrow"], [DocumentBatch(data=FRAME)]):
        with pytest.raises(PipelineError, match="is not an executor; .* and rows as initial_tasks=frame"):
            Pipeline("p", stages=[JsonlReader("a.jsonl")]).run(value)  # type: ignore[arg-type]


def test_paths_may_come_from_a_generator(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_text(f'{{"text": "{name}"}}\n')
    reader = JsonlReader(str(path) for path in sorted(tmp_path.iterdir()))  # type: ignore[arg-type]
    assert reader.columns() == ["text"]
    made = Pipeline("p", stages=[reader]).run(InlineExecutor(), observers=[])
    assert made.to_arrow()["text"].to_pylist() == ["a", "b"]


@pytest.mark.parametrize("rejected", [True, "", 3, ["a"]])
def test_a_folder_for_rejected_rows_must_be_a_path(rejected: Any) -> None:
    with pytest.raises(PipelineError, match="^rejected=.* is not a folder; give the path of one"):
        Pipeline("p", stages=[JsonlReader("a.jsonl")]).run(InlineExecutor(), rejected=rejected, observers=[])


def test_a_setting_of_with_that_is_misspelt_is_named_with_the_right_one() -> None:
    with pytest.raises(PipelineError, match="with_ has no setting 'num_worker'; did you mean 'num_workers'"):
        ExactDuplicates().with_(num_worker=3)


def test_a_writer_without_a_folder_is_refused() -> None:
    for writer in (JsonlWriter, ParquetWriter):
        with pytest.raises(PipelineError, match="path='' is not a folder; name one"):
            writer("")
