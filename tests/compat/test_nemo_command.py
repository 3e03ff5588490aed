"""``dcurate nemo``: a script runs as python runs it."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import psutil
import pytest

from dcurate.cluster import nannies
from dcurate.compat.nemo import script
from tests.conftest import ROOT

pytestmark = pytest.mark.cluster

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120"}

#: A module beside the script, which worker processes import.
HELPER = """
from nemo_curator.tasks import DocumentBatch
import nemo_curator.stages.text.filters as filters

class Longer(filters.DocumentFilter):
    def score_document(self, text):
        return len(text)

    def keep_document(self, score):
        return score > 3
"""

PIPELINE = """
import multiprocessing

import helper
from nemo_curator.backends.xenna import XennaExecutor
from nemo_curator.pipeline import Pipeline
from nemo_curator.stages.text.filters import DocumentFilter, ScoreFilter
from nemo_curator.stages.text.io.reader import JsonlReader
from nemo_curator.stages.text.io.writer import JsonlWriter

print("once")


class Long(DocumentFilter):
    def score_document(self, text):
        assert multiprocessing.parent_process() is not None, "not in a worker process"
        return len(text)

    def keep_document(self, score):
        return score > 5


pipeline = Pipeline("small")
pipeline.add_stage(JsonlReader("in"))
pipeline.add_stage(ScoreFilter([helper.Longer(), Long()], text_field="text"))
pipeline.add_stage(JsonlWriter("out"))
pipeline.run(XennaExecutor())
"""

#: Filters of which two tell about their rows.
VERBOSE = """
from nemo_curator.pipeline import Pipeline
from nemo_curator.stages.text.filters import Filter, Score, ScoreFilter
from nemo_curator.stages.text.filters.heuristic.string import NonAlphaNumericFilter, WordCountFilter
from nemo_curator.stages.text.io.reader import JsonlReader
from nemo_curator.stages.text.io.writer import JsonlWriter

stages = [
    JsonlReader("in"),
    Score(len, "size"),
    Filter(lambda size: size > 3, "size", name="long", verbose=True),
    ScoreFilter(NonAlphaNumericFilter()),
    ScoreFilter(WordCountFilter(min_words=2), name="count", verbose=True),
    JsonlWriter("out"),
]
Pipeline("small", stages=stages).run()
"""

#: Prints what a script can see of how it was started.
SEEN = """
import json, os, signal, sys
print(json.dumps({
    "argv": sys.argv, "path": sys.path[0], "file": __file__, "name": __name__, "package": __package__, "spec": __spec__,
    "safe": os.environ.get("PYTHONSAFEPATH"), "term": str(signal.getsignal(signal.SIGTERM)),
    "int": str(signal.getsignal(signal.SIGINT) is signal.default_int_handler), "main": sys.modules["__main__"].__name__,
}))
"""

#: Starts a process that imports the script.
SPAWNS = """
import multiprocessing

def more(x):
    return x + 1

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(more, [1, 2]))
"""

ENDS = {
    "raise ValueError('boom')": 1,
    "def f(:": 1,
    "import sys; sys.exit(7)": 7,
    "import sys; sys.exit('no')": 1,
    "class A(Exception): pass\ntry: 1/0\nexcept ZeroDivisionError as e: raise A('why') from e": 1,
    "import nothing_of_this_name": 1,
    "raise SystemExit": 0,
    "": 0,
}


@pytest.fixture
def here(tmp_path):
    (tmp_path / "in").mkdir()
    rows = [{"text": "a"}, {"text": "short"}, {"text": "a longer text"}]
    (tmp_path / "in" / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def run(here, *command):
    return subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=here,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def nemo(here, *arguments):
    return run(here, "-m", "dcurate.cli", "nemo", *arguments)


def test_a_script_without_a_main_guard_runs_once_on_worker_processes(here):
    (here / "helper.py").write_text(HELPER)
    (here / "pipeline.py").write_text(PIPELINE)
    done = nemo(here, "pipeline.py")
    assert (done.returncode, done.stdout.count("once")) == (0, 1), done.stderr
    written = [json.loads(path.read_text()) for path in (here / "out").glob("*.jsonl")]
    assert written == [{"text": "a longer text"}]


def test_filters_say_on_stderr_how_many_rows_they_keep(here):
    (here / "script.py").write_text(VERBOSE)
    done = nemo(here, "script.py")
    assert done.returncode == 0, done.stderr
    said = re.findall(r"^(\w+) batch \S+ retained (\d+)/(\d+) rows$", done.stderr, re.MULTILINE)
    assert said == [("long", "2", "3"), ("count", "1", "2")]


@pytest.mark.parametrize("arguments", [[], ["--debug", "--trust", "-m", "x", "--", "y"]])
def test_a_script_sees_what_python_shows_it(here, arguments):
    (here / "folder").mkdir()
    (here / "folder" / "seen.py").write_text(SEEN)
    assert nemo(here, "folder/seen.py", *arguments).stdout == run(here, "folder/seen.py", *arguments).stdout


def test_a_module_runs_and_so_does_a_package(here):
    (here / "package").mkdir()
    (here / "package" / "__main__.py").write_text("from . import own\nimport sys\nprint(own.x, __package__, sys.argv)")
    (here / "package" / "own.py").write_text("x = 1\nif __name__ == '__main__': import nemo_curator.tasks; print(2)")
    assert nemo(here, "-m", "package", "a").stdout == run(here, "-m", "package", "a").stdout
    assert nemo(here, "-m", "package.own").stdout == "2\n"
    assert "No module named nothing" in nemo(here, "-m", "nothing").stderr


def test_programs_of_nemo_curator_run_or_say_what_to_use(here):
    program = ("-m", "nemo_curator.utils.split_large_files", "--input-path", "in", "--output-path", "parts")
    assert nemo(here, *program, "--file-type", "jsonl").returncode == 0
    assert (here / "parts" / "a_0.jsonl").read_text() == (here / "in" / "a.jsonl").read_text()
    assert nemo(here, "-m", "nemo_curator.utils.merge_file_prefixes", "--help").stdout.startswith("usage: ")
    ended = nemo(here, "-m", "nemo_curator.metrics.start_prometheus_grafana", "--yes")
    assert (ended.returncode, "`dcurate monitor up` starts" in ended.stderr) == (1, True)


@pytest.mark.parametrize("source", ENDS)
def test_a_script_ends_with_the_exit_code_and_the_traceback_of_python(here, source):
    (here / "ends.py").write_text(source)
    ours, python = nemo(here, "ends.py"), run(here, "ends.py")
    assert (ours.returncode, ours.stdout, ours.stderr) == (ENDS[source], python.stdout, python.stderr)


def test_a_package_that_came_with_nemo_curator_is_named_with_the_way_to_install_it(here):
    (here / "logs.py").write_text("import sys\nsys.modules['hydra'] = None\nfrom hydra import compose\n")
    done = nemo(here, "logs.py")
    assert done.returncode == 1
    assert done.stderr.endswith("NeMo Curator installs hydra, dcurate does not: pip install hydra-core\n")


def test_a_script_that_is_not_there_ends_with_2_as_in_python(here):
    ours, python = nemo(here, "none.py"), run(here, "none.py")
    assert ours.returncode == python.returncode == 2
    assert "can't open file" in ours.stderr
    assert str(here / "none.py") in ours.stderr


def test_ctrl_c_ends_a_script_as_in_python(here):
    (here / "waits.py").write_text("import time\nprint('here', flush=True)\ntime.sleep(60)")
    process = subprocess.Popen(
        [
            "env",
            "--default-signal=INT",
            sys.executable,
            "-m",
            "dcurate.cli",
            "nemo",
            "waits.py",
        ],  # also in the background
        cwd=here,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"
    while psutil.Process(process.pid).status() != psutil.STATUS_SLEEPING:  # busy, or waiting for a core
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert re.search(r"time\.sleep\(60\)\n( *~*\^*\n)?KeyboardInterrupt\n$", errors)  # Python 3.13 underlines the call


def test_other_processes_of_a_script_import_it(here):
    (here / "spawns.py").write_text(SPAWNS)
    assert nemo(here, "spawns.py").stdout == "[2, 3]\n"


def test_the_name_of_worker_processes_is_the_engines():
    assert script.WORKER_PROCESS == nannies.WORKER_PROCESS
