"""``dcurate prove``: exit codes, sentences and JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dcurate import DataError, PipelineError
from dcurate.cli import cli
from dcurate.jobs.load import load
from dcurate.jobs.records import JobSpec
from dcurate.runs import prove

RECIPE = """
name: short
params: {input: null, output: null, least: 2, names: [text, id]}
stages:
  - JsonlReader: {file_paths: "${input}", fields: "${names}"}
  - ScoreFilter: {filter_obj: {WordCountFilter: {min_words: "${least}"}}}
  - JsonlWriter: {path: "${output}"}
executor: {execution_mode: inline}
rejected: dropped
"""


def invoked(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


@pytest.fixture
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The output of a recipe that ran with a proof; it is in the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    for name in "ab":
        rows = [{"id": f"{name}{row}", "text": "word " * (row % 4)} for row in range(20)]
        (tmp_path / "in" / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "short.yaml").write_text(RECIPE)
    ran = invoked("run", "short.yaml", "--input", "in", "--output", "out", "--set", "least=3", "--proof", "--quiet")
    assert ran.exit_code == 0, ran.output
    return tmp_path / "out"


def result(*arguments: str) -> tuple[int, dict[str, Any]]:
    made = invoked("prove", "out", "--json", "-", *arguments)
    return made.exit_code, json.loads(made.output)


def test_an_output_that_is_as_it_was_written_holds_and_one_that_is_not_is_named(output: Path) -> None:
    shown = invoked("prove", "out")
    assert (shown.exit_code, shown.output.splitlines()[0]) == (0, "the proof holds: 10 rows, 2 files, 2 splits")
    code, values = result()
    assert (code, values["output"]["holds"]) == (0, True)
    root = values["output"]["root"]
    assert result("--root", root)[0] == 0
    path = min(output.iterdir())
    path.write_bytes(path.read_bytes().replace(b"a7", b"c7"))
    shown = invoked("prove", "out", "--root", root)
    assert shown.exit_code == 1
    assert f"changed: {path.name}, row 1 (counted from 0), split 'a.jsonl'" in shown.output
    code, values = result()
    assert (code, values["output"]["changes"][0]["row"]) == (1, 1)


def test_a_sample_is_derived_by_the_recorded_recipe_and_its_params(output: Path) -> None:
    code, values = result("--sample", "30")
    assert (code, values["sample"]["holds"], values["sample"]["rows"]) == (0, True, 40)
    shown = invoked("prove", "out", "--sample", "30")
    assert "sample, derived again\nthe proof holds: 40 rows, 2 files, 2 splits" in shown.output
    source = Path("in/b.jsonl")
    source.write_bytes(source.read_bytes().replace(b"b2", b"c2"))
    code, values = result("--sample", "1000", "--seed", "3")
    assert (code, values["output"]["holds"], values["sample"]["holds"]) == (1, True, False)
    other = invoked("prove", "out", "--sample", "30", "--set", "least=2")
    assert isinstance(other.exception, PipelineError)
    assert "the pipeline is not the one that wrote" in str(other.exception)


def test_a_recipe_that_is_elsewhere_is_named(output: Path) -> None:
    Path("short.yaml").rename("moved.yaml")
    refused = invoked("prove", "out", "--sample", "30")
    assert refused.exit_code == 2
    assert "--sample needs the recipe of the run, which is not in this folder" in refused.output
    assert result("--sample", "30", "--recipe", "moved.yaml")[0] == 0
    refused = invoked("prove", "out", "--sample", "30", "--recipe", "gone.yaml")
    assert "recipe 'gone.yaml' is neither a file nor bundled" in refused.output


def test_a_row_is_shown_with_its_path(output: Path) -> None:
    code, values = result("--row", "a7")
    assert (code, values["row"]["outcome"], values["row"]["holds"]) == (0, "kept", True)
    shown = invoked("prove", "out", "--row", "a6")
    assert shown.exit_code == 0
    for words in ("dropped by word_count", "score", "a.jsonl, row 6", "passed", "root of run", "holds"):
        assert words in shown.output
    path = min(output.iterdir())
    path.write_bytes(path.read_bytes().replace(b"word word word", b"word word Word", 1))
    assert invoked("prove", "out", "--row", f"{path.name}:0").exit_code == 1


def test_shards_leave_a_proof_together(output: Path) -> None:
    recipe = ("short.yaml", "--input", "in", "--output", "two", "--set", "least=3")
    for shard in ("1/2", "2/2"):
        assert invoked("run", *recipe, "--proof", "--shard", shard).exit_code == 0
    assert invoked("finish", *recipe).exit_code == 0
    assert prove("two").root == prove("out").root


@pytest.mark.parametrize("key", ["true", "${asked}"])
def test_a_recipe_asks_for_a_proof_wherever_it_is_run(key: str, output: Path, tmp_path: Path) -> None:
    text = RECIPE.replace("least: 2,", "least: 2, asked: true,") + f"proof: {key}\n"
    Path("asks.yaml").write_text(text)
    recipe = ("asks.yaml", "--input", "in", "--set", "least=3", "--output")
    assert invoked("run", *recipe, "other", "--quiet").exit_code == 0
    assert prove("other").root == prove("out").root
    for shard in ("1/2", "2/2"):
        assert invoked("run", *recipe, "two", "--shard", shard).exit_code == 0
    assert invoked("finish", *recipe, "two").exit_code == 0
    assert prove("two").root == prove("out").root
    settings = {"input": "in", "output": "three"}
    spec = JobSpec("recipe", "asks.yaml", text.encode(), settings=settings, folder=str(tmp_path))
    (tmp_path / "job").mkdir()
    assert load(spec, tmp_path / "job").proof


def test_what_a_recipe_says_of_a_proof_must_be_true_or_false(output: Path) -> None:
    Path("odd.yaml").write_text(f"{RECIPE}proof: perhaps\n")
    refused = invoked("run", "odd.yaml", "--input", "in", "--output", "other").exception
    assert isinstance(refused, PipelineError)
    assert "odd.yaml: 'proof' must be true or false, not " in str(refused)


def test_options_that_do_not_go_together_are_refused(output: Path) -> None:
    refused = invoked("prove", "out", "--row", "a7", "--sample", "3")
    assert (refused.exit_code, "--row shows one row; leave out --sample and --root" in refused.output) == (2, True)
    refused = invoked("prove", "out", "--recipe", "short.yaml")
    assert "--recipe and --set are for --sample N" in refused.output
    assert isinstance(invoked("prove", "in").exception, DataError)
