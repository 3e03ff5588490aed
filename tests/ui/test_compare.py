import json
from dataclasses import replace

import pytest
from rich.console import Console

from dcurate.core.report import RunReport
from dcurate.events import StageStats
from dcurate.runs.load import RecordedRun
from dcurate.ui.compare import Comparison, compare, comparison_page


def recorded(least: int, **changes) -> RecordedRun:
    stages = (
        StageStats("read", 1, 100, 100, 5000, 5000, 1.0, faulty={"malformed line": 2}),
        StageStats("word_count", 1, 100, 100 - least, dropped={"word_count": least}, seconds=3.0),
        StageStats("write", 1, 100 - least, 100 - least, seconds=1.0),
    )
    report = RunReport("r", "p", "inline", 0.0, 2.0, stages, inputs_digest="aa", outputs_digest=f"b{least}")
    settings = [{"name": "word_count", "kind": "ScoreFilter", "settings": {"filter_obj": f"WordCountFilter({least})"}}]
    about = {"stages": [{"name": "read", "settings": {}}, *settings], "versions": {"dcurate": "1", "Python": "3.11"}}
    return replace(RecordedRun(report, about=about, address=f"/runs/{least}"), **changes)


@pytest.fixture
def found() -> Comparison:
    return compare(recorded(10), recorded(30))


def test_a_run_compared_with_itself_differs_in_nothing() -> None:
    same = compare(recorded(10), recorded(10))
    assert same.settings == ()
    assert {one.more for one in (*same.left, *same.reasons)} == {0}
    assert same.headline == "No stage removed more or fewer documents than in the other run."


def test_settings_that_differ_are_told_and_no_others(found: Comparison) -> None:
    assert [(one.of, one.name, one.first, one.second) for one in found.settings] == [
        ("word_count", "filter_obj", "WordCountFilter(10)", "WordCountFilter(30)")
    ]


def test_the_counts_of_both_runs_are_told_by_stage_and_reason_largest_change_first(found: Comparison) -> None:
    assert [(one.stage, one.first, one.second, one.more) for one in found.left] == [
        ("read", 100, 100, 0),
        ("word_count", 90, 70, -20),
        ("write", 90, 70, -20),
    ]
    assert [(one.name, one.more) for one in found.reasons] == [("word_count", 20), ("malformed line", 0)]
    assert found.headline == "Documents removed changed most by word_count +20."


def test_whether_input_and_output_are_the_same_is_told(found: Comparison) -> None:
    told = {one.name: one.second for one in found.figures}
    assert (told["input"], told["output"]) == ("aa (the same)", "b30 (another)")
    assert told["documents a second"] == "50"


def test_stages_and_versions_that_only_one_run_has_are_told() -> None:
    about = {"stages": [{"name": "read"}], "versions": {"dcurate": "2", "Python": "3.11"}}
    report = replace(recorded(10).report, stages=recorded(10).report.stages[:1])
    found = compare(recorded(10), recorded(10, about=about, report=report))
    assert [(one.of, one.name, one.first, one.second) for one in found.settings] == [
        ("word_count", "stage", "there", ""),
        ("version", "dcurate", "1", "2"),
    ]
    assert [(one.stage, one.second) for one in found.left] == [("read", 100), ("word_count", None), ("write", None)]


def test_what_a_report_of_an_earlier_version_does_not_say_is_told() -> None:
    values = recorded(10).report.to_dict()
    old = RecordedRun.of({name: value for name, value in values.items() if "digest" not in name}, None, "/runs/old")
    found = compare(old, recorded(30))
    assert found.unknown == ("settings and versions of A, of which its report says nothing",)
    assert [one.more for one in found.reasons] == [20, 0]


def test_it_is_shown_on_a_terminal_as_a_page_and_as_json(found: Comparison) -> None:
    console = Console(width=120)
    with console.capture() as shown:
        console.print(found)
    page = comparison_page(replace(found, names=("<a>", "b")))
    for text in (shown.get(), page):
        assert "word_count +20" in text
        assert "WordCountFilter(30)" in text
    assert "&lt;a&gt;" in page
    assert "http" not in page
    assert json.loads(json.dumps(found.to_dict()))["left"][1]["second"] == 70
