import json

import fsspec
import pytest

from dcurate import ExactDuplicates, InlineExecutor, JsonlWriter, Pipeline, StageError
from dcurate.core.report import RunReport
from dcurate.runs.history import History
from tests.stages import Append, FailOn, Numbers

FILES = ["history.json", "report.html", "report.json", "report.txt"]


def run(tmp_path, *stages):
    pipeline = Pipeline("recorded", stages=[Numbers(3), *stages, JsonlWriter(str(tmp_path / "out"))])
    return pipeline.run(InlineExecutor())


def test_every_run_leaves_its_report_beside_its_output(tmp_path):
    result = run(tmp_path, ExactDuplicates(), Append())
    own = tmp_path / "out.dcurate"
    assert [name for name in FILES if (own / name).is_file()] == FILES
    values = json.loads((own / "report.json").read_text())
    assert values.pop("about")["stages"][0]["name"] == "numbers"
    assert RunReport.from_dict(values) == result.report
    kept = History.from_dict(json.loads((own / "history.json").read_text()))
    assert kept.snapshot() == result.history.snapshot()
    assert f"{result.report.run}" in (own / "report.html").read_text()
    assert "append" in (own / "report.txt").read_text()


def test_a_run_that_fails_leaves_a_report_of_why(tmp_path):
    with pytest.raises(StageError):
        run(tmp_path, FailOn("7"))
    values = json.loads((tmp_path / "out.dcurate/report.json").read_text())
    assert "fail_on" in values["error"]
    assert "stopped" in (tmp_path / "out.dcurate/report.html").read_text()


def test_reports_go_to_any_store(tmp_path):
    Pipeline("stored", stages=[Numbers(1), JsonlWriter("memory://recorded/out")]).run(InlineExecutor())
    with fsspec.open("memory://recorded/out.dcurate/report.json") as file:
        assert json.load(file)["pipeline"] == "stored"


def test_without_a_writer_nothing_is_left_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Pipeline("unwritten", stages=[Numbers(1)]).run(InlineExecutor())
    assert list(tmp_path.iterdir()) == []
