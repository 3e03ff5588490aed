"""Every public part that reads texts gives the same rows for every type in which a column holds them, null or not."""

from __future__ import annotations

import csv
import inspect
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dcurate import (
    BatchKey,
    CompositeStage,
    CsvWriter,
    DcurateError,
    Decontaminate,
    DocumentBatch,
    DocumentWriter,
    ExactDuplicates,
    Filter,
    FuzzyDuplicates,
    InlineExecutor,
    JsonlWriter,
    Modify,
    ParquetWriter,
    Pipeline,
    ProcessingStage,
    Score,
    ScoreFilter,
    SinkStage,
    SourceStage,
)
from dcurate.core.public import find_public, homes
from dcurate.core.stage import BarrierStage
from dcurate.datasets import AddColumns, FilterByExpression, Rebatch, SampleFraction, SampleRows, SampleStrata
from dcurate.dedup import Benchmark, BloomDuplicates, Highest, Preferred, TaskDecontamination
from dcurate.text import (
    AddId,
    Annotate,
    C4BadWordsFilter,
    DocumentFilter,
    DocumentJoiner,
    DocumentModifier,
    DocumentSplitter,
    GeneralCommentToCodeFilter,
    HtmlExtractor,
    LineRemover,
    PerExtensionFilter,
    SubstringFilter,
    UrlRemover,
    WordCountFilter,
)

WORDS = "the quick brown fox jumps over the lazy dog and then it runs away from the big bad wolf"
TEXTS = [
    f"{WORDS}. {WORDS.title()}!\n\nhttps://example.com/a?b=c\n• point\n",
    None,
    "",
    f"{WORDS}. {WORDS.title()}!\n\nhttps://example.com/a?b=c\n• point\n",
    "Ünïcode  日本語 text… “quoted”\tfor mail@example.com",
    f"{WORDS}. {WORDS.title()}!  \nhttps://example.com/a?b=c\n• POINT\n",
    "<html><body><p>" + WORDS + "</p></body></html>",
    None,
    "def f(x):  # a comment\n    return x\n",
]
#: The types in which Arrow has texts; the first is what the others are compared with.
TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "large": pa.large_string(),
    "view": pa.string_view(),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
    "large dictionary": pa.dictionary(pa.int8(), pa.large_string()),
}
PACKAGES = ("dcurate.text", "dcurate.dedup", "dcurate.groups", "dcurate.datasets", "dcurate.io")
#: Parts that need arguments.
MADE: dict[str, Callable[[Path], Any]] = {
    "AddColumns": lambda folder: AddColumns({"n_words": "len(string_split(text, ' '))", "text": "upper(text)"}),
    "AddId": lambda folder: AddId("new_id"),
    "Annotate": lambda folder: Annotate([WordCountFilter(min_words=3)]),
    "BloomDuplicates": lambda folder: BloomDuplicates(str(folder / "bloom"), 100),
    "C4BadWordsFilter": lambda folder: C4BadWordsFilter(["fox"]),
    "Decontaminate": lambda folder: Decontaminate(benchmark(folder)),
    "DocumentJoiner": lambda folder: [DocumentSplitter("\n"), DocumentJoiner("\n")],
    "DocumentSplitter": lambda folder: DocumentSplitter("\n"),
    "CsvWriter": lambda folder: CsvWriter(str(folder / "out")),
    "DocumentWriter": lambda folder: DocumentWriter(str(folder / "out")),
    "Filter": lambda folder: Filter(lambda text: text is not None, "text"),
    "FilterByExpression": lambda folder: FilterByExpression("text LIKE '%fox%'"),
    "GeneralCommentToCodeFilter": lambda folder: GeneralCommentToCodeFilter("text/x-python"),
    "HtmlExtractor": lambda folder: HtmlExtractor().with_(overwrite=True),
    "JsonlWriter": lambda folder: JsonlWriter(str(folder / "out")),
    "LineRemover": lambda folder: LineRemover(["• point"]),
    "Modify": lambda folder: Modify(lambda text: (text or "").upper()),
    "ParquetWriter": lambda folder: ParquetWriter(str(folder / "out")),
    "PerExtensionFilter": lambda folder: PerExtensionFilter("python", "py"),
    "Rebatch": lambda folder: Rebatch(rows=2),
    "SampleFraction": lambda folder: SampleFraction(0.5, id_field="id"),
    "SampleRows": lambda folder: SampleRows(3, id_field="id"),
    "SampleStrata": lambda folder: SampleStrata(3, ["source"], {"text": [20]}, id_field="id"),
    "Score": lambda folder: Score(lambda text: len(text or ""), "score"),
    "ScoreFilter": lambda folder: ScoreFilter(WordCountFilter(min_words=3), score_field="score"),
    "SubstringFilter": lambda folder: SubstringFilter("fox", "any"),
    "TaskDecontamination": lambda folder: TaskDecontamination(benchmark(folder)),
}
#: Further settings of parts, with a rule of their own for texts.
SETTINGS: dict[str, Callable[[Path], Any]] = {
    "exact, any case": lambda folder: ExactDuplicates(normalize=["case"]),
    "exact, any whitespace": lambda folder: ExactDuplicates(normalize=["whitespace"]),
    "exact, any form of Unicode": lambda folder: ExactDuplicates(normalize=["unicode"]),
    "exact, all forms": lambda folder: ExactDuplicates(normalize=["case", "whitespace", "unicode"], keep="longest"),
    "exact by columns": lambda folder: ExactDuplicates(fields=["text", "source"]),
    "exact, flagged": lambda folder: ExactDuplicates(action="flag", id_field="id"),
    "exact, identified": lambda folder: ExactDuplicates(action="identify", id_field="id"),
    "exact, newest": lambda folder: ExactDuplicates(keep=Highest("day")),
    "exact, preferred": lambda folder: ExactDuplicates(keep=Preferred("source", ["b"])),
    "bloom, all forms": lambda folder: BloomDuplicates(
        str(folder / "bloom"), 100, normalize=["case", "whitespace", "unicode"]
    ),
    "bloom by columns": lambda folder: BloomDuplicates(str(folder / "bloom"), 100, fields=["source", "text"]),
    "fuzzy, flagged": lambda folder: FuzzyDuplicates(action="flag", id_field="id", keep=Highest("day")),
    "urls of another column": lambda folder: Modify(UrlRemover(), "source"),
    "folders by a text": lambda folder: JsonlWriter(str(folder / "out"), separate_by="source"),
    "partitions by a text": lambda folder: ParquetWriter(str(folder / "out"), partition_cols=["source"]),
}
#: Parts of these packages that are not run here, and why.
NOT_HERE = {
    **dict.fromkeys(
        ["FastTextLabelModifier", "FastTextLanguageFilter", "FastTextQualityFilter", "PerplexityFilter"],
        "needs a model",
    ),
    **dict.fromkeys(["TokenCountFilter", "TokenizerFertilityFilter"], "needs a tokenizer"),
    **dict.fromkeys(["Blend", "CheckSchema", "JoinTable", "NumberFilter", "NumberRangeFilter"], "reads no text"),
    **dict.fromkeys(["RemoveIds", "ScoreBuckets", "SemanticDuplicates"], "reads no text"),
    "HistogramFilter": "fetches its tables",
    "TableWriter": "tests/io/test_lakehouse.py",
}


def public() -> Iterator[str]:
    kinds = (DocumentFilter, DocumentModifier, ProcessingStage, BarrierStage, CompositeStage, SinkStage)
    for name in homes():
        kind = find_public(name)
        is_part = inspect.isclass(kind) and issubclass(kind, kinds) and kind.__module__.startswith(PACKAGES)
        if is_part and not (inspect.isabstract(kind) or issubclass(kind, SourceStage) or "Reader" in name):
            yield name


def benchmark(folder: Path) -> Benchmark:
    path = folder / "task.jsonl"
    path.write_text(json.dumps({"question": WORDS}) + "\n")
    return Benchmark(str(path), "question")


def made(name: str, folder: Path) -> Any:
    maker = SETTINGS.get(name) or MADE.get(name)
    part = maker(folder) if maker is not None else find_public(name)()
    if isinstance(part, DocumentFilter):
        return ScoreFilter(part, score_field="its_score")
    return Modify(part) if isinstance(part, DocumentModifier) else part


def batches(part: Any, kind: pa.DataType) -> list[DocumentBatch]:
    """Rows in two batches, each a slice, and a third whose texts are all null."""
    count = len(TEXTS)
    columns = {
        "id": [f"id-{number}" for number in range(count)],
        "text": TEXTS,
        "source": ["b" if number % 3 else None for number in range(count)],
        "day": [f"2024-05-{number + 1:02}" if number % 4 else None for number in range(count)],
    }
    needed = [name for name in part.inputs()[1] if name not in columns]
    columns |= dict.fromkeys(needed, TEXTS)
    whole = pa.table({name: pa.array(values, pa.string()).cast(kind) for name, values in columns.items()})
    nulls = whole.set_column(1, "text", pa.nulls(count, kind)).slice(3, 2)
    tables = [whole.slice(0, 5), whole.slice(5), nulls]
    return [DocumentBatch(key=BatchKey(f"part-{place}"), data=table) for place, table in enumerate(tables)]


def plain(value: Any) -> Any:
    return "nan" if isinstance(value, float) and math.isnan(value) else value


def written(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of an output."""
    if path.suffix == ".parquet":
        return list(pq.ParquetFile(path).read().to_pylist())
    lines = path.read_text("utf-8").splitlines()
    return list(csv.DictReader(lines)) if path.suffix == ".csv" else [json.loads(line) for line in lines]


def rows_of(name: str, kind: pa.DataType, folder: Path) -> Any:
    """The rows that a part makes, or the kind of the error in which it ends."""
    folder.mkdir()
    part = made(name, folder)
    stages = part if isinstance(part, list) else [part]
    given = batches(stages[0], kind)
    try:
        result = Pipeline("types", stages=stages).run(InlineExecutor(), given, observers=[])
    except DcurateError as error:
        return type(error).__name__
    out = folder / "out"
    if not out.exists():
        found = [row for batch in result if isinstance(batch, DocumentBatch) for row in batch.to_arrow().to_pylist()]
    else:
        found = [
            {**row, "file": str(path.relative_to(out))} for path in sorted(out.rglob("*.*")) for row in written(path)
        ]
    return [{name: plain(value) for name, value in row.items()} for row in found]


@pytest.mark.parametrize("name", [*(name for name in public() if name not in NOT_HERE), *SETTINGS])
def test_every_part_gives_the_same_rows_for_every_type_of_text(name: str, tmp_path: Path) -> None:
    wanted = rows_of(name, TYPES["string"], tmp_path / "string")
    assert not isinstance(wanted, str), wanted
    for title, kind in list(TYPES.items())[1:]:
        assert rows_of(name, kind, tmp_path / title.replace(" ", "-")) == wanted, title


def test_every_part_is_here_or_has_a_reason() -> None:
    assert {*MADE, *NOT_HERE} <= set(public())
