from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

from dcurate.events import GpuSample, HostSample, StageStats
from dcurate.runs.history import History
from dcurate.runs.snapshot import Note, RunSnapshot
from dcurate.ui.dashboard import html_blocks, tables
from dcurate.ui.dashboard.graph import pipeline
from dcurate.ui.dashboard.view_model import RunPanel, view
from dcurate_testing.dashboard_runs import Shape, at, history

EVIL = "<img src=x onerror=alert(1)>'\"&"


def seen(snapshot: RunSnapshot) -> RunPanel:
    history = History()
    history.take(snapshot)
    return view(history, now=snapshot.time)


def words(html: str) -> str:
    """What a person reads."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def test_names_that_users_gave_are_shown_as_they_are_and_never_become_markup() -> None:
    snapshot = at("7f3a", Shape(), 0.0, 60.0)
    operators = tuple(replace(one, name=EVIL, stages=(EVIL, EVIL)) for one in snapshot.operators)
    stages = (StageStats(EVIL, rows_in=9, dropped={EVIL + "1": 2}, faulty={EVIL + "2": 3}),)
    hosts = (HostSample(EVIL, 1, 1, 0.5, 1, 2, gpus=(GpuSample(EVIL, 1, 2, 0.5),)),)
    note = Note(1.0, EVIL, EVIL, EVIL)
    evil = replace(snapshot, run=EVIL, pipeline=EVIL, mode=EVIL, error=EVIL, operators=operators, stages=stages)
    evil = replace(evil, hosts=hosts, latest=(note,), output=EVIL)
    one = seen(evil)
    said = (
        html_blocks.runs([(evil, "running")], EVIL, "curation")
        | html_blocks.headline(one)
        | html_blocks.notes_beside(one)
    )
    said |= (
        pipeline(one) | tables.dropped(one) | tables.notes(one, [note]) | tables.hosts(hosts) | html_blocks.colours(one)
    )
    said |= html_blocks.shown_state(None, EVIL)
    for name, html in said.items():
        assert "<img" not in html, name
        assert "onerror=alert(1)>'" not in html, name
    for name in ("title", "error", "pipeline", "dropped", "quarantine", "notes", "hosts", "legend", "empty"):
        assert EVIL in words(said[name]), name


def test_every_part_within_another_has_a_text_of_its_own() -> None:
    one = view(history("7f3a", Shape(operators=9, phases=3), 0.0, until=60), now=60)
    said = html_blocks.runs([(one.now, one.state)], "7f3a", "curation") | html_blocks.headline(one) | pipeline(one)
    within = {unescape(name) for html in said.values() for name in re.findall(r'data-part="([^"]+)"', html)}
    assert within
    assert within <= said.keys()


def test_the_most_frequent_reasons_stand_first_and_the_rest_in_one_line() -> None:
    stages = [StageStats(f"rule-{number}", rows_in=1000, dropped={"": number + 1, "never": 0}) for number in range(20)]
    table = tables.dropped(seen(RunSnapshot("7f3a", "demo", "streaming", stages=tuple(stages))))["dropped"]
    rows = [words(row) for row in re.findall(r"<tr.*?</tr>", table)]
    assert rows[0] == "rule-19 20 2.0 %"
    assert rows[-1] == f"8 more reasons {sum(range(1, 9))}"
    assert len(rows) == tables.ROWS + 1


def test_notes_are_shown_newest_first_with_the_time_since_the_beginning() -> None:
    notes = [Note(100.0 + 65 * number, "decision", f"note {number}") for number in range(3)]
    table = tables.notes(seen(RunSnapshot("7f3a", "demo", "streaming", started=100.0, time=300.0)), notes)["notes"]
    assert words(table) == "2:10 balance note 2 1:05 balance note 1 0:00 balance note 0"


def test_what_waits_before_an_operator_is_marked_from_half_of_what_may_wait_on() -> None:
    def wire(nbytes: int) -> str:
        snapshot = at("7f3a", Shape(), 0.0, 60.0)
        first, second, third = snapshot.operators
        second = replace(second, waiting=3, waiting_bytes=nbytes)
        return pipeline(seen(replace(snapshot, operators=(first, second, third), budget_bytes=1000)))["wire 7f3a 1"]

    assert "high" not in wire(500)
    assert "high" in wire(501)
    assert words(wire(501)) == "3 501 B"


def test_runs_of_one_name_are_told_apart_by_time_and_output() -> None:
    one = RunSnapshot("1", "demo", "streaming", started=1e9, output="s3://bucket/corpora/monday")
    other = RunSnapshot("2", "demo", "streaming", started=1e9 + 3600, output="out")
    listed = html_blocks.runs([(one, "running"), (other, "running")], "1", "curation")
    assert "…/corpora/monday" in words(listed["run 1"])
    assert "out" in words(listed["run 2"])
    assert words(listed["run 1"]).split("begun")[1] != words(listed["run 2"]).split("begun")[1]
    assert words(html_blocks.headline(seen(one))["about"]).endswith("writes to s3://bucket/corpora/monday")


def test_the_owner_of_a_run_is_shown() -> None:
    run = RunSnapshot("1", "demo", "streaming", owner="<alice>@host")
    assert "<alice>@host" in words(html_blocks.runs([(run, "running")], "1", "curation")["run 1"])
    assert "run 1 of <alice>@host" in words(html_blocks.headline(seen(run))["about"])
    assert "<alice>" not in html_blocks.headline(seen(run))["about"]


def test_inner_rounds_are_named_after_the_stage_that_they_are_part_of() -> None:
    snapshot = at("7f3a", Shape(operators=4, phases=2), 0.0, 100.0)
    inner = tuple(replace(one, owner="near_duplicates" if one.phase else "") for one in snapshot.operators)
    html = words(pipeline(seen(replace(snapshot, operators=inner)))["pipeline"])
    assert "round 2: near_duplicates" in html
    assert "phase 1: inner" not in html


def test_links_to_runs_are_relative_so_that_they_hold_behind_any_proxy() -> None:
    snapshot = RunSnapshot("a/b?", "demo", "streaming")
    links = re.findall(r'href="([^"]*)"', html_blocks.runs([(snapshot, "running")], "", "curation")["runs"])
    assert links == ["curation?run=a%2Fb%3F"]
