"""Stages that make columns: rows that have such columns lose nothing without a word."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import pandas as pd
import pyarrow as pa
import pytest

import dcurate
import dcurate.audio
import dcurate.datasets
import dcurate.dedup
import dcurate.documents
import dcurate.images
import dcurate.learn
import dcurate.llm
import dcurate.models
import dcurate.rights
import dcurate.text
import dcurate.tokens
import dcurate.video
from dcurate import (
    CompositeStage,
    DocumentBatch,
    ExactDuplicates,
    FuzzyDuplicates,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    Modify,
    Pipeline,
    PipelineError,
    ProcessingStage,
    Score,
    ScoreFilter,
    SinkStage,
    SourceStage,
    processing_stage,
)
from dcurate.core.fingerprint import fingerprint
from dcurate.core.pipeline import check_columns
from dcurate.core.public import find_public, homes
from dcurate.core.stage import Stage
from dcurate.documents import OfficeExtract
from dcurate.llm import AsyncOpenAIClient
from dcurate.recipe import load_recipe
from dcurate.text import (
    Annotate,
    CountPii,
    DocumentJoiner,
    DocumentSplitter,
    HtmlExtractor,
    LanguageId,
    PiiModifier,
    WordCountFilter,
)

CLIENT = AsyncOpenAIClient(base_url="http://localhost:1/v1")
LLM: dict[str, Any] = {"client": CLIENT, "model": "m"}
TRANSLATION: dict[str, Any] = {**LLM, "source_language": "en", "target_language": "de"}

#: Public stages that need arguments, or make columns only with some.
MADE: dict[str, list[Callable[[], Any]]] = {
    "AddColumns": [lambda: dcurate.datasets.AddColumns({"x": "text"})],
    "AddId": [lambda: dcurate.text.AddId("id")],
    "Annotate": [lambda: Annotate([WordCountFilter()])],
    "FilterByAnswerability": [lambda: dcurate.llm.FilterByAnswerability(**LLM)],
    "BloomDuplicates": [],
    "Blend": [],
    "DownloadCommonCrawl": [],
    "DownloadAndExtract": [],
    "DownloadFiles": [],
    "ExtractDocuments": [],
    "IterateDocuments": [],
    "FilterByEasiness": [lambda: dcurate.llm.FilterByEasiness(CLIENT, "m")],
    "EndpointEmbedding": [lambda: dcurate.llm.EndpointEmbedding(CLIENT, "m")],
    "ExactDuplicates": [lambda: ExactDuplicates(action="flag")],
    "FilterByFaith": [lambda: dcurate.llm.FilterByFaith(**TRANSLATION)],
    "FuzzyDuplicates": [lambda: FuzzyDuplicates(action="flag")],
    "Generate": [lambda: dcurate.llm.Generate(**LLM, prompt="{text}", output_field="said")],
    "ImageExactDuplicates": [lambda: dcurate.images.ImageExactDuplicates(action="flag")],
    "ImageNearDuplicates": [lambda: dcurate.images.ImageNearDuplicates(action="flag")],
    "Modify": [lambda: Modify(str.strip, output_fields="stripped")],
    "Score": [lambda: Score(len, "length")],
    "ScoreFilter": [
        lambda: ScoreFilter(WordCountFilter(), score_field="words"),
        lambda: ScoreFilter([WordCountFilter(), WordCountFilter(2)], score_field=["a", "b"]),
    ],
    "TranslateSegments": [lambda: dcurate.llm.TranslateSegments(**TRANSLATION)],
    "SemanticDuplicates": [lambda: dcurate.SemanticDuplicates(action="flag")],
    "Translate": [lambda: dcurate.llm.Translate(**TRANSLATION)],
    "SequenceClassifier": [lambda: dcurate.models.SequenceClassifier("m", probabilities_field="p")],
    "Decontaminate": [lambda: dcurate.Decontaminate(dcurate.dedup.Benchmark("a"), action="flag")],
    "DistributedDataClassifier": [lambda: dcurate.models.DistributedDataClassifier(model="m")],
    "DocumentSplitter": [lambda: DocumentSplitter("x")],
    "DropRepetitiveSnippets": [lambda: dcurate.audio.DropRepetitiveSnippets("tokenizer.json")],
    "EmbeddingModel": [lambda: dcurate.models.EmbeddingModel("m")],
    "FastTextClassifier": [],  # it opens its model
    "Learn": [],
    "TrainNgrams": [],
    "ScoreBuckets": [lambda: dcurate.text.ScoreBuckets({"": [300.0, 600.0]})],
    "ScoreLabels": [],  # it opens its model
    "Filter": [],
    "FilterByExpression": [],
    "AudioDecontaminate": [lambda: dcurate.audio.AudioDecontaminate({"a": "a/*.wav"}, action="flag")],
    "ImageDecontaminate": [lambda: dcurate.images.ImageDecontaminate({"vqa": "a/*.jpg"}, action="flag")],
    "ImportanceWeights": [lambda: dcurate.tokens.ImportanceWeights("m.npz")],
    "LLMCleanup": [lambda: dcurate.llm.LLMCleanup("m", "Clean {text}", client=CLIENT)],
    "CheckLabels": [lambda: dcurate.learn.CheckLabels("quality")],
    "Judge": [lambda: dcurate.learn.Judge("quality", **LLM)],
    "ComparePairs": [lambda: dcurate.learn.ComparePairs("Which?", **LLM, first_field="a", second_field="b")],
    "LLMPii": [lambda: dcurate.llm.LLMPii(**LLM)],
    "FilterByLabel": [],
    "FilterByRights": [lambda: dcurate.rights.FilterByRights(on_refused="flag")],
    "MegatronTokenizerWriter": [],
    "Mixture": [],
    "ModelStage": [],
    "NemotronCC": [],
    "OnTexts": [lambda: dcurate.images.OnTexts(ScoreFilter(WordCountFilter(), score_field="words"))],
    "SyntheticQA": [],
    "CheckSchema": [],
    "Rebatch": [],
    "Rephrase": [lambda: dcurate.llm.Rephrase(task="distill", **LLM)],
    "SampleFraction": [],
    "SampleRows": [],
    "StaticEmbedder": [lambda: dcurate.models.StaticEmbedder("m")],
    "JoinTable": [],
    "SampleStrata": [lambda: dcurate.datasets.SampleStrata(5, ["language"])],
    "SentenceTransformerModel": [lambda: dcurate.models.SentenceTransformerModel("m")],
    "TableReader": [],
    "TableWriter": [],
    "TaskDecontamination": [],
    "RemoveIds": [],
    "TokenShuffle": [],
    "TokenWriter": [],
    "VideoEmbedding": [lambda: dcurate.models.VideoEmbedding("m")],
    "DescribeImages": [lambda: dcurate.models.DescribeImages("m", "Say.")],
    "Squim": [lambda: dcurate.audio.Squim("m.pt")],
    "Utmos": [lambda: dcurate.audio.Utmos("m.pt")],
    "PoolFrames": [lambda: dcurate.video.PoolFrames({"score": "mean"})],
    "Transcribe": [lambda: dcurate.audio.Transcribe(dcurate.audio.PocketSphinxRecognizer())],
    "Tokenize": [lambda: dcurate.models.Tokenize("m")],
    "VisionExtract": [lambda: dcurate.documents.VisionExtract(**LLM)],
}


def stages() -> list[tuple[str, Stage]]:
    """A stage of every public class, as it is by default or as above; one that needs arguments must be there."""
    found = []
    for name in sorted(homes()):
        kind = find_public(name)
        if not inspect.isclass(kind) or not issubclass(kind, Stage) or inspect.isabstract(kind):
            continue
        if issubclass(kind, SourceStage | SinkStage):
            continue
        for make in MADE.get(name, [kind]):
            found.append((name, make()))
    return found


def parts(stage: Stage) -> list[Stage]:
    return stage.decompose_and_apply_with() if isinstance(stage, CompositeStage) else [stage]


def made_by(stage: Stage) -> list[str]:
    """The columns that a stage makes, without those that only its inner stages see."""
    known = {column for part in parts(stage) for column in (*part.inputs()[1], *part.optional_inputs())}
    columns = list(known)
    for part in parts(stage):
        columns = part.columns_after(columns) or []
    return [column for column in columns if column not in known and not column.startswith("_")]


MAKERS = [
    (name, stage, column)
    for name, stage in stages()
    if not isinstance(parts(stage)[0], SourceStage)
    for column in made_by(stage)
]


def given(stage: Stage, column: str) -> list[str]:
    """The columns that a stage reads, and the one."""
    read: list[str] = []
    made: set[str] = set()
    for part in parts(stage):
        read += [name for name in (*part.inputs()[1], *part.optional_inputs()) if name not in made]
        made |= set(part.outputs()[1])
    return list(dict.fromkeys([*read, "bytes", "media_ref", column]))


@pytest.mark.parametrize(
    ("stage", "column"),
    [(stage, column) for _, stage, column in MAKERS],
    ids=[f"{name}-{column}" for name, _, column in MAKERS],
)
def test_a_column_that_rows_have_is_not_replaced_unless_it_is_asked_for(stage: Stage, column: str) -> None:
    columns = given(stage, column)
    with pytest.raises(PipelineError) as raised:
        check_columns(parts(stage), columns)
    sentence = str(raised.value)
    assert repr(column) in sentence
    assert "overwrite=True" in sentence or "use_existing_tokens=True" in sentence
    assert len(sentence) < 300
    check_columns([part.with_(overwrite=True) for part in parts(stage)], columns)


@pytest.mark.parametrize(
    ("stage", "column"),
    [
        (stage, column)
        for _, stage, column in MAKERS
        if not isinstance(stage, CompositeStage) and isinstance(vars(stage).get("name"), str)
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_the_setting_that_the_sentence_names_gives_the_column_another_name(stage: Stage, column: str) -> None:
    with pytest.raises(PipelineError) as raised:
        check_columns([stage], given(stage, column))
    named = re.search(r"give another (\w+)", str(raised.value))
    if named is None:
        assert re.search("rename the columns? before this stage|leave this stage out", str(raised.value))
        return
    value = vars(stage)[named[1]]
    other = [f"other_{one}" for one in value] if isinstance(value, list) else f"other_{value}"
    object.__setattr__(stage, named[1], other)
    try:
        assert column not in stage.new_columns()
    finally:
        object.__setattr__(stage, named[1], value)


@processing_stage
def pass_on(batch: DocumentBatch) -> DocumentBatch:
    """Makes the columns unknown to the stages after it."""
    return batch


ROWS: dict[str, list[Any]] = {
    "text": ["One line of English text, and another one.\nA second line, which is longer.", None],
    "content": ["<title></title><p>It was a bright cold day in April, and the clocks were striking.</p>", "<p>a b</p>"],
    "bytes": [b"{\\rtf1 A word.}", b"{\\rtf1 A second word.}"],
}
RUN: list[tuple[Stage, list[str]]] = [
    (LanguageId(script_field=None), ["language", "language_score"]),
    (CountPii(supported_entities=["EMAIL_ADDRESS"]), ["pii_email_address"]),
    (Annotate([WordCountFilter()]), ["word_count", "failed", "rules"]),
    (Score(WordCountFilter(), "words"), ["words"]),
    (ScoreFilter(WordCountFilter(0), score_field="words"), ["words"]),
    (ScoreFilter([WordCountFilter(0), WordCountFilter(0)], score_field=["a", "b"]), ["a", "b"]),
    (DocumentSplitter("\n"), ["segment_id"]),
    (HtmlExtractor("resiliparse"), ["title"]),
    (Modify(lambda text: text and text.upper(), output_fields="upper"), ["upper"]),
    (ExactDuplicates(action="flag"), ["duplicate_group", "is_duplicate"]),
    (FuzzyDuplicates(action="flag"), ["duplicate_group", "is_duplicate"]),
    (OfficeExtract(), ["title", "kind", "author", "n_pages", "declared_language"]),
]


def rows_for(stage: Stage, columns: list[str]) -> pa.Table:
    """Rows with a value in each of the columns, of the type that the stage makes; the second row has no text."""
    wanted = {*stage.inputs()[1], *stage.optional_inputs(), *(["bytes"] if isinstance(stage, OfficeExtract) else [])}
    rows = pa.table({name: values for name, values in ROWS.items() if name in wanted})
    return pa.table({**dict(zip(rows.column_names, rows.columns, strict=True)), **types_of(stage, rows, columns)})


def types_of(stage: Stage, rows: pa.Table, columns: list[str]) -> dict[str, pa.Array]:
    made = Pipeline("p", stages=[stage]).run(InlineExecutor(), initial_tasks=rows, observers=[]).to_arrow()
    values: dict[str, pa.Array] = {}
    for name in columns:
        kind = made.schema.field(name).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        value: Any = "mine"
        if pa.types.is_boolean(kind):
            value = True
        elif pa.types.is_list(kind) or pa.types.is_struct(kind):
            value = made[name].to_pylist()[0]
        elif not pa.types.is_string(kind) and not pa.types.is_large_string(kind):
            value = 7
        values[name] = pa.array([value] * rows.num_rows, kind)
    return values


@pytest.mark.parametrize(("stage", "columns"), RUN, ids=lambda value: getattr(value, "name", ""))
def test_where_columns_are_not_known_a_notice_names_those_replaced_and_no_value_becomes_null(
    stage: Stage, columns: list[str]
) -> None:
    rows = rows_for(stage, columns)
    plain = Pipeline("p", stages=[pass_on, stage])
    fresh = plain.run(InlineExecutor(), initial_tasks=rows.drop_columns(columns), observers=[])
    run = plain.run(InlineExecutor(), initial_tasks=rows, observers=[])
    for name in columns:
        [notice] = [notice for notice in run.report.notices if f"column {name!r}" in notice]
        assert f"stage {stage.name!r} replaced the values of column" in notice
        assert not run.to_arrow()[name].null_count
    assert not [notice for notice in fresh.report.notices if "replaced" in notice]
    assert run.to_arrow().num_rows == fresh.to_arrow().num_rows
    for name in columns:
        new, old = fresh.to_arrow()[name].to_pylist(), run.to_arrow()[name].to_pylist()
        mine = rows[name].to_pylist()[0]
        assert old == [mine if value is None else value for value in new]
    chosen = Pipeline("p", stages=[stage.with_(overwrite=True)])
    replaced = chosen.run(InlineExecutor(), initial_tasks=rows, observers=[])
    assert not [notice for notice in replaced.report.notices if "replaced" in notice]
    assert {name: replaced.to_arrow()[name].to_pylist() for name in columns} == {
        name: fresh.to_arrow()[name].to_pylist() for name in columns
    }


def test_rows_that_a_stage_takes_out_are_kept_as_they_came(tmp_path: Path) -> None:
    rows = pd.DataFrame({"text": ["one", "one two three"], "words": [5, 6]})
    stages: list[Any] = [
        pass_on,
        ScoreFilter(WordCountFilter(2), score_field="words"),
        JsonlWriter(str(tmp_path / "out")),
    ]
    Pipeline("p", stages=stages).run(
        InlineExecutor(), initial_tasks=rows, rejected=str(tmp_path / "rejected"), observers=[]
    )
    [file] = (tmp_path / "rejected").rglob("*.jsonl")
    assert "_dcurate_before" not in file.read_text()
    assert "_dcurate_before" not in "".join(path.read_text() for path in (tmp_path / "out").glob("*.jsonl"))


def test_a_column_that_comes_after_the_heads_of_the_files_is_seen_too(tmp_path: Path) -> None:
    filler = '{"text": "' + "A line of English text. " * 20 + '"}\n'
    (tmp_path / "a.jsonl").write_text(filler * 20_000 + '{"text": null, "title": "mine", "language": "mine"}\n')
    stages: list[Any] = [JsonlReader(str(tmp_path / "a.jsonl")), LanguageId(), JsonlWriter(str(tmp_path / "out"))]
    run = Pipeline("p", stages=stages).run(InlineExecutor(), observers=[])
    notices = [notice for notice in run.report.notices if "replaced" in notice]
    assert notices == [
        "stage 'language_id' replaced the values of column 'language' in 1 row; to keep them, give another "
        "language_field"
    ]


@pytest.mark.parametrize(
    "stages",
    [
        [Modify(str.strip)],
        [Modify(PiiModifier()), Modify(str.upper)],
        [DocumentSplitter("\n"), DocumentJoiner("\n", document_id_field="url")],
        [HtmlExtractor(html_field="text", title_field=None)],
        [ExactDuplicates(action="identify")],
        [ScoreFilter(WordCountFilter(), score_field="words"), ScoreFilter(WordCountFilter())],
    ],
    ids=lambda stages: stages[0].name,
)
def test_columns_that_a_stage_reads_it_may_change(stages: list[Stage]) -> None:
    check_columns(stages, ["text", "url", "id"])


def test_a_frame_with_the_column_is_refused_before_it_is_computed() -> None:
    frame = dd.from_pandas(pd.DataFrame({"text": ["a"], "language": ["mine"]}), npartitions=1)
    with pytest.raises(PipelineError, match="column 'language' already exists; give another language_field"):
        dcurate.apply(LanguageId(), frame)
    found = dcurate.apply(LanguageId().with_(overwrite=True), frame).compute()
    assert list(found.columns) == ["text", "language", "language_score", "script"]


def test_the_stage_of_a_user_may_replace_what_it_names() -> None:
    class Shout(ProcessingStage[DocumentBatch, DocumentBatch]):
        def outputs(self) -> tuple[list[str], list[str]]:
            return [], ["text"]

        def process(self, task: DocumentBatch) -> DocumentBatch:
            return task.with_data(task.to_pandas().assign(text=["HELLO"]))

    run = Pipeline("p", stages=[Shout()]).run(
        InlineExecutor(), initial_tasks=pd.DataFrame({"text": ["hello"]}), observers=[]
    )
    assert (run.to_pandas().text.tolist(), run.report.notices) == (["HELLO"], ())


def test_values_that_cannot_have_the_new_type_end_the_run_with_a_sentence() -> None:
    rows = pa.table({"content": [ROWS["content"][0]], "title": pa.array([[1]])})
    stages: list[Any] = [pass_on, HtmlExtractor("resiliparse").with_(ignore_failures=False)]
    with pytest.raises(dcurate.DataError, match="column 'title' holds list<.*> and the stage makes string of it"):
        Pipeline("p", stages=stages).run(InlineExecutor(), initial_tasks=rows, observers=[])


def test_every_stage_that_runs_here_leaves_the_columns_that_are_foreseen() -> None:
    for stage, _ in RUN:
        names = [*stage.inputs()[1], *(["bytes"] if isinstance(stage, OfficeExtract) else [])]
        rows = pa.table({name: ROWS[name] for name in names})
        made = Pipeline("p", stages=[stage]).run(InlineExecutor(), initial_tasks=rows, observers=[])
        assert set(made.to_arrow().column_names) == set(stage.columns_after(rows.column_names) or ()), stage


class RenamesLanguage(ProcessingStage[DocumentBatch, DocumentBatch]):
    """A user's stage that says what it makes and renames what was there."""

    def outputs(self) -> tuple[list[str], list[str]]:
        return [], ["earlier"]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task.with_data(task.to_pandas().rename(columns={"language": "earlier"}))


class KeepsLanguage(LanguageId):
    """A user's subclass that looks at the column that it replaces."""

    def process(self, task: DocumentBatch) -> Any:
        rows = task.to_pandas()
        made = super().process(task)
        return made.with_data(made.to_pandas().assign(earlier=list(rows.language)))


@pytest.mark.parametrize("stages", [[RenamesLanguage(), LanguageId()], [KeepsLanguage()]])
def test_a_users_stage_may_rename_a_column_or_replace_it_by_its_own_rule(stages: list[Stage]) -> None:
    rows = DocumentBatch(data=pa.table({"text": ["This is an English sentence."], "language": ["mine"]}))
    made = Pipeline("users", stages=stages).run(InlineExecutor(), initial_tasks=[rows], observers=[]).to_pandas()
    assert (made.language[0], made.earlier[0]) == ("en", "mine")


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        (["language"], "column 'language' already exists; give another language_field, or "),
        (
            ["language", "script"],
            "columns 'language', 'script' already exist; rename the columns before this stage, or ",
        ),
    ],
)
def test_the_message_names_a_setting_only_where_it_frees_all_columns(columns: list[str], sentence: str) -> None:
    with pytest.raises(PipelineError) as caught:
        check_columns([LanguageId()], ["text", *columns])
    assert sentence in str(caught.value)


def test_a_recipe_replaces_columns_where_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "one two", "words": 7}\n')
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        f"stages:\n- JsonlReader: {{file_paths: {tmp_path}/in.jsonl}}\n"
        "- ScoreFilter: {filter_obj: {WordCountFilter: {min_words: 1}}, score_field: words}\n"
        "  with: {overwrite: ${overwrite}}\n"
        f"- JsonlWriter: {{path: {tmp_path}/out, mode: overwrite}}\nparams: {{overwrite: false}}\n"
    )
    with pytest.raises(PipelineError, match="column 'words' already exists"):
        load_recipe(str(recipe)).pipeline.run(InlineExecutor(), observers=[])
    load_recipe(str(recipe), {"overwrite": True}).pipeline.run(InlineExecutor(), observers=[])
    [written] = (tmp_path / "out").glob("*.jsonl")
    assert written.read_text() == '{"text": "one two", "words": 2}\n'
    plain = ScoreFilter(WordCountFilter(), score_field="words")
    assert (
        fingerprint([plain.with_(overwrite=False)])
        == fingerprint([plain])
        != fingerprint([plain.with_(overwrite=True)])
    )
