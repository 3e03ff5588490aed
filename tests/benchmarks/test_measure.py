"""What a benchmark is given and cannot use ends it with a sentence."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.measure import called, job, measure, scratch_folder, sizes_given, whole_sizes_given
from benchmarks.neardup import labelled
from dcurate import DataError
from tests.conftest import ROOT

pytestmark = pytest.mark.program


def test_a_mistake_of_the_user_and_a_run_that_failed_end_a_benchmark_with_a_sentence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def mistaken() -> None:
        raise DataError("there is nothing at 'nowhere'")

    def failing() -> None:
        measure(job("benchmarks.measure:whole_sizes_given", text="x"))

    with pytest.raises(SystemExit, match="^DataError: there is nothing at 'nowhere'$"):
        called(mistaken)
    with pytest.raises(SystemExit, match="^a run failed: .*'x' is no list of whole numbers"):
        called(failing)
    assert "Traceback" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="^FileNotFoundError: .*nowhere"):
        called(lambda: Path("nowhere").unlink())


def test_sizes_are_positive_numbers_with_commas_between_them() -> None:
    assert (sizes_given("0.5,2"), whole_sizes_given("1,4")) == ("0.5,2", "1,4")
    for text in ("", "0,1", "1,,2", "-1", "x"):
        with pytest.raises(argparse.ArgumentTypeError, match="is no list of numbers above 0, such as 1,4"):
            sizes_given(text)
    with pytest.raises(argparse.ArgumentTypeError, match="'1.5' is no list of whole numbers above 0"):
        whole_sizes_given("1.5")


def test_a_scratch_folder_has_its_full_path_and_is_gone_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with scratch_folder("test", "new/below") as folder:
        assert folder.is_absolute()
        assert folder.is_dir()
        assert folder.parent == tmp_path / "new" / "below"
    assert not folder.exists()


def test_labels_of_documents_that_are_not_there_and_without_similarity_are_left_out_and_counted() -> None:
    documents = [{"id": name, "text": ""} for name in ("x", "y", "z")]
    labels: list[dict[str, Any]] = [
        {"a": "z", "b": "x", "jaccard_w5": 1},
        {"a": "x", "b": "gone", "jaccard_w5": 0.5},
        {"a": "x", "b": "y", "jaccard_w5": None},
    ]
    pairs, left_out = labelled(documents, labels)
    assert (pairs.left.tolist(), pairs.right.tolist(), pairs.similarity.tolist(), left_out) == ([0], [2], [1.0], 2)
    with pytest.raises(SystemExit, match="2 documents have only 1 ids"):
        labelled([documents[0], documents[0]], [])


def test_a_benchmark_runs_from_another_folder_on_one_empty_page(tmp_path: Path) -> None:
    (tmp_path / "pages.jsonl").write_text('\n{"html": "", "truth_text": "none of it", "more": 1}\n{"html": null}\n')
    command = [sys.executable, "-m", "benchmarks.html", "--input", "pages.jsonl", "--repeat", "1", "--json", "a/b.json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert '"rows_left_out": 1' in (tmp_path / "a" / "b.json").read_text()
