"""A real Prometheus, started by ``dcurate monitor``, watches a real cluster: its answers are the runs' own figures."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import psutil
import pytest

from dcurate import AttachedCluster, DaskExecutor, Pipeline, ResourceError, StageError
from dcurate.core.report import RunReport
from dcurate.ui.metrics.definitions import RUN_METRICS, WORKER_METRICS
from dcurate.ui.monitor.config import ALERTS, DASHBOARD, DASHBOARD_UID, PROMETHEUS, Watched, write_config
from dcurate.ui.monitor.processes import RUNNING, down, missing, up
from tests.conftest import ROOT, free_port, wait_until
from tests.stages import DieOnce, FailOn, Numbers
from tests.ui.watched import Watch, finished, get, monitor, tool, watched, worker_of

pytestmark = pytest.mark.cluster

ALERT_TESTS = Path(__file__).with_name("alerts.test.yml")

PAGE = ROOT / "docs" / "howto" / "monitoring.md"

#: Panels that have nothing to show of a cluster without GPUs on which nothing goes wrong.
MAY_BE_EMPTY = {"GPU memory in use", "GPU at work", "Alerts"}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Watch, list[RunReport]]]:
    """Prometheus after it has watched two runs of a pipeline and one of another."""
    with watched(tmp_path_factory.mktemp("watched")) as watch:
        reports = [watch.run("numbers")]
        wait_until(lambda: len(watch.values('up{job="dcurate-workers"} == 1')) == 2, "both workers are scraped")
        reports += [watch.run("numbers"), watch.run("others", splits=10)]
        wait_until(lambda: watch.value('dcurate_runs_ended_total{pipeline="others"} > 0'), "the last run's end")
        yield watch, reports


def test_prometheus_answers_what_the_reports_of_two_runs_come_to(seen: tuple[Watch, list[RunReport]]) -> None:
    watch, (first, second, _) = seen
    for before, after in zip(first.stages, second.stages, strict=True):
        of = f'{{pipeline="numbers", stage="{after.name}"}}'
        assert watch.value(f"dcurate_stage_input_rows_total{of}") == before.rows_in + after.rows_in
        assert watch.value(f"dcurate_stage_output_rows_total{of}") == before.rows_out + after.rows_out
        assert watch.value(f"dcurate_stage_input_bytes_total{of}") == before.bytes_in + after.bytes_in
        assert watch.value(f"dcurate_stage_output_bytes_total{of}") == before.bytes_out + after.bytes_out
        assert watch.value(f"dcurate_stage_batches_total{of}") == before.batches + after.batches
        assert watch.value(f"dcurate_stage_seconds_total{of}") == pytest.approx(before.seconds + after.seconds)
        dropped = {reason: 2 * count for reason, count in after.dropped.items()}
        assert watch.values(f"sum by (reason) (dcurate_stage_drops_total{of})") == {(k,): v for k, v in dropped.items()}
        assert watch.value(f"dcurate_stage_dropped_rows_total{of}") == sum(dropped.values())


def test_prometheus_knows_faults_tokens_splits_and_how_runs_ended(seen: tuple[Watch, list[RunReport]]) -> None:
    watch, (first, second, _) = seen
    assert watch.value('dcurate_stage_faulty_rows_total{pipeline="numbers", stage="parse"}') == 2
    assert list(watch.values('dcurate_stage_faults_total{pipeline="numbers"}').values()) == [2]
    tokens = sum(stage.metrics["tokens"] for run in (first, second) for stage in run.stages if stage.metrics)
    assert watch.value('dcurate_stage_tokens_total{pipeline="numbers"}') == tokens > 0
    calls = sum(stage.batches for run in (first, second) for stage in run.stages if stage.name == "count_tokens")
    assert watch.value('dcurate_stage_logged_total{pipeline="numbers", metric="lookups"}') == calls > 0
    assert watch.value('dcurate_splits_finished_total{pipeline="numbers"}') == 120
    assert watch.value('dcurate_runs_started_total{pipeline="numbers"}') == 2
    ended = watch.values('sum by (outcome) (dcurate_runs_ended_total{pipeline="numbers"})')
    assert ended == {("finished",): 2, ("failed",): 0}
    assert watch.value('dcurate_input_rows_total{pipeline="others"}') == 10 * 40


def test_prometheus_saw_slots_queues_and_hosts_while_the_runs_went_on(seen: tuple[Watch, list[RunReport]]) -> None:
    watch, _ = seen
    most = "max_over_time(sum({})[5m:1s])"
    assert watch.value(most.format('dcurate_operator_slots{operator="slow"}')) == 1
    assert watch.value(most.format("dcurate_host_workers")) == 2
    assert (watch.value(most.format("dcurate_host_memory_bytes")) or 0) > 50e6
    assert (watch.value(most.format("dcurate_queue_budget_bytes")) or 0) > 0
    assert (watch.value(most.format('dcurate_operator_waiting_batches{operator="slow"}')) or 0) > 0
    assert not watch.values("dcurate_run_info")  # no run goes on


def test_the_workers_own_counts_are_those_of_the_runs(seen: tuple[Watch, list[RunReport]]) -> None:
    watch, reports = seen
    batches = sum(stage.batches for run in reports for stage in run.stages if stage.name == "slow")
    copies = watch.value('sum(dcurate_incidents_total{kind="copied"})') or 0  # of calls that a busy machine held up
    calls = 'sum(dcurate_worker_calls_total{operator="slow"})'
    wait_until(lambda: (watch.value(calls) or 0) >= batches, "a call for each batch")
    assert (watch.value(calls) or 0) <= batches + copies
    assert watch.value("sum(dcurate_worker_call_failures_total)") == 0
    seconds = watch.value('sum(dcurate_worker_call_seconds_total{operator="slow"})') or 0
    told = watch.value('sum(dcurate_operator_batch_duration_seconds_sum{operator="slow"})') or 0
    assert seconds >= told - 1e-6
    assert copies or seconds == pytest.approx(told)
    wait_until(lambda: watch.value("sum(dcurate_worker_slots)") == 0, "no slots after the last run")
    hosts = {labels[0] for labels in watch.values("count by (host) (dcurate_worker_info)")}
    assert hosts == {labels[0] for labels in watch.values("count by (host) (max_over_time(dcurate_host_workers[5m]))")}


def test_the_median_of_the_histogram_is_near_what_a_batch_takes(seen: tuple[Watch, list[RunReport]]) -> None:
    watch, reports = seen
    name = "dcurate_operator_batch_duration_seconds"
    assert watch.value(f'{name}_count{{pipeline="numbers", operator="slow"}}') == sum(
        run.stages[-1].batches for run in reports[:2]
    )
    of = '{pipeline="numbers", operator="slow"}'
    median = watch.value(f"histogram_quantile(0.5, {name}_bucket{of})")
    mean = watch.value(f"{name}_sum{of} / {name}_count{of}") or 0
    assert 0.05 <= (median or 0) <= max(0.1, 5 * mean)  # a batch sleeps 0.06 s, or more on a busy machine


def answers(watch: Watch, query: str, instant: bool) -> list[Any]:
    """What a panel of the dashboard gets, of the whole time that Prometheus has watched."""
    for variable, value in (("$pipeline", ".*"), ("$__rate_interval", "30s"), ("$__range", "5m")):
        query = query.replace(variable, value)
    assert "$" not in query
    if instant:
        found: list[Any] = watch.ask("query", query=query)["result"]
        return found
    end = time.time()
    over_time: list[Any] = watch.ask("query_range", query=query, start=end - 60, end=end, step=1)["result"]
    return over_time


def test_each_query_of_the_dashboard_gets_an_answer(seen: tuple[Watch, list[RunReport]]) -> None:
    watch, _ = seen
    panels = [panel for panel in json.loads((watch.folder / DASHBOARD).read_text())["panels"] if panel["type"] != "row"]
    got = {
        (panel["title"], target["refId"]): answers(watch, target["expr"], target["instant"])
        for panel in panels
        for target in panel["targets"]
    }
    assert {title for (title, _), found in got.items() if not found} <= MAY_BE_EMPTY
    assert len(got) > 40


def test_each_query_on_the_page_about_monitoring_gets_an_answer(seen: tuple[Watch, list[RunReport]]) -> None:
    rows = [
        line.split(" | ")
        for line in PAGE.read_text("utf-8").splitlines()
        if line.endswith(")` |") or "`dcurate_gpu" in line
    ]
    queries = [row[-1].strip("`| ") for row in rows if len(row) == 2]
    got = {query: answers(seen[0], query, instant=False) for query in queries}
    assert [query for query, found in got.items() if not found] == [query for query in queries if "gpu" in query]
    assert len(queries) == 10


def test_the_configuration_on_the_page_about_monitoring_is_one_that_prometheus_takes(tmp_path: Path) -> None:
    (block,) = re.findall(r"```yaml\n(scrape_configs:.+?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (tmp_path / PROMETHEUS).write_text(block)
    done = finished(tool("promtool"), "check", "config", str(tmp_path / PROMETHEUS))
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_scrapes_the_workers_that_the_scheduler_lists(seen: tuple[Watch, list[RunReport]]) -> None:
    watch, _ = seen
    listed = json.loads(get(f"{watch.dashboard}/curation/targets"))
    known = watch.ask("targets")["activeTargets"]
    assert {one["targets"][0] for one in listed} == {
        one["labels"]["instance"] for one in known if one["labels"]["job"] == "dcurate-workers"
    }
    wait_until(lambda: not [one for one in watch.ask("targets")["activeTargets"] if one["lastError"]], "all are up")


def test_a_worker_that_comes_is_scraped_and_one_that_goes_is_listed_no_more(
    seen: tuple[Watch, list[RunReport]], tmp_path: Path
) -> None:
    watch, _ = seen  # `wait_until` fails the test when what it waits for does not come
    up = 'up{job="dcurate-workers"} == 1'
    with worker_of(watch.scheduler, tmp_path, "--name", "third"):
        wait_until(lambda: watch.values(f'{up} and on (worker) up{{worker="third"}}'), "the third worker is scraped")
        wait_until(lambda: len(watch.values(up)) == 3, "the others are scraped still")
    wait_until(lambda: len(json.loads(get(f"{watch.dashboard}/curation/targets"))) == 2, "two workers are listed")


def test_a_worker_that_dies_and_a_run_that_fails_are_counted(
    seen: tuple[Watch, list[RunReport]], tmp_path: Path
) -> None:
    watch, _ = seen
    with AttachedCluster(watch.scheduler) as cluster:
        Pipeline("deadly", stages=[Numbers(), DieOnce(str(tmp_path))]).run(DaskExecutor(cluster=cluster))
        with pytest.raises(StageError):
            Pipeline("deadly", stages=[Numbers(), FailOn("7")]).run(DaskExecutor(cluster=cluster))
    wait_until(lambda: watch.value('dcurate_runs_ended_total{pipeline="deadly", outcome="failed"} > 0'), "the failure")
    assert watch.value('dcurate_runs_ended_total{pipeline="deadly", outcome="finished"}') == 1
    assert watch.value('dcurate_workers_lost_total{pipeline="deadly"}') == 1
    assert watch.value('dcurate_workers_lost_total{pipeline="numbers"}') == 0
    wait_until(lambda: watch.value("sum(dcurate_worker_call_failures_total)"), "the worker's own count of the failure")


def test_promtool_has_nothing_to_say_against_the_metrics(seen: tuple[Watch, list[RunReport]]) -> None:
    watch, _ = seen
    worker = json.loads(get(f"{watch.dashboard}/curation/targets"))[0]["targets"][0]
    for url in (watch.dashboard, f"http://{worker}"):
        ours = [line for line in get(f"{url}/metrics").splitlines() if "dcurate_" in line]
        assert len(ours) > len(WORKER_METRICS)
        done = finished(tool("promtool"), "check", "metrics", given="\n".join(ours) + "\n")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_up_again_has_the_same_prometheus_go_on(seen: tuple[Watch, list[RunReport]]) -> None:
    watch, _ = seen
    before = (watch.folder / RUNNING).read_text()
    said = monitor("up", str(watch.folder), watch.dashboard, watch.prometheus.rpartition(":")[2], str(free_port()))
    assert (watch.folder / RUNNING).read_text() == before
    assert watch.prometheus in said
    assert f"dcurate monitor down --dir {watch.folder}" in said
    with pytest.raises(ResourceError, match="started for .* already; stop it first: dcurate monitor down"):
        up(Watched(watch.dashboard, free_port()), watch.folder)


def test_what_a_scheduler_lacks_is_said(seen: tuple[Watch, list[RunReport]]) -> None:
    watch, _ = seen
    assert missing(watch.dashboard) == []
    (said,) = missing(watch.prometheus)  # it has metrics, but not dcurate's
    assert said.startswith(f"dcurate is not loaded at {watch.prometheus} yet; the first run does so")


def test_promtool_takes_the_configuration_and_the_rules(tmp_path: Path) -> None:
    write_config(Watched("https://host.example:8787/proxy/status"), tmp_path)
    for kind, name in (("config", PROMETHEUS), ("rules", ALERTS)):
        done = finished(tool("promtool"), "check", kind, str(tmp_path / name))
        assert done.returncode == 0, done.stdout + done.stderr
    text = (tmp_path / PROMETHEUS).read_text()
    assert "metrics_path: /proxy/metrics" in text
    assert "- url: https://host.example:8787/proxy/curation/targets" in text


def test_each_alert_fires_when_it_should_and_not_otherwise() -> None:
    done = finished(tool("promtool"), "test", "rules", str(ALERT_TESTS))
    assert done.returncode == 0, done.stdout + done.stderr
    alerts = {line.split()[-1] for line in _rules().splitlines() if "- alert:" in line}
    fired = {name for name in alerts if f"alertname: {name}\n        exp_alerts:\n" in ALERT_TESTS.read_text()}
    silent = {name for name in alerts if f"alertname: {name}, exp_alerts: []" in ALERT_TESTS.read_text()}
    assert fired == alerts
    assert alerts - silent <= {"DcurateErrorRate"}  # its silence is that of a second stage


def _rules() -> str:
    return files("dcurate.ui.monitor").joinpath("data/alerts.yml").read_text("utf-8")


@pytest.mark.parametrize("threshold", ["> 0.9\n", "for: 10m", "> 0.01", 'outcome="failed"', 'state="silent"', "== 0"])
def test_the_tests_of_the_alerts_fail_where_a_rule_is_wrong(tmp_path: Path, threshold: str) -> None:
    wrong = {"> 0.9\n": "> 0.97\n", "for: 10m": "for: 60m", "> 0.01": "> 0.0005", "== 0": "== 1"}
    rules = _rules().replace(threshold, wrong.get(threshold, 'pipeline="q"'))
    (tmp_path / "alerts.yml").write_text(rules)
    tests = ALERT_TESTS.read_text().replace("../../dcurate/ui/monitor/data/alerts.yml", "alerts.yml")
    (tmp_path / "test.yml").write_text(tests)
    done = finished(tool("promtool"), "test", "rules", str(tmp_path / "test.yml"))
    assert done.returncode != 0


def test_what_a_person_changed_is_left_and_what_is_not_ours_is_not_touched(tmp_path: Path) -> None:
    assert write_config(Watched(), tmp_path) == []
    assert write_config(Watched(port=9191), tmp_path) == []
    assert "9191" in (tmp_path / "grafana/provisioning/datasources/dcurate.yml").read_text()
    (tmp_path / PROMETHEUS).write_text("mine: now\n")
    assert write_config(Watched(), tmp_path) == [tmp_path / PROMETHEUS]
    assert write_config(Watched(), tmp_path) == [tmp_path / PROMETHEUS]
    assert (tmp_path / PROMETHEUS).read_text() == "mine: now\n"
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / ALERTS).write_text("mine: always\n")
    with pytest.raises(ResourceError, match="alerts.yml is there already and is not dcurate's; move it away"):
        write_config(Watched(), foreign)
    (tmp_path / "file").write_text("")
    with pytest.raises(
        ResourceError, match=r"cannot be written to .*file/below \(Not a directory\); give another folder"
    ):
        write_config(Watched(), tmp_path / "file" / "below")
    assert [path.name for path in foreign.iterdir()] == [ALERTS]


def test_without_prometheus_one_sentence_says_where_it_is_to_be_had(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        with pytest.raises(
            ResourceError, match="Prometheus is not installed; get it with 'apt-get install prometheus'"
        ):
            up(Watched(), tmp_path / "monitor")
    assert (tmp_path / "monitor" / PROMETHEUS).exists()


def test_a_port_that_is_taken_is_refused_with_the_option_to_give(
    seen: tuple[Watch, list[RunReport]], tmp_path: Path
) -> None:
    taken = int(seen[0].prometheus.rpartition(":")[2])
    with pytest.raises(ResourceError, match=rf"port {taken} is taken .*; give another with --port"):
        up(Watched(port=taken), tmp_path)


STAND_IN = """#!{python}
import http.server, os, pathlib
port = int(os.environ["GF_SERVER_HTTP_PORT"])
pathlib.Path(os.environ["GF_PATHS_PROVISIONING"], "asked").write_text(os.environ["GF_SERVER_HTTP_ADDR"])
http.server.HTTPServer(("127.0.0.1", port), type("Health", (http.server.BaseHTTPRequestHandler,), dict(
    do_GET=lambda self: (self.send_response(200), self.end_headers()), log_message=lambda *_: None))).serve_forever()
"""


def test_grafana_is_started_where_it_is_installed_and_down_ends_both(tmp_path: Path) -> None:
    tool("prometheus")
    program = tmp_path / "bin" / "grafana-server"
    program.parent.mkdir()
    program.write_text(STAND_IN.format(python=sys.executable))
    program.chmod(0o755)
    folder, grafana = tmp_path / "monitor", free_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        said = monitor("up", str(folder), "http://127.0.0.1:1", str(free_port()), str(grafana))
    started = [psutil.Process(one["pid"]) for one in json.loads((folder / RUNNING).read_text()).values()]
    assert "nothing answers at http://127.0.0.1:1 yet; metrics come as soon as" in said
    assert f"Grafana     http://127.0.0.1:{grafana}/d/dcurate" in said
    assert (folder / "grafana/provisioning/asked").read_text() == "127.0.0.1"
    assert monitor("down", str(folder)).splitlines() == ["prometheus is stopped", "grafana-server is stopped"]
    assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in started)
    assert down(folder) == [f"nothing runs that was started for {folder}"]


def test_down_ends_no_process_that_has_got_the_number_of_one_that_is_gone(tmp_path: Path) -> None:
    told = {"prometheus": {"pid": os.getpid(), "began": 1.0, "port": 9090}}
    (tmp_path / RUNNING).write_text(json.dumps(told))
    assert down(tmp_path) == [f"nothing runs that was started for {tmp_path}"]


def test_the_dashboard_is_one_that_grafana_can_take() -> None:
    board = shipped_dashboard()
    panels = board["panels"]
    assert board["uid"] == DASHBOARD_UID
    assert len({panel["id"] for panel in panels}) == len(panels) > 30
    assert [variable["name"] for variable in board["templating"]["list"]] == ["datasource", "pipeline"]
    source = {"type": "prometheus", "uid": "${datasource}"}
    for panel in panels:
        if panel["type"] != "row":
            assert panel["datasource"] == source
            assert all(target["datasource"] == source for target in panel["targets"])
    covered = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(covered) == len(set(covered))
    assert max(x for x, _ in covered) == 23


def test_each_query_of_the_dashboard_asks_for_metrics_and_labels_that_are_exported() -> None:
    exported = {"up": {"job", "instance"}, "ALERTS": {"alertname", "alertstate"}}
    for family in (*RUN_METRICS, *WORKER_METRICS):
        suffixes = ("_bucket", "_count", "_sum") if family.kind == "histogram" else ("",)
        also = {"worker"} if family in WORKER_METRICS else {"le"} if family.kind == "histogram" else set()
        exported |= {family.name + suffix: {*family.labels, *also} for suffix in suffixes}
    queries = [target["expr"] for panel in shipped_dashboard()["panels"] for target in panel.get("targets", ())]
    assert len(queries) > 40
    for query in queries:
        named = re.findall(r"\b(?:dcurate_\w+|up|ALERTS)\b", query)
        assert named, query
        labels = {label for name in named for label in exported[name]}
        assert {*re.findall(r"(\w+)=", query)} <= labels, query
        assert {label for by in re.findall(r"by \(([^)]*)\)", query) for label in by.split(", ")} <= labels, query


def shipped_dashboard() -> dict[str, Any]:
    """The Grafana dashboard that is part of the package."""
    text = files("dcurate.ui.monitor").joinpath("data", "dashboard.json").read_text("utf-8")
    board: dict[str, Any] = json.loads(text)
    return board
