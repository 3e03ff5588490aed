"""What a beginner gets wrong: one sentence that says what to write instead."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dcurate import (
    CsvReader,
    DataError,
    DcurateError,
    DocumentBatch,
    DocumentReader,
    Filter,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    Modify,
    ParquetReader,
    ParquetWriter,
    Pipeline,
    PipelineError,
    ProcessingStage,
    ResourceError,
    Resources,
    Score,
    ScoreFilter,
    StageError,
    trace,
)
from dcurate.core.extras import libraries
from dcurate.core.fingerprint import fingerprint
from dcurate.core.part import Part
from dcurate.core.public import find_public, homes
from dcurate.core.stage import Stage
from dcurate.llm import AsyncOpenAIClient, Generate
from dcurate.models import Tokenize
from dcurate.text import (
    AddId,
    DocumentFilter,
    DocumentModifier,
    HtmlExtractor,
    HTMLExtractorAlgorithm,
    JusTextExtractor,
    LanguageFilter,
    LanguageId,
    PiiModifier,
    ResiliparseExtractor,
    SpacyRecognizer,
    TrafilaturaExtractor,
    WordCountFilter,
)
from dcurate.text.presets import fineweb, gopher

FRAME = pd.DataFrame({"text": ["one two three"]})
PAGE = (
    f"<html><body><article><p>{'It was a bright cold day, and the clocks were striking thirteen. ' * 4}</p></article>"
)
KINDS = (DocumentFilter, DocumentModifier, HTMLExtractorAlgorithm, Stage)


def parts() -> list[Any]:
    """An object of every public class that takes no arguments."""
    found = []
    for name in homes():
        kind = find_public(name)
        if inspect.isclass(kind) and issubclass(kind, KINDS) and not inspect.isabstract(kind):
            try:
                found.append(kind())
            except (DcurateError, TypeError):  # it needs an argument
                continue
    return found


@pytest.mark.parametrize("part", parts(), ids=lambda part: type(part).__name__)
def test_whatever_is_used_by_hand_works_or_says_in_one_sentence_what_to_do(part: Any) -> None:
    try:
        if isinstance(part, DocumentFilter):
            part.keep_document(part.score_document("one two three"))
        elif isinstance(part, DocumentModifier):
            part.modify_document("one two three")
        elif isinstance(part, HTMLExtractorAlgorithm):
            part.extract_text(PAGE, frozenset(["it", "was", "a"]), "ENGLISH")
        else:
            part.process(DocumentBatch(data=FRAME))
    except DcurateError as error:
        if "\n" in str(error):
            raise AssertionError("not a sentence") from error


@pytest.mark.parametrize(
    "kind",
    [JusTextExtractor, ResiliparseExtractor, partial(TrafilaturaExtractor, deduplicate=False)],
    ids=["justext", "resiliparse", "trafilatura"],
)
def test_an_extractor_that_was_used_by_hand_is_the_extractor_that_it_was(kind: Any) -> None:
    used, fresh = kind(), kind()
    assert "".join(used.extract_text(PAGE, frozenset(["it", "was", "a", "in", "and", "the", "were"]), "ENGLISH"))
    assert (used, repr(used)) == (fresh, repr(fresh))
    assert fingerprint([HtmlExtractor(used)]) == fingerprint([HtmlExtractor(fresh)])
    for one in (copy.deepcopy(used), pickle.loads(pickle.dumps(used))):
        assert "_library" not in vars(one)


@pytest.mark.parametrize("stage", [HtmlExtractor(), LanguageId()])
def test_a_stage_that_is_not_set_up_says_so(stage: ProcessingStage[Any, Any]) -> None:
    batch = DocumentBatch(data=FRAME.assign(content=PAGE))
    with pytest.raises(
        DcurateError, match=f"stage '{stage.name}' is not set up .* call its setup\\(\\) before process"
    ):
        stage.process(batch)
    stage.setup()
    made: Any = stage.process(batch)
    assert made.num_items == 1
    assert not hasattr(stage, "_other")
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        _ = stage.other  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("kind", "arguments", "said"),
    [
        (WordCountFilter, {"min_word": 3}, "WordCountFilter() takes no argument 'min_word'; did you mean 'min_words'?"),
        (AddId, {"id_fields": "id"}, "AddId() takes no argument 'id_fields'; did you mean 'id_field'?"),
        (CsvReader, {"sep": ";"}, "CsvReader() takes no argument 'sep'; did you mean 'delimiter'?"),
        (JsonlReader, {"columns": ["id"]}, "JsonlReader() takes no argument 'columns'; did you mean 'fields'?"),
        (ParquetReader, {"nrows": 3}, "ParquetReader() takes no argument 'nrows'; did you mean 'limit'?"),
        (PiiModifier, {"lang": "en"}, "PiiModifier() takes no argument 'lang'"),
        (JusTextExtractor, {"length_lo": 3}, "did you mean 'length_low'?"),
    ],
)
def test_an_argument_that_is_misspelt_is_named_with_the_right_one(kind: Any, arguments: Any, said: str) -> None:
    with pytest.raises(TypeError) as raised:
        kind(**arguments)
    assert said in str(raised.value)


def test_a_part_without_arguments_takes_none() -> None:
    class Bare(Part):
        pass

    assert isinstance(Bare(), Bare)
    for arguments, named in (((1,), {}), ((), {"a": 1})):
        with pytest.raises(TypeError, match="takes no arguments"):
            Bare(*arguments, **named)


@pytest.mark.parametrize(
    ("stages", "said"),
    [
        ([WordCountFilter()], "is not a stage; wrap it: ScoreFilter(WordCountFilter(...))"),
        ([WordCountFilter], "WordCountFilter is not a stage; wrap it: ScoreFilter(WordCountFilter(...))"),
        ([PiiModifier()], "is not a stage; wrap it: Modify(PiiModifier(...))"),
        ([JusTextExtractor()], "is not a stage; wrap it: HtmlExtractor(JusTextExtractor(...))"),
        ([fineweb], "fineweb is not a stage; call it (fineweb(...)) if it makes stages"),
        ([fineweb()], "is not a stage; give what it holds: put * before it"),
        ([3], "int 3 is not a stage; subclass ProcessingStage"),
        ([FRAME], "a DataFrame is not a stage; rows are given to the run: pipeline.run(initial_tasks=frame)"),
        (["in.jsonl"], "is not a stage; a path is read by a stage, such as JsonlReader(path)"),
        (AddId("id"), "must be a list; write [...] around it"),
        (WordCountFilter(), "must be a list; write [...] around it"),
    ],
)
def test_what_is_no_stage_is_refused_with_what_makes_one_of_it(stages: Any, said: str) -> None:
    with pytest.raises(PipelineError) as raised:
        Pipeline("p", stages=stages)
    assert said in str(raised.value)
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ScoreFilter(fineweb), "call it if it makes filters: fineweb()"),  # type: ignore[arg-type]
        (lambda: ScoreFilter(PiiModifier()), "wrap it: Modify(PiiModifier(...))"),  # type: ignore[arg-type]
        (lambda: Modify(WordCountFilter()), "wrap it: ScoreFilter(WordCountFilter(...))"),  # type: ignore[arg-type]
    ],
)
def test_a_rule_of_another_stage_is_refused_with_its_stage(make: Any, said: str) -> None:
    with pytest.raises(PipelineError) as raised:
        make()
    assert said in str(raised.value)


@pytest.mark.parametrize("stage", [ScoreFilter(WordCountFilter()), Modify(str.strip), AddId("id"), LanguageId()])
def test_a_stage_that_is_given_a_frame_says_how_to_make_a_batch(stage: Any) -> None:
    with pytest.raises(DataError, match=r"takes a batch, not pandas.DataFrame; make one: DocumentBatch\(data=frame\)"):
        stage.process(FRAME)


def test_a_batch_takes_a_frame_and_a_name_and_nothing_else() -> None:
    for given in (("name", FRAME), ("name",), ([1],), (None,)):
        with pytest.raises(DataError, match=r"cuDF frame.*DocumentBatch\(data=frame, dataset_name='name'\)"):
            DocumentBatch(*given)
    with pytest.raises(DataError, match="dataset_name must be text, not int"):
        DocumentBatch(data=FRAME, dataset_name=3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"name": {"reader": {}}}, "has no inner ones, which a dict would name"),
        ({"name": 3}, "name=3 must be text"),
        ({"resources": 4}, "resources=4 must be Resources, such as Resources(cpus=2)"),
        ({"batch_size": "4"}, "batch_size='4' must be at least 1"),
        ({"num_workers": "4"}, "num_workers='4' must be at least 1"),
    ],
)
def test_with_refuses_a_setting_of_the_wrong_kind(settings: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(PipelineError) as raised:
        JsonlReader(str(tmp_path)).with_(**settings)
    assert said in str(raised.value)
    assert AddId("id").with_(name="other", resources=Resources(cpus=2)).name == "other"


@pytest.mark.parametrize(
    ("name", "reader", "said"),
    [
        ("a.csv", JsonlReader, "not a JSONL file by its ending, .* read it with CsvReader"),
        ("a.tsv", ParquetReader, "not a Parquet file by its ending, .* read it with CsvReader"),
        ("a.csv.gz", JsonlReader, "not a JSONL file by its ending, .* read it with CsvReader"),
        (
            "a.tar.gz",
            JsonlReader,
            "not a JSONL file by its ending, .* with WebDatasetReader or MediaReader",
        ),
        ("a.tgz", JsonlReader, "not a JSONL file by its ending, .* unpack it, .* with WebDatasetReader"),
        ("a.xlsx", JsonlReader, "not a JSONL file by its ending, .* convert it"),
        ("a.parquet", JsonlReader, "not a JSONL file by its ending, .* read it with ParquetReader"),
        ("a.jsonl", ParquetReader, "not a Parquet file by its ending, .* read it with JsonlReader"),
    ],
)
def test_a_file_that_is_named_as_another_format_is_refused_with_what_reads_it(
    name: str, reader: Any, said: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text('{"text": "a"}\n')
    with pytest.raises(DataError, match=f"{name} is {said}"):
        Pipeline("p", stages=[reader(str(tmp_path / name))]).run(InlineExecutor())


def test_a_rule_set_is_a_list_of_filters_that_a_stage_takes() -> None:
    assert ScoreFilter(list(gopher("dclm"))).filters == list(gopher("dclm"))


@pytest.mark.parametrize("names", [("a.parquet", "b.parquet"), ("a.jsonl", "b.parquet")])
def test_a_column_of_mixed_types_can_be_left_out_as_the_error_says(names: tuple[str, str], tmp_path: Path) -> None:
    for name, number in zip(names, (1, "one"), strict=True):
        frame = pd.DataFrame({"text": ["a"], "id": [number]})
        if name.endswith("parquet"):
            frame.to_parquet(tmp_path / name)
        else:
            frame.to_json(tmp_path / name, orient="records", lines=True)
    with pytest.raises(DataError, match="column 'id' is large_string .* leave it out with fields="):
        Pipeline("p", stages=[DocumentReader(str(tmp_path)), AddId("n")]).build()
    read = Pipeline("p", stages=[DocumentReader(str(tmp_path), fields=["text"])]).run(InlineExecutor(), observers=[])
    assert sum(batch.num_items for batch in read) == 2


class NeedsMore(ProcessingStage[DocumentBatch, DocumentBatch]):
    """A stage of a user that needs a library of an extra."""

    def requires(self) -> dict[str, str]:
        return {"no_such_module": "lang"}

    def process(self, task: DocumentBatch) -> DocumentBatch:
        raise AssertionError("it was not refused")


AIOHTTP = {"aiohttp": "llm"}
MISSING = "No module named 'no_such_module'; this needs the 'lang' extra: pip install 'dcurate[lang]'"


def test_a_missing_extra_is_named_before_a_session_begins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(InlineExecutor, "session", lambda self: pytest.fail("a session began"))
    pipeline = Pipeline("p", stages=[NeedsMore(), JsonlWriter(str(tmp_path / "out"))])
    with pytest.raises(ResourceError) as raised:
        pipeline.run(InlineExecutor(), initial_tasks=[DocumentBatch(data=FRAME)], observers=[])
    assert str(raised.value) == f"stage 'needs_more': {MISSING}"


@pytest.mark.parametrize(
    ("stage", "modules"),
    [
        (HtmlExtractor(), {"trafilatura": "html", "lxml": "html"}),
        (HtmlExtractor(ResiliparseExtractor()), {"resiliparse": "html"}),
        (ScoreFilter([WordCountFilter(), WordCountFilter(language="th")]), {"pythainlp": "lang"}),
        (ScoreFilter(LanguageFilter()), {"pycld2": "lang"}),
        (Modify(PiiModifier(recognizer=SpacyRecognizer())), {"spacy": "ner"}),
        (LanguageId(), {"pycld2": "lang"}),
        (Tokenize("bert"), {"transformers": "models"}),
        (
            Generate(client=AsyncOpenAIClient(), model="m", prompt="{text}", output_field="a"),
            {"aiohttp": "llm"},
        ),
        (Score(str.isascii, "ascii"), {}),
    ],
)
def test_a_stage_knows_the_libraries_that_it_needs(stage: Any, modules: dict[str, str]) -> None:
    assert stage.requires() == modules
    assert {library.module: library.extra for library in libraries([stage])} == modules


def any_of(kind: Any) -> Any:
    """Return a class whose arguments are not checked by types."""
    return kind


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (partial(any_of(JsonlReader), "a", limit=2.5), "jsonl_reader: limit=2.5 must be a whole number"),
        (partial(any_of(ParquetReader), "a", limit="5"), "parquet_reader: limit='5' must be a whole number"),
        (
            partial(any_of(JsonlReader), "a", schema="text"),
            "schema=str 'text' must be types of columns by name, such as",
        ),
        (
            partial(any_of(Pipeline), "x", [JsonlReader("a")]),
            "the second argument of a pipeline is its description.*stages=",
        ),
        (
            partial(any_of(ScoreFilter), "word_count"),
            "'word_count' is not a filter; give one, such as WordCountFilter",
        ),
        (
            partial(any_of(Modify), "lower"),
            "'lower' is not a modifier or function; give one, such as UnicodeReformatter",
        ),
        (partial(any_of(WordCountFilter), 10, 5), "min_words=10 is above max_words=5, so it keeps nothing"),
        (partial(any_of(ParquetWriter), "a", compression="zst"), "compression='zst' .* give one of 'zstd', 'snappy'"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_with_the_right_one(make: Any, said: str) -> None:
    with pytest.raises(DcurateError, match=said):
        make()


def test_a_result_says_what_it_has_in_place_of_what_other_libraries_have() -> None:
    rows = DocumentBatch(data=pd.DataFrame({"text": ["one"]}))
    result = Pipeline("x", stages=[Modify(str.strip)]).run(InlineExecutor(), rows, observers=[])
    with pytest.raises(AttributeError, match=r"a RunResult has no 'df'; use to_pandas\(\) or to_arrow\(\)"):
        result.df  # noqa: B018
    with pytest.raises(AttributeError, match="a RunResult has no 'to_panda'; did you mean 'to_pandas'"):
        result.to_panda()
    assert copy.copy(result).report == result.report
    assert not hasattr(result, "shape")


def test_a_text_without_quotes_in_a_filter_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"lang": "en"}\n')
    with pytest.raises(DataError, match="if the filter means a text, write it in single quotes: 'en'"):
        JsonlReader(str(tmp_path), filter="lang = en").columns()


def test_one_id_is_traced_as_one(tmp_path: Path) -> None:
    rows = DocumentBatch(data=pd.DataFrame({"id": ["abc"], "text": ["one"]}))
    stages: list[Any] = [Modify(str.strip), JsonlWriter(str(tmp_path / "out"))]
    Pipeline("x", stages=stages).run(InlineExecutor(), rows, observers=[])
    assert [(fate.id, fate.outcome) for fate in trace(str(tmp_path / "out"), "abc").fates] == [("abc", "kept")]


@pytest.mark.parametrize(("function", "lost"), [(lambda _: None, 2), ({"a": "a"}.get, 1)])
def test_a_function_that_gives_none_is_named(function: Any, lost: int) -> None:
    rows = DocumentBatch(data=pd.DataFrame({"text": ["a", "b", None]}))
    result = Pipeline("x", stages=[Modify(function, "text")]).run(InlineExecutor(), rows, observers=[])
    [notice] = result.report.notices
    assert str(result).splitlines() == [repr(result), f"notice: {notice}"]
    assert f"gave None for {lost} values, which are null now; if that is not meant, have it return" in notice


@pytest.mark.parametrize(
    ("stage", "sentence"),
    [
        (Modify(lambda text: len(text or "") > 1), "gave True or False for 3 texts, which these replace now; to drop"),
        (Filter(lambda text: None, "text"), "gave None for all 2 values of some batches, whose rows were dropped"),
        (Filter(lambda text: text == "a" or None, "text"), ""),
        (Filter(lambda text: text == "c", "text"), ""),
        (Modify(lambda text: len(text or "") > 1, "text", "is_long"), ""),
    ],
)
def test_a_function_that_answers_what_the_other_stage_wants_is_named(stage: Any, sentence: str) -> None:
    texts = ["a", "bb"] if isinstance(stage, Filter) else ["a", "bb", None]
    rows = DocumentBatch(data=pd.DataFrame({"text": texts}))
    notices = Pipeline("x", stages=[stage]).run(InlineExecutor(), rows, observers=[]).report.notices
    assert [sentence in notice for notice in notices] == ([True] if sentence else [])


class Fixed(DocumentFilter):
    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer

    def score_document(self, text: str) -> float:
        return 1.0

    def keep_document(self, score: float) -> Any:
        return self.answer if score else score


@pytest.mark.parametrize(
    "stage", [lambda answer: Filter(lambda _: answer, "text"), lambda answer: ScoreFilter(Fixed(answer))]
)
@pytest.mark.parametrize("answer", ["no", "", b"", (False, "why"), pd.NA, np.array([1, 2]), pd.Series([True, False])])
def test_an_answer_that_is_neither_true_nor_false_fails_its_row(stage: Any, answer: Any, tmp_path: Path) -> None:
    def run(**settings: Any) -> Any:
        pipeline = Pipeline("x", stages=[stage(answer)])
        return pipeline.run(InlineExecutor(settings), pd.DataFrame({"text": ["a"]}), observers=[], rejected=tmp_path)

    with pytest.raises(StageError, match=f"it must give True or False, and gave {type(answer).__name__}; .*row 0 of"):
        run()
    kept = run(ignore_failures=True)
    assert (len(kept.to_arrow()), kept.report.stages[-1].faulty) == (0, {"TypeError": 1})
    assert kept.rejected()["text"].tolist() == ["a"]


@pytest.mark.parametrize(
    "answer",
    [True, False, None, 0, 2, 0.0, 0.5, np.True_, np.False_, [], ["a"]],
)
def test_an_answer_that_python_takes_for_true_or_false_is_taken_so(answer: Any) -> None:
    rows = pd.DataFrame({"text": ["a"]})
    assert (Filter(re.compile("a").match, "text").process(DocumentBatch(data=rows))).num_items == 1
    for stage in (Filter(lambda _: answer, "text"), ScoreFilter(Fixed(answer))):
        kept = Pipeline("x", stages=[stage]).run(InlineExecutor(), rows, observers=[])
        assert len(kept.to_arrow()) == bool(answer)


def test_a_pipeline_says_what_it_has_in_place_of_what_other_libraries_have() -> None:
    pipeline = Pipeline("x", stages=[Modify(str.strip)])
    with pytest.raises(AttributeError, match=r"no attribute 'map'; add a stage: add_stage\(Modify\(function\)\)"):
        pipeline.map(len)  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="'Pipeline' object has no attribute 'colour'$"):
        pipeline.colour  # type: ignore[attr-defined]  # noqa: B018
    assert pickle.loads(pickle.dumps(pipeline)).name == copy.deepcopy(pipeline).name == "x"
    with pytest.raises(
        PipelineError, match="'score > 0.5' is not a filter or function; a condition in SQL goes into Fil"
    ):
        Filter("score > 0.5", "score")  # type: ignore[arg-type]
