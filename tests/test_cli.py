"""The command line, as a person runs it: every test starts real processes."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import dcurate
from tests.conftest import ROOT, scheduler_and_workers, wait_until
from tests.forked import finished
from tests.places import records

pytestmark = pytest.mark.cluster

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120"}

RECIPE = """
name: small
description: Keeps what has enough words.
params: {input: in, output: out, min_words: 4, seconds: 0, mode: error}
stages:
  - JsonlReader: {file_paths: ${input}, files_per_partition: 1, on_bad_line: quarantine}
  - slow_stage:Slow: {seconds: ${seconds}}
  - ScoreFilter: {filter_obj: {WordCountFilter: {min_words: ${min_words}}}, score_field: word_count}
  - JsonlWriter: {path: ${output}, mode: ${mode}}
executor: {logging_interval: 3}
"""

SLOW = """
import time
from dataclasses import dataclass

from dcurate import ProcessingStage


@dataclass
class Slow(ProcessingStage):
    seconds: float = 0

    def process(self, task):
        time.sleep(self.seconds)
        return task


class Broken(ProcessingStage):
    def process(self, task):
        raise ZeroDivisionError("nothing to divide by")
"""


@pytest.fixture
def here(tmp_path):
    """A directory with a recipe, a stage of one's own and six files of ten documents, of which each fifth is short."""
    (tmp_path / "r.yaml").write_text(RECIPE)
    (tmp_path / "slow_stage.py").write_text(SLOW)
    (tmp_path / "in").mkdir()
    for part in range(6):
        rows = [
            {"url": f"{part}/{row}", "text": "short" if row % 5 == 0 else f"document number {row} of part {part}"}
            for row in range(10)
        ]
        (tmp_path / "in" / f"part-{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def command(*arguments):
    """The command line; recipes with a stage of their own are trusted."""
    own = arguments[1:2] in {(name,) for name in ("r.yaml", "broken.yaml", "setting.yaml")}
    return [sys.executable, "-m", "dcurate.cli", *map(str, arguments), *(["--trust"] if own else [])]


def run(*arguments, cwd=None):
    return finished(command(*arguments), cwd=cwd, env=ENVIRONMENT, timeout_s=120)


def written(output):
    """The rows under an output directory, in a fixed order."""
    lines = [line for path in Path(output).glob("*.jsonl") for line in path.read_text().splitlines()]
    return sorted(lines)


def report(output):
    return json.loads((records(output) / "report.json").read_text())


def test_help_and_version_are_there():
    helped, version = run("--help"), run("--version")
    assert helped.returncode == 0
    assert all(name in helped.stdout for name in ("run", "plan", "recipes"))
    assert (version.returncode, version.stdout) == (0, f"dcurate {dcurate.__version__}\n")


def test_help_and_recipes_do_not_load_dask():
    code = (
        "import sys; sys.argv = ['dcurate', 'recipes']\nimport dcurate.cli\n"
        "try: dcurate.cli.main()\nexcept SystemExit: pass\n"
        "assert not {'dask', 'distributed', 'pandas', 'pyarrow', 'numba'} & {*sys.modules}"
    )
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_recipes_lists_what_is_bundled():
    done = run("recipes")
    assert done.returncode == 0
    assert "demo" in done.stdout
    assert "nemo-english" in done.stdout
    assert "input: (required)" in done.stdout


WRONG = {
    ("run",): "error: Missing argument 'RECIPE'.",
    ("runn",): "error: No such command 'runn'. Did you mean 'run'?",
    ("run", "r.yaml", "--mod", "batch"): "error: No such option '--mod'. Did you mean '--mode'?",
    ("run", "r.yaml", "--workers", "0"): "error: Invalid value for '--workers': 0 is not in the range x>=1.",
    ("run", "dem"): "error: 'dem' is neither a recipe file nor the name of a bundled recipe; did you mean 'demo'?",
    ("plan", "r.yaml", "--set", "min_word=3"): (
        "error: r.yaml: the recipe has no param 'min_word'; did you mean 'min_words'?"
    ),
    ("plan", "r.yaml", "--set", "min_words"): "error: 'min_words' is not a setting; write it as key=value",
    ("plan", "nemo-english"): (
        "error: nemo-english.yaml: param 'input' has no default; give it with --set input=VALUE"
    ),
    ("plan", "bad.yaml"): (
        "error: bad.yaml, stage 1 (JsonlReader): JsonlReader has no argument 'file_path'; did you mean 'file_paths'?"
    ),
    ("run", "r.yaml", "--workers", "2", "--scheduler", "tcp://a:1"): (
        "error: --workers starts workers here and --scheduler uses those of a cluster; give one of them"
    ),
    ("run", "r.yaml", "--scheduler", ""): (
        "error: --scheduler has no address; give one, or leave the option out to run on this machine"
    ),
    ("run", "in/part-0.jsonl"): (
        "error: 'in/part-0.jsonl' is data, not a recipe; name a recipe, and give it the data: "
        "dcurate run demo --input in/part-0.jsonl"
    ),
    ("plan", "unknown.yaml", "--trust"): (
        "error: unknown.yaml, stage 1 (slow_stage:Xyz): module 'slow_stage' has no 'Xyz'; there are 'Slow', 'Broken'"
    ),
    ("run", "r.yaml", "--workers", "2", "--mode", "inline"): (
        "error: mode inline uses no workers; leave out --scheduler and --workers"
    ),
    ("run", "setting.yaml"): (
        "error: setting.yaml, executor: the executor has no setting 'exec_mode'; did you mean 'execution_mode'?"
    ),
}


@pytest.mark.parametrize("arguments", WRONG, ids=" ".join)
def test_wrong_use_is_one_sentence_and_exit_code_2(here, arguments):
    (here / "bad.yaml").write_text("stages:\n  - JsonlReader: {file_path: x}\n")
    (here / "unknown.yaml").write_text("stages:\n  - slow_stage:Xyz: {}\n")
    (here / "setting.yaml").write_text(RECIPE.replace("logging_interval: 3", "exec_mode: batch"))
    done = run(*arguments, cwd=here)
    assert (done.returncode, done.stderr, done.stdout) == (2, WRONG[arguments] + "\n", "")


def test_debug_adds_the_traceback(here):
    done = run("plan", "dem", "--debug", cwd=here)
    assert done.returncode == 2
    assert done.stderr.startswith("Traceback (most recent call last):")
    assert done.stderr.splitlines()[-1].startswith("error: 'dem' is neither a recipe file")


def test_plan_shows_params_operators_and_columns(here):
    done = run("plan", "r.yaml", "--set", "min_words=7", cwd=here)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "small: Keeps what has enough words."
    assert "  min_words: 7" in lines
    assert "Operator 1: jsonl_reader-jsonl_writer, 4 stages fused into one task" in lines
    assert any("reads text; adds word_count" in line for line in lines)
    assert not (here / "out").exists()


def test_plan_says_that_many_small_files_are_packed(here):
    (here / "r.yaml").write_text(RECIPE.replace("files_per_partition: 1, ", ""))
    for number in range(1000):
        (here / "in" / f"small-{number}.jsonl").write_text('{"url": "1", "text": "small"}\n')
    mean = sum(path.stat().st_size for path in (here / "in").iterdir()) / 1006
    said = f"1,006 files of {mean:.0f} bytes on average are packed, up to 16 a split; blocksize='32MiB' packs more"
    assert said in run("plan", "r.yaml", cwd=here).stdout


@pytest.mark.parametrize("mode", ["inline", "batch", "streaming"])
def test_a_run_writes_the_documents_and_reports(here, mode):
    done = run("run", "r.yaml", "--mode", mode, "--set", "min_words=2", "--output", "there", cwd=here)
    assert done.returncode == 0, done.stderr
    assert len(written(here / "there")) == 48
    assert json.loads(written(here / "there")[0]) == {
        "url": "0/1",
        "text": "document number 1 of part 0",
        "word_count": 6,
    }
    values = report(here / "there")
    assert (values["mode"], values["splits"], values["stages"][-1]["rows_out"]) == (mode, 6, 48)
    assert [stage["dropped"] for stage in values["stages"]] == [{}, {}, {"word_count": 12}, {}]
    shown = [line.rstrip() for line in done.stdout.splitlines()]
    page = shown.pop()
    assert page.endswith("report.html")
    assert (here / "there.dcurate/report.html").is_file()
    assert (here / "there.dcurate/report.txt").read_text().splitlines() == shown
    assert shown[0] == f"small: {mode}, run {values['run']}"
    assert shown[-1].endswith("there (6 files)")


def test_quiet_says_nothing(here):
    done = run("run", "r.yaml", "--mode", "inline", "--quiet", cwd=here)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len(written(here / "out")) == 48


def test_inspect_names_the_stages_that_dropped_documents(here):
    assert run("run", "r.yaml", "--mode", "inline", "--quiet", cwd=here).returncode == 0
    done = run("inspect", "out", cwd=here)
    said = "error: name the stage with --dropped-by; documents were dropped by 'word_count'\n"
    assert (done.returncode, done.stderr) == (2, said)


def test_rejected_documents_are_kept_where_asked(here):
    done = run("run", "r.yaml", "--mode", "inline", "--rejected", "dropped", cwd=here)
    assert done.returncode == 0, done.stderr
    kept = [json.loads(line) for path in (here / "dropped").rglob("*.jsonl") for line in path.read_text().splitlines()]
    assert len(kept) == 12
    assert {row["text"] for row in kept} == {"short"}


def test_malformed_lines_are_quarantined_and_counted(here):
    with (here / "in" / "part-0.jsonl").open("a") as file:
        file.write("{not json\n")
    done = run("run", "r.yaml", "--mode", "inline", cwd=here)
    assert done.returncode == 0, done.stderr
    assert "1 quarantined" in done.stdout
    assert "out.dcurate/quarantine(1document)" in "".join(done.stdout.split())  # a long path is wrapped
    assert len(written(here / "out")) == 48


def test_a_run_on_the_sample_ends_with_commands_that_work_on_own_files(here):
    done = run("run", "demo", "--mode", "inline", "--output", "demo", cwd=here)
    assert done.returncode == 0
    head, *lines = done.stderr[done.stderr.index("next, with") :].splitlines()
    assert head == "next, with a folder of your own files (JSONL, CSV, Parquet):"
    commands = [re.split(r"  +", line.strip())[0] for line in lines]
    assert len(commands) == 3
    for command in commands:
        own = command.replace("FOLDER", "in").replace("OUT", "own").split()
        assert own[0] == "dcurate"
        assert (again := run(*own[1:], cwd=here)).returncode == 0
        assert "next, with" not in again.stderr
    assert (here / "own").is_dir()


def test_a_run_that_fails_is_one_sentence_and_exit_code_1(here):
    (here / "broken.yaml").write_text(RECIPE.replace("slow_stage:Slow: {seconds: ${seconds}}", "slow_stage:Broken"))
    done = run("run", "broken.yaml", "--mode", "inline", "--quiet", cwd=here)
    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("error: stage 'broken' failed on batch")
    assert "ZeroDivisionError: nothing to divide by" in line


@pytest.mark.parametrize(
    ("arguments", "code", "last"),
    [
        (["r.yaml", "--set", "min_words=1000"], 0, {"notice": "no documents are left: --rejected PATH keeps dropped"}),
        (["nothing.yaml"], 2, {"error": "'nothing.yaml' is neither a recipe file"}),
        (["r.yaml", "--mod", "inline"], 2, {"error": "No such option '--mod'. Did you mean '--mode'?"}),
        (["broken.yaml"], 1, {"error": "stage 'broken' failed on batch"}),
        (["broken.yaml", "--debug"], 1, {"error": "stage 'broken' failed on batch", "trace": "Traceback (most"}),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else None,
)
def test_where_progress_is_json_all_that_is_said_is(here, arguments, code, last):
    (here / "broken.yaml").write_text(RECIPE.replace("slow_stage:Slow: {seconds: ${seconds}}", "slow_stage:Broken"))
    done = run("run", *arguments, "--mode", "inline", "--progress", "json", cwd=here)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert done.returncode == lines[-1].get("code", 0) == code
    assert all(lines[-1][name].startswith(said) for name, said in last.items())
    assert [line for line in lines if "error" in line and "state" not in line] == lines[-1:] * bool(code)


def test_a_failing_stage_on_workers_is_one_sentence_too(here):
    (here / "broken.yaml").write_text(RECIPE.replace("slow_stage:Slow: {seconds: ${seconds}}", "slow_stage:Broken"))
    done = run("run", "broken.yaml", "--workers", "1", "--quiet", cwd=here)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("error: stage 'broken' failed on batch")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--input", "nowhere"), "nowhere"),
        (("--output", "in", "--set", "mode=error"), "in"),
        (("--scheduler", "tcp://127.0.0.1:1"), "no Dask scheduler answers at 'tcp://127.0.0.1:1'"),
    ],
)
def test_what_is_not_there_ends_a_run_with_one_sentence(here, arguments, words):
    mode = () if "--scheduler" in arguments else ("--mode", "inline")
    done = run("run", "r.yaml", "--quiet", *mode, *arguments, cwd=here)
    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert words in line


def test_a_running_scheduler_with_workers_of_its_own_does_the_work(here):
    (here / "plain.yaml").write_text(RECIPE.replace("  - slow_stage:Slow: {seconds: ${seconds}}\n", ""))
    with scheduler_and_workers(here, "--nworkers", "1") as address:
        done = run("run", "plain.yaml", "--scheduler", address, "--rejected", "dropped", cwd=here)
        again = run("run", "plain.yaml", "--scheduler", address, "--mode", "batch", "--output", "out2", cwd=here)
    assert done.returncode == 0, done.stderr
    assert again.returncode == 0, again.stderr
    assert len(written(here / "out")) == 48
    assert written(here / "out") == written(here / "out2")
    assert len(written(here / "dropped")) == 12  # paths mean those of the one who runs it, wherever workers run


@pytest.mark.parametrize("mode", ["inline", "streaming"])
def test_ctrl_c_stops_cleanly_and_resume_does_the_rest(here, mode):
    arguments = ["run", "r.yaml", "--mode", mode, "--set", "seconds=0.4"]
    for part in range(6):
        shutil.copy(here / "in" / f"part-{part}.jsonl", here / "in" / f"again-{part}.jsonl")
    minding = ["env", "--default-signal=INT"]  # what a shell starts in the background would ignore it
    started = subprocess.Popen(
        [*minding, *command(*arguments)],
        cwd=here,
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        wait_until(lambda: len(written(here / "out")) >= 24, "output")  # one split is recorded; two may still end
    finally:
        os.killpg(started.pid, signal.SIGINT)  # a terminal signals the whole group
        _, said = started.communicate(timeout=60)
    assert started.returncode == 130, said
    assert "Traceback" not in said
    assert said.splitlines()[-1] == (
        f"interrupted; resume with: dcurate run r.yaml --mode {mode} --set seconds=0.4 --trust --resume"
    )
    assert 24 <= len(written(here / "out")) < 96
    resumed = run("run", "r.yaml", "--mode", "inline", "--set", "seconds=0.4", "--resume", cwd=here)
    assert resumed.returncode == 0, resumed.stderr
    assert report(here / "out")["splits_before"] >= 1
    line = '{"url": "%d/%d", "text": "document number %d of part %d","word_count":6}'
    rows = [(part, row) for part in range(6) for row in range(10) if row % 5] * 2
    assert written(here / "out") == sorted(line % (part, row, row, part) for part, row in rows)


def test_a_recipe_is_compiled_without_leaving_output(here):
    before = sorted(here.rglob("*"))
    done = run("compile", "demo", cwd=here)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"demo: compiled in \d+\.\d s\n", done.stdout)
    assert sorted(here.rglob("*")) == before
