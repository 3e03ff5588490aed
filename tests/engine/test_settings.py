"""Every setting of executors, clusters and policies has an effect: a setting without a test of it fails here."""

from __future__ import annotations

import inspect
import io
import json
import logging
import os
import random
import re
import signal
import socket
import threading
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

from dcurate import (
    AttachedCluster,
    DaskExecutor,
    ElasticCluster,
    InlineExecutor,
    LocalCluster,
    Pipeline,
    PipelineError,
    ResourceError,
    Resources,
    RunError,
)
from dcurate.cluster import Kind, Shape
from dcurate.cluster.nannies import local_scheduler
from dcurate.engine import policies
from dcurate.engine.allocate.assignment import SlotClaim
from dcurate.engine.allocate.requests import OperatorRequest, WorkerState, form_pools
from dcurate.engine.config import WITHOUT_WORKERS, ExecutorConfig
from dcurate.engine.dask import executor as dask_executor
from dcurate.engine.flow import Flow
from dcurate.events import Event, SlotsChanged
from dcurate.policies import Balancing, OperatorView, Policy, RunView, Stop, WorkerView
from dcurate.ui import JsonProgress
from tests.conftest import ROOT, scheduler_and_workers
from tests.stages import Numbers, Sleep

pytestmark = pytest.mark.cluster

HERE, CLUSTERS, GPUS = "engine/test_settings.py", "cluster/test_clusters.py", "cluster/test_gpu_workers.py"
ELASTIC, SHARES = "cluster/test_elastic.py", "engine/test_shares.py"
#: The test that shows the effect of each setting: its file, and the beginning of its name.
SHOWN: dict[Any, dict[str, tuple[str, str]]] = {
    ExecutorConfig: {
        "execution_mode": ("engine/test_executors.py", "test_every_mode_gives_the_same_rows"),
        "cpu_allocation_percentage": (HERE, "test_a_share_of_the_cpus"),
        "autoscale_interval_s": (HERE, "test_a_policy_that_is_given_keeps"),
        "logging_interval": (HERE, "test_progress_lines_come"),
        "ignore_failures": ("engine/test_faults_reading.py", "test_"),
        "cpu_hour_price": ("engine/test_cost.py", "test_prices_give_the_cost"),
        "gpu_hour_price": ("engine/test_cost.py", "test_prices_give_the_cost"),
        "max_workers_per_stage": (HERE, "test_no_stage_has_more_slots"),
        "memory_share": (HERE, "test_batches_between_operators"),
        "share": (SHARES, "test_share_gives_a_run_more"),
        "priority": (SHARES, "test_a_run_of_higher_priority"),
        "max_cpus": (SHARES, "test_max_cpus_and_max_gpus_hold"),
        "max_gpus": (SHARES, "test_max_cpus_and_max_gpus_hold"),
        "scheduler_timeout_s": (HERE, "test_a_scheduler_that_does_not_answer"),
        "worker_timeout_s": ("engine/test_stuck.py", "test_a_run_whose_workers_go"),
    },
    DaskExecutor: {
        "config": (HERE, "test_no_stage_has_more_slots"),
        "cluster": (HERE, "test_no_stage_has_more_slots"),
        "policies": ("engine/test_policies.py", "test_a_policy_pins_the_slots"),
    },
    InlineExecutor: {"config": (HERE, "test_a_setting_has_an_effect_in_mode_inline")},
    AttachedCluster: {
        "address": (CLUSTERS, "test_an_address_without_workers"),
        "security": ("jobs/test_tls.py", "test_a_run_in_python"),
        "scheduler_file": ("jobs/test_tls.py", "test_a_run_in_python"),
        "timeout_s": (HERE, "test_a_scheduler_that_does_not_answer"),
    },
    LocalCluster: {
        "n_workers": (CLUSTERS, "test_a_closed_cluster_leaves_no_process"),
        "memory_limit": (HERE, "test_a_local_cluster_limits"),
        "gpus": (CLUSTERS, "test_where_nvml_finds_no_gpu"),
        "cpu_fraction": (CLUSTERS, "test_an_embedded_cluster_takes"),
        "dashboard": (HERE, "test_a_local_cluster_limits"),
        "simulate_gpus": (CLUSTERS, "test_simulated_gpus_have_workers"),
        "simulated_gpu_memory_gb": (CLUSTERS, "test_simulated_gpus_have_workers"),
        "rmm_pool_size": (GPUS, "test_processes_on_a_gpu_are_like_its_first"),
        "rmm_async": (GPUS, "test_libraries_that_allocate_from_rmm"),
        "rmm_allocator_external_lib_list": (GPUS, "test_libraries_that_allocate_from_rmm"),
        "enable_cudf_spill": (GPUS, "test_processes_on_a_gpu_are_like_its_first"),
        "device_memory_limit": (GPUS, "test_processes_on_a_gpu_are_like_its_first"),
        "protocol": (GPUS, "test_memory_of_a_gpu_that_cannot_be_is_refused"),
    },
    ElasticCluster: {
        "kinds": (ELASTIC, "test_"),
        "scheduler": (HERE, "test_an_elastic_cluster_starts_the_scheduler"),
        "follow": (ELASTIC, "test_"),
        "interval_s": (HERE, "test_an_elastic_cluster_starts_the_scheduler"),
        "wait_count": (HERE, "test_an_elastic_cluster_starts_the_scheduler"),
        "patience_s": (HERE, "test_an_elastic_cluster_starts_the_scheduler"),
    },
    Kind: {"shape": (ELASTIC, "two_kinds"), "worker": (CLUSTERS, "test_a_worker_that_does_not_start_says_why")},
    Shape: dict.fromkeys(
        ("cpus", "gpus", "gpu_memory", "max_slots", "maximum", "minimum", "host"),
        ("engine/allocate/test_autoscaler.py", "test_"),
    ),
}
POLICIES: list[Any] = [
    policies.Autoscaling,
    policies.Balancing,
    policies.Recycling,
    policies.Speculation,
    policies.StallDetection,
]


def settings_of(public: Any) -> set[str]:
    """The arguments of a class; some classes take none."""
    return set(inspect.signature(public.__init__).parameters) - {"self", "args", "kwargs"}


@pytest.mark.parametrize("public", SHOWN, ids=lambda public: public.__name__)
def test_every_setting_has_a_test_of_its_effect(public: Any) -> None:
    assert set(SHOWN[public]) == settings_of(public)
    for name, (path, test) in SHOWN[public].items():
        source = (ROOT / "tests" / path).read_text("utf-8")
        assert f"def {test}" in source, f"{name}: there is no {test} in {path}"
        assert name in source, f"{name}: {path} does not name it"


def test_all_policies_are_known_here() -> None:
    built_in = {one for one in vars(policies).values() if isinstance(one, type) and hasattr(one, "run")}
    assert {one for one in built_in if one is not policies.Policy} == set(POLICIES)


# Executors


class Slots:
    """Notes the most slots that each operator had."""

    def __init__(self) -> None:
        self.most: dict[str, int] = {}

    def on_event(self, event: Event) -> None:
        if isinstance(event, SlotsChanged):
            self.most[event.operator] = max(event.total, self.most.get(event.operator, 0))


@pytest.mark.parametrize("most", [1, None])
def test_no_stage_has_more_slots_than_max_workers_per_stage(cluster: LocalCluster, most: int | None) -> None:
    slots, slow = Slots(), Sleep(0.1).with_(name="slow", batch_size=2)
    executor = DaskExecutor({"max_workers_per_stage": most}, cluster)
    Pipeline("test", stages=[Numbers(60 if most else 240, 1), slow]).run(executor, observers=[slots])
    assert slots.most["slow"] == (most or 2)


def test_batches_between_operators_take_memory_share(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    budgets = []

    class Noted(Flow):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            budgets.append(self.budget_bytes)

    monkeypatch.setattr(dask_executor, "Flow", Noted)
    for share in (0.1, 0.4):
        Pipeline("test", stages=[Numbers(2, 1)]).run(DaskExecutor({"memory_share": share}, cluster))
    assert budgets[1] == pytest.approx(4 * budgets[0])


@pytest.mark.parametrize("inline", [False, True])
def test_progress_lines_come_every_logging_interval_unless_an_interval_is_given(
    inline: bool, cluster: LocalCluster
) -> None:
    def lines(*interval: float) -> int:
        file = io.StringIO()
        settings = {"logging_interval": 0.01}
        executor = InlineExecutor(settings) if inline else DaskExecutor(settings, cluster)
        stages = [Numbers(40, 1), Sleep(0.02)]
        Pipeline("test", stages=stages).run(executor, observers=[JsonProgress(file, *interval)])
        assert json.loads(file.getvalue().splitlines()[-1])["state"] == "done"
        return len(file.getvalue().splitlines())

    assert lines(1000.0) <= 2  # the first after two seconds, and the last
    assert lines() > 5


def test_a_share_of_the_cpus_is_taken_and_said_to_have_no_effect_elsewhere(
    cluster: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    config = {"cpu_allocation_percentage": 1e-6}
    with DaskExecutor(config).session() as session:
        assert len(session.client.run(os.getpid)) == 1
    assert not caplog.records
    with caplog.at_level(logging.WARNING, "dcurate"):
        DaskExecutor(config, cluster)
    assert "cpu_allocation_percentage has no effect" in caplog.text


@pytest.mark.parametrize("name", ["share", "priority"])
def test_a_setting_among_runs_is_said_to_have_no_effect_on_workers_of_one_run(
    name: str, cluster: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "dcurate"):
        DaskExecutor({name: 2}, cluster)
        assert not caplog.records
        DaskExecutor({name: 2})
    assert f"{name} has no effect, as no other run uses the workers" in caplog.text


@pytest.mark.parametrize("name", [one.name for one in fields(ExecutorConfig)])
def test_a_setting_has_an_effect_in_mode_inline_or_is_refused(name: str) -> None:
    config = {name: getattr(ExecutorConfig(), name)}
    if name in WITHOUT_WORKERS:
        assert InlineExecutor(config).config == ExecutorConfig()
        return
    with pytest.raises(PipelineError, match=f"{name} has no effect in mode inline, which has no workers; leave it out"):
        InlineExecutor(config)


def test_settings_in_mode_inline_are_checked_like_those_of_workers() -> None:
    with pytest.raises(PipelineError, match="no setting 'ignore_failure'; did you mean 'ignore_failures'"):
        InlineExecutor({"ignore_failure": True})
    with pytest.raises(PipelineError, match="ignore_failures='yes' must be True or False"):
        InlineExecutor({"ignore_failures": "yes"})


def test_a_time_limit_that_nothing_enforces_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "dcurate"):
        Pipeline("test", stages=[Numbers(1, 1), Sleep(0.0).with_(timeout_s=1.0)]).run(InlineExecutor())
    assert "stage 'sleep': timeout_s has no effect in mode inline" in caplog.text


class Tell:
    """Ends the run with what it sees of the executor's settings."""

    def run(self, view: RunView) -> Iterator[Stop]:
        yield Stop(f"{view.interval_s:g} and {view.worker_timeout_s:g}")


def test_a_policy_that_is_given_keeps_the_settings_of_the_executor(cluster: LocalCluster) -> None:
    config = {"autoscale_interval_s": 7, "worker_timeout_s": 9}
    executor = DaskExecutor(config, cluster, [Balancing(pause_s=20.0), Tell()])
    with pytest.raises(RunError, match="7 and 9"):
        Pipeline("test", stages=[Numbers(1000, 1), Sleep(0.01)]).run(executor)


@pytest.mark.timeout(120)
def test_a_scheduler_that_does_not_answer_is_waited_for_as_long_as_scheduler_timeout_s(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"tcp://127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(RunError, match="nothing answers within 1 seconds"):
            Pipeline("test", stages=[Numbers(1, 1)]).run(DaskExecutor({"scheduler_timeout_s": 1}, address))
        with pytest.raises(RunError, match="nothing answers within 2 seconds"):
            AttachedCluster(address, timeout_s=2).open()
    with scheduler_and_workers(tmp_path) as address:
        with Client(address, set_as_default=False) as client:
            scheduler = client.run_on_scheduler(os.getpid)
        executor = DaskExecutor({"scheduler_timeout_s": 3}, address)
        stream = Pipeline("test", stages=[Numbers(100, 1), Sleep(1.0)]).stream(executor)
        next(stream)
        threading.Timer(0.5, os.kill, (scheduler, signal.SIGKILL)).start()
        with pytest.raises(RunError, match="the scheduler does not answer any more, for 3 seconds|went away"):
            list(stream)


# Clusters


def test_a_local_cluster_limits_memory_and_has_a_dashboard_if_asked() -> None:
    with LocalCluster(n_workers=1, gpus=False, memory_limit=10**9) as plain:
        limits = plain.client.run(lambda dask_worker: dask_worker.memory_manager.memory_limit)
        assert (list(limits.values()), plain.dashboard_link) == ([10**9], None)
    with LocalCluster(n_workers=1, gpus=False, dashboard=True) as shown:
        assert str(shown.dashboard_link).startswith("http://127.0.0.1:")


def test_an_elastic_cluster_starts_the_scheduler_that_is_given_and_adapts_as_it_is_told() -> None:
    scheduler = local_scheduler()
    scheduler["options"] = {**scheduler["options"], "idle_timeout": 4321}
    kinds = {"cpu": Kind.cpus_here(maximum=1, minimum=1)}
    with ElasticCluster(kinds, scheduler, interval_s=0.7, wait_count=5, patience_s=8.0) as cluster:
        adaptive, started = cluster._running(), cluster.client.cluster.scheduler
        assert started.idle_timeout == 4321
        assert (adaptive.interval, adaptive.wait_count, adaptive.patience_s) == (0.7, 5, 8.0)


# Policies


def some_views(seed: int) -> list[RunView]:
    """A run at two moments."""
    pick = random.Random(seed)
    on_gpus = pick.random() < 0.5
    gpus = [(f"g{number}", 80e9) for number in range(pick.choice([2, 8]))] if on_gpus else []
    infos = [WorkerState(f"c{number}", "h") for number in range(pick.choice([2, 4, 24]))]
    infos += [WorkerState(f"w{number}", "h", 4, 0.0, (*gpus[number:], *gpus[:number])) for number in range(len(gpus))]
    operators = []
    exhausted = pick.random() < 0.5
    for number in range(pick.randint(1, 4)):
        name, known = f"op{number}", pick.random() < 0.7
        resources = Resources(1.0, gpus=pick.choice([0.5, 1.0])) if gpus and pick.random() < 0.6 else Resources()
        operators.append(
            OperatorView(
                name,
                OperatorRequest(name, resources, cheap_setup=pick.random() < 0.2),
                waiting=pick.choice([0, 3, 40]),
                running=pick.choice([0, 1, 1, 5]),
                seconds=pick.choice([0.02, 0.5, 1.0, 3.0, 20.0]) if known else None,
                samples=pick.choice([3, 20, 1000]) if known else 0,
                cv=pick.choice([0.1, 0.5, 1.3, 2.5]),
                first_sample_at=90.0 if known else None,
                setup_s=pick.choice([None, 0.0, 0.5, 4.0, 60.0]) if known else None,
                finished=exhausted and number == 0,
                lifetime_m=pick.choice([0.0, 1.0]),
            )
        )
    workers: list[WorkerView] = []
    for info in infos:
        fitting = [one for one in operators if one.request.resources.requires_gpu == bool(info.gpus)]
        holds = pick.choice([None, *fitting]) if fitting else None
        claims = {holds.name: SlotClaim(1, tuple(name for name, _ in info.gpus[:1]))} if holds else {}
        ready = {name: 1 for name in claims if pick.random() < 0.8 and (not holds or holds.seconds)}
        grown = tuple(pick.choice([650, 760, 800]) for _ in range(5))
        paused = pick.choice([None, None, None, 5.0, 15.0, 130.0])
        workers.append(WorkerView(info, claims, ready, 70.0, paused, grown=grown, memory_limit=1000))
    if pick.random() < 0.3:
        workers = [replace(one, paused_s=130.0) for one in workers]
    held = {one.name: sum(one.name in worker.claims for worker in workers) for one in operators}
    by_name = {
        one.name: replace(
            one,
            wanted=held[one.name],
            ready=sum(worker.ready.get(one.name, 0) for worker in workers),
            recycled_s=pick.choice([None, 6.0, 15.0]),
        )
        for one in operators
    }
    tasks = tuple(policies.view.TaskView(n, "op0", pick.choice([4.0, 7.0, 30.0]), 1.5, 0.5) for n in range(3))
    kinds = {"cpu": Shape(maximum=30)} if pick.random() < 0.3 else {}
    first = RunView(
        100.0,
        50.0,
        by_name,
        {one.address: one for one in workers},
        kinds,
        workerless_s=pick.choice([0.0, 0.0, 650.0]),
        exhausted=exhausted,
        tasks=tasks,
    )
    moved = {
        name: replace(one, seconds=one.seconds and one.seconds * pick.choice([1.0, 1.005, 1.2, 2.0]))
        for name, one in by_name.items()
    }
    return [first, replace(first, time=101.5, operators=moved), replace(first, time=106.0, operators=moved)]


def settled(cv: float, exhausted: bool) -> list[RunView]:
    """Slots as they were best, and then one operator is six times as fast as before."""
    known = {"samples": 100, "cv": cv, "first_sample_at": 1.0, "setup_s": 5.0, "waiting": 40, "ready": 1, "wanted": 1}
    operators = {
        name: OperatorView(name, OperatorRequest(name, Resources()), seconds=seconds, **known)  # type: ignore[arg-type]
        for name, seconds in (("read", 1.0), ("score", 3.0))
    }
    info, slots = WorkerState("w0", "h", 4, 4.0), {"read": 1, "score": 3}
    worker = WorkerView(info, {name: SlotClaim(number) for name, number in slots.items()}, slots)
    first = RunView(100.0, operators=operators, workers={"w0": worker}, exhausted=exhausted)
    return [
        first,
        replace(first, time=106.0, operators={**operators, "score": replace(operators["score"], seconds=0.5)}),
    ]


def last_set_up() -> list[RunView]:
    """GPUs that are idle while the last operator is still being set up."""
    gpus = [(f"g{number}", 0.0) for number in range(8)]
    known = {"samples": 100, "cv": 0.1, "first_sample_at": 1.0, "setup_s": 5.0, "running": 1}
    asked = {name: OperatorRequest(name, Resources(1.0, gpus=1.0)) for name in ("score", "embed", "model")}
    operators = {
        "score": OperatorView("score", asked["score"], seconds=4.0, **known),  # type: ignore[arg-type]
        "embed": OperatorView("embed", asked["embed"], seconds=1.0, **known),  # type: ignore[arg-type]
        "model": OperatorView("model", asked["model"]),
    }
    workers = {}
    for number in range(8):
        name = list(asked)[number] if number < 3 else ""
        claims = {name: SlotClaim(1, (f"g{number}",))} if name else {}
        ready = {name: 1} if number < 2 else {}
        workers[f"w{number}"] = WorkerView(WorkerState(f"w{number}", "h", 1, 8.0, tuple(gpus[number:])), claims, ready)
    first = RunView(100.0, operators=operators, workers=workers)
    return [first, replace(first, time=106.3), replace(first, time=130.0)]


def fits(views: list[RunView]) -> bool:
    try:
        requests = [one.request for one in views[0].operators.values()]
        form_pools(requests, [one.info for one in views[0].workers.values()])
    except ResourceError:
        return False
    return True


def suggested(policy: Policy, views: list[RunView]) -> list[Any]:
    return [list(policy.run(view)) for view in views]


@pytest.fixture(scope="module")
def bank() -> list[list[RunView]]:
    special = [settled(cv, exhausted) for cv in (0.1, 0.5) for exhausted in (False, True)]
    return [*special, last_set_up(), *(views for views in map(some_views, range(300)) if fits(views))]


CONSTANTS = [(policy, one.name) for policy in POLICIES for one in fields(policy) if one.init]


@pytest.mark.parametrize(("policy", "name"), CONSTANTS, ids=lambda one: one if isinstance(one, str) else one.__name__)
def test_every_constant_of_a_policy_changes_what_it_suggests(policy: Any, name: str, bank: list[list[RunView]]) -> None:
    usual = getattr(policy(), name)
    most = 1.0 if name.endswith("_share") else float("inf")
    others = [3, 1] if name == "checks" else [min(factor * (usual or 100.0), most) for factor in (0.01, 100.0)]
    assert any(
        suggested(policy(), views) != suggested(policy(**{name: other}), views) for views in bank for other in others
    ), f"{name} changes nothing in any view of `bank`; add views in which it matters"


@pytest.mark.parametrize(("policy", "name"), CONSTANTS, ids=lambda one: one if isinstance(one, str) else one.__name__)
@pytest.mark.parametrize("value", [-1, float("nan"), "5", True, [1]], ids=str)
def test_a_constant_of_a_policy_that_is_no_number_of_at_least_zero_is_refused(
    policy: Any, name: str, value: object
) -> None:
    with pytest.raises(PipelineError, match=rf"^{policy.__name__}: {name}={re.escape(repr(value))} must be a "):
        policy(**{name: value})


def test_shares_counts_and_timeouts_of_policies_have_bounds() -> None:
    for make, sentence in (
        (lambda: policies.Recycling(memory_share=75), r"memory_share=75 must be a number from 0 to 1"),
        (lambda: policies.Recycling(checks=0), r"checks=0 must be a whole number, at least 1"),
        (lambda: policies.StallDetection(worker_timeout_s=0), r"worker_timeout_s=0 must be a number above zero"),
    ):
        with pytest.raises(PipelineError, match=sentence):
            make()
    assert policies.Balancing(interval_s=None, later_s=0).later_s == 0
