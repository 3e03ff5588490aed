"""What the command says, to people who write no Python."""

import json
import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.forked import finished

pytestmark = pytest.mark.program

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120"}

RECIPE = """
params: {input: in, output: out, mode: error, words: 1}
stages:
  - JsonlReader: {file_paths: ${input}, on_bad_line: quarantine}
  - ScoreFilter: {filter_obj: {WordCountFilter: {min_words: ${words}}}}
  - JsonlWriter: {path: ${output}, mode: ${mode}}
executor: {execution_mode: inline}
"""


@pytest.fixture
def here(tmp_path):
    """A directory with a recipe and one document."""
    (tmp_path / "r.yaml").write_text(RECIPE)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text(json.dumps({"text": "some words"}) + "\n")
    return tmp_path


def run(here, *arguments, **variables):
    command = [sys.executable, "-m", "dcurate.cli", *arguments]
    if not variables:
        return finished(command, cwd=here, env=ENVIRONMENT, timeout_s=120)
    return subprocess.run(  # Python reads them as it starts
        command, cwd=here, env=ENVIRONMENT | variables, capture_output=True, text=True, timeout=120, check=False
    )


def refused(here, *arguments):
    """The sentence with which a command ends that does nothing."""
    done = run(here, *arguments)
    assert done.returncode in (1, 2), done.stdout
    [line] = done.stderr.splitlines()
    return line.removeprefix("error: ")


@pytest.mark.parametrize("name", ["dedup", "fineweb"])
def test_a_bundled_recipe_is_printed_whole_to_begin_ones_own(here, name):
    done = run(here, "recipes", name)
    assert (done.returncode, done.stderr) == (0, "")
    (here / "mine.yaml").write_text(done.stdout)
    plan = run(here, "plan", "mine.yaml", "--input", "in")
    assert (plan.returncode, plan.stderr) == (0, "")


def test_an_unknown_bundled_recipe_is_one_sentence(here):
    assert refused(here, "recipes", "finewab") == "no bundled recipe is named 'finewab'; did you mean 'fineweb'?"


def test_the_list_of_commands_is_not_cut(here):
    assert "..." not in run(here, "--help").stdout.partition("Commands:")[2]


def test_an_output_that_is_in_use_is_refused_in_words_of_the_shell(here):
    assert run(here, "run", "r.yaml", "--quiet").returncode == 0
    said = refused(here, "run", "r.yaml", "--quiet")
    assert said.endswith(
        "go on with it with --resume, replace it with --set mode=overwrite, add to it with --set mode=append, "
        "or name another directory"
    )
    assert run(here, "run", "r.yaml", "--quiet", "--set", "mode=overwrite").returncode == 0
    assert run(here, "run", "r.yaml", "--quiet", "--resume").returncode == 0


def test_a_recipe_without_the_param_mode_takes_it_for_its_writer(here):
    fixed = RECIPE.replace(", mode: ${mode}", "").replace(", mode: error", "")
    assert "${mode}" not in fixed
    (here / "x.yaml").write_text(fixed)
    assert run(here, "run", "x.yaml", "--quiet").returncode == 0
    assert run(here, "run", "x.yaml", "--quiet").returncode == 1
    for mode in ("overwrite", "append"):
        assert run(here, "run", "x.yaml", "--quiet", "--set", f"mode={mode}").returncode == 0
    assert len(list((here / "out").glob("*.jsonl"))) == 2
    said = refused(here, "run", "x.yaml", "--set", "mode=owerwrite")
    assert said.startswith("x.yaml: jsonl_writer: mode='owerwrite'")
    (here / "x.yaml").write_text("".join(line for line in fixed.splitlines(True) if "Writer" not in line))
    assert refused(here, "plan", "x.yaml", "--set", "mode=append").startswith("x.yaml: 'mode' is for a writer")


def test_plan_names_an_extra_that_is_not_installed(here):
    (here / "sitecustomize.py").write_text("import sys\nsys.modules['pycld2'] = None\n")
    absent = {"PYTHONPATH": f"{here}{os.pathsep}{ROOT}"}
    text = RECIPE.splitlines(True)
    place = next(number for number, line in enumerate(text) if "Writer" in line)
    (here / "x.yaml").write_text("".join([*text[:place], "  - LanguageId\n", *text[place:]]))
    needs = "stage 'language_id': No module named 'pycld2'; this needs the 'lang' extra: pip install 'dcurate[lang]'"
    plan = run(here, "plan", "x.yaml", **absent)
    assert (plan.returncode, plan.stderr) == (0, f"not installed here: {needs}\n")
    done = run(here, "run", "x.yaml", "--quiet", **absent)
    assert (done.returncode, done.stderr) == (1, f"error: {needs}\n")


def test_plan_refuses_settings_of_the_executor_that_a_run_would_refuse(here):
    (here / "x.yaml").write_text(RECIPE.replace("execution_mode: inline", "execution_mod: batch"))
    said = "x.yaml, executor: the executor has no setting 'execution_mod'; did you mean 'execution_mode'?"
    assert refused(here, "plan", "x.yaml") == said
    assert refused(here, "run", "x.yaml") == said


def test_settings_of_a_recipe_have_an_effect_in_mode_inline_or_are_named(here):
    refusal = "x.yaml, executor: executor setting memory_share has no effect in mode inline, which has no workers"
    (here / "x.yaml").write_text(RECIPE.replace("inline}", "inline, memory_share: 0.1}"))
    assert refused(here, "run", "x.yaml") == refused(here, "plan", "x.yaml") == f"{refusal}; leave it out"
    (here / "x.yaml").write_text(RECIPE.replace("execution_mode: inline", "ignore_failures: true, memory_share: 0.1"))
    done = run(here, "run", "x.yaml", "--mode", "inline", "--quiet")
    said = "'memory_share' of the recipe: no effect in mode inline, which has no workers\n"
    assert (done.returncode, done.stderr) == (0, said)
    (here / "x.yaml").write_text(RECIPE.replace("execution_mode: inline", "memory_share: 7"))
    assert "memory_share=7 is a share: at most 1" in refused(here, "run", "x.yaml", "--mode", "inline")


def test_a_recipe_without_a_writer_says_that_nothing_was_written(here):
    (here / "x.yaml").write_text("".join(line for line in RECIPE.splitlines(True) if "Writer" not in line))
    done = run(here, "run", "x.yaml", "--progress", "none")
    said = "nothing was written: end the recipe with a writer, such as JsonlWriter: {path: out}\n"
    assert (done.returncode, done.stderr) == (0, said)
    assert run(here, "run", "x.yaml", "--quiet").stderr == ""


@pytest.mark.parametrize(
    ("content", "settings", "sentence"),
    [
        ("", (), "the input has no documents"),
        ('{"text": "few"}\n', ("--set", "words=9"), "no documents are left: --rejected PATH keeps dropped documents"),
        ("no json\n", (), "no documents are left: all went to quarantine, which says what is wrong"),
        ('{"text": "some"}\nno json\n', (), ""),
    ],
    ids=["empty", "dropped", "quarantined", "some left"],
)
def test_a_run_that_leaves_nothing_says_so_at_its_end(here, content, settings, sentence):
    (here / "in" / "a.jsonl").write_text(content)
    done = run(here, "run", "r.yaml", "--progress", "none", *settings)
    assert done.returncode == 0
    assert done.stderr.startswith(sentence)
    assert bool(done.stderr) == bool(sentence)


def test_files_that_a_recipe_does_not_read_are_reported_in_the_table(here):
    (here / "in" / "b.parquet").write_bytes(b"")
    done = run(here, "run", "r.yaml", "--progress", "none")
    assert "notice  left out 'b.parquet', whose name is not that of a JSONL file; DocumentReader reads" in done.stdout


def test_a_terminal_without_a_sign_does_not_stop_a_run_at_its_end(here):
    done = run(here, "run", "r.yaml", "--progress", "none", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "word_count" in done.stdout


def test_a_module_beside_the_recipe_hides_no_package(here):
    (here / "yaml.py").write_text("raise SystemError('this is not PyYAML')")
    (here / "own.py").write_text(
        "from dcurate.text import WordCountFilter\n\n\nclass Own(WordCountFilter):\n    pass\n"
    )
    (here / "r.yaml").write_text(RECIPE.replace("{WordCountFilter:", "{'own:Own':"))
    command = [sys.executable, "-P", "-m", "dcurate.cli", "plan", "r.yaml", "--trust"]
    done = subprocess.run(command, cwd=here, env=ENVIRONMENT, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
