"""``dcurate compile``: every bundled recipe runs on a sample of the kind that it reads."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from dcurate import DcurateError
from dcurate.cli import cli
from dcurate.cli.samples import run_on_sample
from dcurate.recipe import bundled_recipes
from tests.conftest import ROOT

pytestmark = pytest.mark.program


def test_recipes_are_left_out_and_named_that_need_a_param_or_a_package_that_is_not_installed():
    program = "import sys; sys.modules['PIL'] = None; from dcurate.cli import cli; cli(['compile'])"
    result = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    done = [line.partition(":")[0] for line in result.stdout.splitlines() if ": compiled in" in line]
    left_out = [line.partition(":")[0] for line in result.stdout.splitlines() if ": left out" in line]
    assert sorted(done + left_out) == sorted(one.name for one in bundled_recipes())
    assert left_out == [
        "images",
        "learn",
        "learn-filter",
        "nemo-code",
        "pretrain",
        "speech-emilia",
        "speech-granary",
        "video-openvid",
    ]
    assert "dcurate compile nemo-code --set tokenizer=VALUE" in result.stdout
    assert "pip install 'dcurate[images]'" in result.stdout


def test_a_recipe_that_needs_a_param_is_refused_with_the_command_that_gives_it():
    result = CliRunner().invoke(cli, ["compile", "nemo-code"])
    assert "nemo-code has no default for 'tokenizer'; give it: dcurate compile nemo-code --set tokenizer=VALUE" in (
        f"{result.output} {result.exception}"
    )
    assert result.exit_code != 0


@pytest.mark.parametrize(("recipe", "given"), [("images", {}), ("pdf", {"timeout_s": 600}), ("video-openvid", {})])
def test_a_recipe_that_reads_no_documents_runs_on_files_of_its_own_kind(recipe, given, tmp_path):
    run_on_sample(recipe, given, str(tmp_path), trust=False)
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()], "rows came through all stages"


def test_a_folder_without_shards_is_refused_with_each_ending_once(tmp_path):
    for name in ("in", "run"):
        (tmp_path / name).mkdir()
    (tmp_path / "in" / "a.jsonl").write_text("{}")
    with pytest.raises(DcurateError) as refused:
        run_on_sample("images", {"input": str(tmp_path / "in")}, str(tmp_path / "run"), trust=False)
    looked_for = str(refused.value).partition("(looked for ")[2].partition(")")[0].split()
    assert len(looked_for) == len(set(looked_for)) > 2
