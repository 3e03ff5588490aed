"""A package of someone else keeps the laws of dcurate, and its parts are named in recipes as dcurate's are."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dcurate
from dcurate import DocumentBatch, InlineExecutor, PipelineError, trace
from dcurate.core.public import announced_modules
from dcurate.recipe import bundled_recipes, load_recipe
from dcurate.testing import SubjectTests

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("installed")]

LINES = "A calm line.\nA LOUD LINE!\nAnother one, Mild.\n"
KEPT = [{"text": "a calm line.", "length": 12}, {"text": "another one, mild.", "length": 18}]


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text(LINES)
    return tmp_path / "in"


class TestAcme(SubjectTests):
    module = "acme_shouting"

    @pytest.fixture(autouse=True)
    def make(self, acme: Any, lines: Path) -> None:
        self.made = [acme.Quieten(), acme.ShoutingFilter(), acme.LinesReader(str(lines))]

    def parts(self) -> Sequence[Any]:
        return self.made

    def rows(self) -> DocumentBatch:
        return DocumentBatch(data=pd.DataFrame({"text": LINES.splitlines(), "other": ["X", "Y", "Z"]}))

    def other_settings(self) -> Mapping[str, Mapping[str, Any]]:
        return {
            "Quieten": {"text_field": "other", "length_field": "characters"},
            "ShoutingFilter": {"max_share": 1.0},
        }


def recipe(folder: Path, stages: str) -> Path:
    path = folder / "r.yaml"
    path.write_text(f"stages:\n{stages}")
    return path


def written(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.read_text().splitlines()]


def test_its_reader_rule_and_stage_run_in_a_pipeline(acme: Any, lines: Path, tmp_path: Path) -> None:
    stages = [
        acme.LinesReader(str(lines)),
        dcurate.ScoreFilter(acme.ShoutingFilter()),
        acme.Quieten(),
        dcurate.JsonlWriter(str(tmp_path / "out")),
    ]
    result = dcurate.Pipeline("acme", stages=stages).run(InlineExecutor(), observers=[])
    assert written(tmp_path / "out") == KEPT
    assert [sum(stage.dropped.values()) for stage in result.report.stages] == [0, 1, 0, 0]


def test_its_recipe_has_a_name_and_runs_without_trust(lines: Path, tmp_path: Path) -> None:
    assert "acme_shouting:calm" in [info.name for info in bundled_recipes()]
    values = {"input": str(lines), "output": str(tmp_path / "out")}
    load_recipe("acme_shouting:calm", values).pipeline.run(InlineExecutor(), observers=[])
    assert written(tmp_path / "out") == KEPT


def test_the_command_runs_its_recipe_in_worker_processes(lines: Path, tmp_path: Path) -> None:
    path = os.pathsep.join([os.environ["PYTHONPATH"], str(Path(dcurate.__file__).parents[1])])
    command = [sys.executable, "-m", "dcurate.cli", "run", "acme_shouting:calm", "--input", "in", "--output", "out"]
    subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, check=True, capture_output=True)
    assert written(tmp_path / "out") == KEPT
    listing = [sys.executable, "-m", "dcurate.cli", "recipes", "acme_shouting:calm"]
    shown = subprocess.run(listing, env={**os.environ, "PYTHONPATH": path}, check=True, capture_output=True, text=True)
    assert shown.stdout.startswith("name: acme_calm\n")


def test_its_hook_traces_documents_in_an_output_without_rows(tmp_path: Path) -> None:
    (tmp_path / "choir.txt").write_text("0 d1 a.txt 4\n1 d2 a.txt 0\n2 d1 a.txt 4\n")
    traced = trace(str(tmp_path), ["d2", "d3"], tokens=["choir:2"])
    assert [(fate.id, fate.outcome, fate.place, fate.tokens) for fate in traced.fates] == [
        ("d2", "kept", "a.txt, row 0 (counted from 0)", ("choir:1",)),
        ("d3", "not found", "", ()),
        ("d1", "kept", "a.txt, row 4 (counted from 0)", ("choir:0", "choir:2")),
    ]
    assert "choir.txt" in traced.looked
    with pytest.raises(PipelineError, match="has no shout 'choir:7'"):
        trace(str(tmp_path), tokens=["choir:7"])


@pytest.mark.parametrize(
    "name", ["acme_shouting.rule:ShoutingFilter", "acme_shouting.stage:Quieten", "acme_shouting:rule", "acme:Quieten"]
)
def test_a_recipe_may_name_only_what_a_package_announces(name: str, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="may run any code; give --trust"):
        load_recipe(recipe(tmp_path, f"  - {name}: {{}}\n"))


def test_a_misspelt_name_of_a_package_is_answered_with_the_like_one(tmp_path: Path) -> None:
    path = recipe(tmp_path, "  - acme_shouting:LineReader: {path: in}\n")
    for trust in (False, True):
        with pytest.raises(PipelineError, match="announces no 'LineReader'; did you mean 'LinesReader'"):
            load_recipe(path, trust=trust)


def test_a_name_that_only_the_list_of_a_package_has_is_an_error(
    acme: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acme, "__all__", ["Missing"])
    with pytest.raises(PipelineError, match="module 'acme_shouting' has no 'Missing', though its __all__ names it"):
        load_recipe(recipe(tmp_path, "  - acme_shouting:Missing: {}\n"))


@pytest.mark.parametrize("content", ["a: [", "- a list", b"\xff"])
def test_a_recipe_of_a_package_that_cannot_be_read_disturbs_no_others(
    content: str | bytes, installed: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = installed / "acme_shouting" / "recipes" / "wrong.yaml"
    wrong.write_bytes(content.encode() if isinstance(content, str) else content)
    try:
        with caplog.at_level(logging.WARNING, "dcurate"):
            names = [info.name for info in bundled_recipes()]
        with pytest.raises(PipelineError, match="wrong.yaml"):
            load_recipe("acme_shouting:wrong")
    finally:
        wrong.unlink()
    assert "acme_shouting:calm" in names
    assert "acme_shouting:wrong" not in names
    assert "recipe acme_shouting:wrong is left out: " in caplog.text


def test_a_function_or_another_class_that_a_package_announces_is_not_called(
    acme: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acme, "__all__", ["run"])
    monkeypatch.setattr(acme, "run", os.system, raising=False)
    with pytest.raises(PipelineError, match="acme_shouting:run is not a stage or filter"):
        load_recipe(recipe(tmp_path, "  - acme_shouting:run: {command: touch made}\n"))
    assert not (tmp_path / "made").exists()


def test_a_package_that_cannot_be_imported_disturbs_only_recipes_that_name_it(
    installed: Path, lines: Path, tmp_path: Path
) -> None:
    about = installed / "broken-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[dcurate.subjects]\nbroken = broken_acme\n")
    (installed / "broken_acme.py").write_text("raise RuntimeError('half installed')\n")
    announced_modules.cache_clear()
    assert load_recipe("demo").pipeline.name == "demo"
    assert load_recipe("acme_shouting:calm", {"input": str(lines)}).pipeline.name == "acme_calm"
    with pytest.raises(PipelineError, match="'broken_acme', which an entry point .* be imported: half installed"):
        load_recipe(recipe(tmp_path, "  - broken_acme:Stage: {}\n"))
