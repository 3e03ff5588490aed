"""What the work of stages takes and costs: seconds of CPU and GPU, bytes and money."""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner

from dcurate import (
    DaskExecutor,
    DocumentBatch,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    LocalCluster,
    Pipeline,
    PipelineError,
    ProcessingStage,
    Resources,
)
from dcurate.cli import cli
from dcurate.core.cpu_time import CpuMeter
from dcurate.core.report import RunReport
from dcurate.run import Executor
from dcurate.ui.table import report_text
from tests.places import records

pytestmark = pytest.mark.cluster


def burn(seconds: float) -> None:
    begin = time.thread_time()
    while time.thread_time() - begin < seconds:
        sum(range(1000))


@dataclass
class Burn(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Takes so many seconds of CPU for each batch, some of them in a thread of its own."""

    seconds: float = 1.0
    waits_s: float = 0.0
    name: str = "burn"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        helper = threading.Thread(target=burn, args=(self.seconds / 4,))
        helper.start()
        burn(0.75 * self.seconds)
        helper.join()
        time.sleep(self.waits_s)
        return task


def write_files(folder: Path, count: int) -> str:
    folder.mkdir()
    for number in range(count):
        (folder / f"{number}.jsonl").write_text("".join(json.dumps({"text": f"{number}-{row}"}) + "\n" for row in "ab"))
    return str(folder)


def pipeline(tmp_path: Path, *stages: Any, files: int = 4) -> Pipeline:
    source = write_files(tmp_path / "in", files)
    return Pipeline("work", stages=[JsonlReader(source), *stages, JsonlWriter(str(tmp_path / "out"))])


def compile_kernels(folder: Path, executor: Executor) -> None:
    """Read and write once, so that no compilation is within what is measured."""
    write_files(folder / "warm", 4)
    warm = Pipeline("warm", stages=[JsonlReader(str(folder / "warm")), JsonlWriter(str(folder / "warm_out"))])
    warm.run(executor, observers=[])


def test_seconds_of_cpu_are_those_of_each_stage_with_its_threads_and_without_its_waits(tmp_path: Path) -> None:
    compile_kernels(tmp_path, InlineExecutor())
    before = time.process_time()
    report = (
        pipeline(tmp_path, Burn(0.4, waits_s=0.3), Burn(0.8, name="burn_more"))
        .run(InlineExecutor(), observers=[])
        .report
    )
    whole = time.process_time() - before
    by_stage = {stage.name: stage.cpu_s for stage in report.stages}
    assert 1.5 <= by_stage["burn"] <= 2.4
    assert 3.1 <= by_stage["burn_more"] <= 4.2
    assert 0.8 * whole <= report.cpu_s <= 1.02 * whole


def test_the_sum_over_stages_is_what_the_workers_took(tmp_path: Path) -> None:
    with LocalCluster(n_workers=2, gpus=False) as cluster:
        executor = DaskExecutor(cluster=cluster)
        compile_kernels(tmp_path, executor)
        workers = [psutil.Process(pid) for pid in cluster.client.run(os.getpid).values()]
        before = sum(sum(worker.cpu_times()[:2]) for worker in workers)
        report = pipeline(tmp_path, Burn(1.5), files=8).run(executor, observers=[]).report
        used = sum(sum(worker.cpu_times()[:2]) for worker in workers) - before
    assert report.cpu_s >= 8 * 1.5 * 0.98
    assert 0.8 * used <= report.cpu_s <= 1.03 * used


def test_calls_at_the_same_time_share_what_other_threads_take() -> None:
    meter = CpuMeter()
    took = {}

    def call(name: str, seconds: float) -> None:
        meter.begin()
        burn(seconds)
        time.sleep(0.05)
        took[name] = meter.end()

    before = time.process_time()
    threads = [threading.Thread(target=call, args=item) for item in {"short": 0.2, "long": 0.6, "none": 0.0}.items()]
    threads.append(threading.Thread(target=burn, args=(0.3,)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    used = time.process_time() - before
    assert took["none"] < took["short"] < took["long"]
    assert 0.7 * used <= sum(took.values()) <= 1.01 * used


def test_prices_give_the_cost_of_each_stage_in_result_report_and_table(tmp_path: Path) -> None:
    prices = {"cpu_hour_price": 36.0, "gpu_hour_price": 360.0}
    stages = [Burn(0.2), Burn(0.1, name="on_gpu").with_(resources=Resources(gpus=0.5))]
    result = pipeline(tmp_path, *stages).run(InlineExecutor(prices), observers=[])
    frame = result.stages.set_index("stage")
    assert frame.gpu_s["burn"] == 0
    assert frame.gpu_s["on_gpu"] == pytest.approx(0.5 * frame.seconds["on_gpu"])
    for name in frame.index:
        assert frame.cost[name] == pytest.approx(0.01 * frame.cpu_s[name] + 0.1 * frame.gpu_s[name])
    report = result.report
    assert report.cost == pytest.approx(frame.cost.sum())
    assert report.bytes_read == sum(path.stat().st_size for path in (tmp_path / "in").iterdir())
    assert report.bytes_written == sum(path.stat().st_size for path in (tmp_path / "out").iterdir())
    assert f"cost {report.cost:,.4g}" in report_text(report)
    known = json.loads((records(tmp_path / "out") / "report.json").read_text())
    saved = known.get("report", known)
    assert saved["used"]["cost"] == pytest.approx(report.cost)
    assert RunReport.from_dict(report.to_dict()) == report
    page = (records(tmp_path / "out") / "report.html").read_text()
    assert "cost of the stages&#39; work" in page or "cost of the stages' work" in page


def test_without_prices_no_cost_is_named(tmp_path: Path) -> None:
    result = pipeline(tmp_path, Burn(0.05)).run(InlineExecutor(), observers=[])
    assert result.report.cost is None
    assert ", cost" not in report_text(result.report)


def test_a_resumed_run_counts_what_earlier_runs_took(tmp_path: Path) -> None:
    work = pipeline(tmp_path, Burn(0.1))
    first = work.run(InlineExecutor(), observers=[]).report
    again = work.run(InlineExecutor(), observers=[], resume=True).report
    assert again.cpu_s == pytest.approx(first.cpu_s)


@pytest.mark.parametrize("price", [-1, float("nan"), float("inf"), "2", True])
@pytest.mark.parametrize("name", ["cpu_hour_price", "gpu_hour_price"])
def test_a_price_that_is_none_is_refused(name: str, price: Any) -> None:
    with pytest.raises(PipelineError, match=f"{name}=.* must be a number, at least zero, or None"):
        InlineExecutor({name: price})
    assert InlineExecutor({name: 0}).config


def test_a_recipe_names_prices(tmp_path: Path) -> None:
    write_files(tmp_path / "in", 2)
    (tmp_path / "recipe.yaml").write_text(
        f"executor: {{execution_mode: inline, cpu_hour_price: 0.05}}\nstages:\n"
        f"  - JsonlReader: {{file_paths: {tmp_path}/in}}\n  - JsonlWriter: {{path: {tmp_path}/out}}\n"
    )
    answer = CliRunner().invoke(cli, ["run", str(tmp_path / "recipe.yaml")])
    assert answer.exit_code == 0, answer.output
    assert "cost " in answer.output


@dataclass
class RunsAnother(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Runs a pipeline of its own for each batch, in the same thread."""

    name: str = "runs_another"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        inner = Pipeline("inner", stages=[Burn(seconds=0.4)]).run(InlineExecutor(), [task], observers=[])
        assert inner.report.stages[-1].cpu_s >= 0.3
        burn(0.2)
        return task


def test_a_stage_that_runs_a_pipeline_counts_for_both(tmp_path: Path) -> None:
    reader = JsonlReader(write_files(tmp_path / "in", 2))
    report = Pipeline("outer", stages=[reader, RunsAnother()]).run(InlineExecutor(), observers=[]).report
    assert report.stages[-1].cpu_s >= 2 * 0.5
