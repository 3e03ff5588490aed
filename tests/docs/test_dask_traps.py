"""What docs/howto/dataframe.md says of the names that Dask gives, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.program

STAGE = """
from dcurate import ProcessingStage

class Mine(ProcessingStage):
    name = "mine"
    def __init__(self, words):
        self.words = words
    def inputs(self):
        return ["data"], ["text"]
    def outputs(self):
        return ["data"], []
    def process(self, task):
        return task
"""
NAMED = """
import dask.dataframe as dd
import pandas as pd
from dcurate import apply
WORDS = {words}
ddf = dd.from_pandas(pd.DataFrame({{"text": ["a"]}}), npartitions=1)
print(ddf.map_partitions(Mine(WORDS).process, meta=ddf._meta)._name, apply([Mine(WORDS)], ddf)._name)
"""


def names(folder: Path, program: str, seed: int) -> str:
    (folder / "mine.py").write_text(STAGE)
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_names_differ_over_hash_seeds_for_sets_and_are_the_same_for_tuples_or_one_seed(tmp_path: Path) -> None:
    sets, tuples = (
        "from mine import Mine\n" + NAMED.format(words=words)
        for words in ("{f'word {n}' for n in range(50)}", "tuple(f'word {n}' for n in range(50))")
    )
    assert names(tmp_path, sets, 0) != names(tmp_path, sets, 1)
    assert names(tmp_path, sets, 0) == names(tmp_path, sets, 0)
    assert names(tmp_path, tuples, 0) == names(tmp_path, tuples, 1)


def test_a_class_of_the_program_itself_has_another_name_in_each_process(tmp_path: Path) -> None:
    program = STAGE + NAMED.format(words="('a',)")
    assert names(tmp_path, program, 0) != names(tmp_path, program, 0)
