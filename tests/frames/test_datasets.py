"""Data sets of Hugging Face as input and output: no copy of their rows, and the same features on both sides."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dcurate import InlineExecutor, ParquetWriter, Pipeline, PipelineError, ScoreFilter
from dcurate.core.extras import missing
from dcurate.frames import batches
from dcurate.frames.convert import as_frame
from dcurate.text import AddId, WordCountFilter

if not missing(["datasets"]):
    library: Any = importlib.import_module("datasets")
    library.disable_progress_bars()

    def labelled(count: int = 4) -> Any:
        features = {"text": library.Value("string"), "label": library.ClassLabel(names=["no", "yes"])}
        rows = {"text": [f"text {n}" for n in range(count)], "label": [n % 2 for n in range(count)]}
        return library.Dataset.from_dict(rows, features=library.Features(features))

    def addresses(table: pa.Table) -> list[int]:
        return [chunk.buffers()[-1].address for column in table.columns for chunk in column.chunks]

    def test_rows_of_a_mapped_file_are_not_copied(tmp_path: Path) -> None:
        labelled().save_to_disk(tmp_path / "here")
        mapped = library.load_from_disk(tmp_path / "here")
        table = as_frame(mapped)
        assert table is not None
        assert addresses(table) == addresses(mapped.data.table)

    def test_batches_of_a_data_set_are_cut_without_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(batches, "_BYTES", 100)
        whole = labelled(50)
        made = batches.batches_of(whole)
        assert len(made) > 4
        assert {address for batch in made for address in addresses(batch.data)} == set(addresses(whole.data.table))

    def test_a_data_set_that_was_shuffled_comes_in_its_order() -> None:
        mixed = labelled(20).shuffle(seed=3)
        run = Pipeline("p", stages=[AddId("id")]).run(InlineExecutor(), initial_tasks=mixed, observers=[])
        assert run.to_arrow()["text"].to_pylist() == mixed["text"][:]
        assert mixed["text"][:] != labelled(20)["text"][:]

    def test_what_has_several_splits_or_no_end_is_refused() -> None:
        for given in (library.DatasetDict({"train": labelled()}), labelled().to_iterable_dataset()):
            with pytest.raises(PipelineError, match="which is not a table of rows; give one split as a Dataset"):
                Pipeline("p", stages=[AddId("id")]).run(InlineExecutor(), initial_tasks=given, observers=[])

    def test_rows_in_memory_become_a_data_set_with_the_same_features() -> None:
        stages = [ScoreFilter(WordCountFilter(min_words=2))]
        run = Pipeline("p", stages=stages).run(InlineExecutor(), initial_tasks=labelled(), observers=[])
        table = run.to_arrow()
        made = library.Dataset(table)
        assert made.features == labelled().features
        assert addresses(made.data.table) == addresses(table)
        assert made[:] == labelled()[:]

    def test_parquet_files_are_loaded_with_the_same_features(tmp_path: Path) -> None:
        stages: list[Any] = [ScoreFilter(WordCountFilter(min_words=2)), ParquetWriter(str(tmp_path / "out"))]
        Pipeline("p", stages=stages).run(InlineExecutor(), initial_tasks=labelled(), observers=[])
        made = library.load_dataset(str(tmp_path / "out"), split="train", cache_dir=str(tmp_path / "cache"))
        assert made.features == labelled().features
        assert made[:] == labelled()[:]
