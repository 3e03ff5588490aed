"""Clusters that grow and shrink by kind, with real processes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import dask
import pytest
from distributed import Client, Future, Scheduler, SpecCluster, Worker, get_worker
from distributed.deploy import Cluster as DaskCluster

from dcurate import ElasticCluster, LocalCluster, ResourceError, RunError
from dcurate.cluster import Kind, Shape, adapt_kinds
from dcurate.cluster.nannies import local_scheduler
from dcurate.cluster.scale_api import DESIRED_WORKERS, OFFER, client_offered_shapes
from dcurate.cluster.worker_info import worker_info
from tests.cluster.jobs import Job
from tests.conftest import wait_until, workers_of

pytestmark = pytest.mark.cluster


class Other(DaskCluster):
    """A cluster that starts its workers in a way of its own."""


def want(dask_scheduler: Scheduler, **numbers: int) -> None:
    """Stand in for runs that want so many workers."""
    dask_scheduler.handlers[DESIRED_WORKERS] = lambda **_: numbers


def want_nothing(dask_scheduler: Scheduler) -> None:
    """Stand in for a scheduler on which nothing of dcurate has run yet."""
    dask_scheduler.handlers.pop(DESIRED_WORKERS, None)


def losses(dask_scheduler: Scheduler) -> list[Any]:
    """Workers that went without leave, and results that had to be made again."""
    removals = [event for _, event in dask_scheduler.get_events("all") if event.get("action") == "remove-worker"]
    return [event for event in removals if not event["expected"] or event["lost-computed-tasks"]]


def present(client: Client) -> dict[str, str]:
    """Addresses of the workers that are there, by name."""
    return {str(one["name"]): where for where, one in workers_of(client).items()}


def kinds_present(client: Client) -> dict[str, int]:
    names = [name.split("-")[0] for name in present(client)]
    return {kind: names.count(kind) for kind in ("cpu", "gpu")}


def pearl(number: int) -> bytes:
    return bytes([number]) * 100_000


def take_time(folder: str, seconds: float) -> str:
    """Note that it began, and on which worker."""
    Path(folder, f"began-{time.monotonic_ns()}").write_text(str(get_worker().name))
    time.sleep(seconds)
    return str(get_worker().name)


def wait_for_leave(folder: str) -> str:
    """The same, but it ends when it is let."""
    where = take_time(folder, 0.0)
    while not Path(folder, "go").exists():
        time.sleep(0.05)
    return where


def begun(folder: Path) -> list[str]:
    return [mark.read_text() for mark in sorted(folder.glob("began-*")) if mark.stat().st_size]


def two_kinds(**cpu: int) -> dict[str, Kind]:
    return {
        "cpu": Kind.cpus_here(**{"maximum": 2, "minimum": 1, "memory_limit": 10**9, **cpu}),
        "gpu": Kind.simulated_gpus_here(maximum=2, memory_limit=10**9),
    }


@pytest.fixture(scope="module")
def following() -> Iterator[ElasticCluster]:
    """A cluster of 1 to 2 CPU workers and up to 2 GPU workers that follows what is wanted."""
    with ElasticCluster(two_kinds(), interval_s=0.1, wait_count=2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def by_hand() -> Iterator[ElasticCluster]:
    """A cluster of up to 2 CPU workers and up to 2 GPU workers, set by the test."""
    with ElasticCluster(two_kinds(minimum=0), follow=False, patience_s=30.0) as cluster:
        yield cluster


def test_each_kind_follows_what_the_runs_want_within_its_limits(following: ElasticCluster) -> None:
    client = following.client
    client.run_on_scheduler(want, cpu=9, gpu=1, other=5)
    wait_until(lambda: kinds_present(client) == {"cpu": 2, "gpu": 1})
    client.run_on_scheduler(want, gpu=2)
    wait_until(lambda: kinds_present(client) == {"cpu": 1, "gpu": 2})
    client.run_on_scheduler(want_nothing)
    wait_until(lambda: kinds_present(client) == {"cpu": 1, "gpu": 0})
    wait_until(lambda: following.numbers == {"cpu": 1, "gpu": 0})
    assert client.run_on_scheduler(losses) == []


def test_results_of_workers_that_go_are_not_lost(following: ElasticCluster) -> None:
    client = following.client
    client.run_on_scheduler(want, cpu=2, gpu=2)
    wait_until(lambda: kinds_present(client) == {"cpu": 2, "gpu": 2})
    pearls = [
        client.submit(pearl, number, key=f"pearl-{number}", workers=[where])
        for number, where in enumerate([*present(client).values()] * 3)
    ]
    client.gather(pearls)
    client.run_on_scheduler(want, cpu=1)
    wait_until(lambda: kinds_present(client) == {"cpu": 1, "gpu": 0})
    assert [future.status for future in pearls] == ["finished"] * 12
    assert client.gather(pearls) == [pearl(number) for number in range(12)]
    assert client.run_on_scheduler(losses) == []


def test_wanting_fewer_for_a_moment_lets_nobody_go(following: ElasticCluster) -> None:
    client = following.client
    client.run_on_scheduler(want, cpu=2)
    wait_until(lambda: kinds_present(client)["cpu"] == 2)
    before = present(client)
    for _ in range(3):
        client.run_on_scheduler(waver)
        time.sleep(0.25)
    assert present(client) == before


def waver(dask_scheduler: Scheduler) -> None:
    """Want one worker when asked the first time, then two again."""
    answers = iter([1])
    dask_scheduler.handlers[DESIRED_WORKERS] = lambda **_: {"cpu": next(answers, 2)}


def test_a_worker_that_goes_ends_its_call_and_takes_no_other(by_hand: ElasticCluster, tmp_path: Path) -> None:
    client = by_hand.client
    by_hand.scale_kind("cpu", 1)
    by_hand.scale_kind("gpu", 1)
    address = present(client)["gpu-0"]
    future = client.submit(take_time, str(tmp_path), 2.0, workers=[address], allow_other_workers=True)
    wait_until(lambda: begun(tmp_path))
    by_hand.scale_kind("gpu", 0)
    assert list(present(client)) == ["cpu-0"]
    assert future.result() == "gpu-0"
    assert begun(tmp_path) == ["gpu-0"]
    assert client.run_on_scheduler(losses) == []


def test_idle_workers_go_before_busy_ones(by_hand: ElasticCluster, tmp_path: Path) -> None:
    client = by_hand.client
    by_hand.scale_kind("cpu", 1)
    by_hand.scale_kind("gpu", 2)
    future = client.submit(wait_for_leave, str(tmp_path), workers=[present(client)["gpu-0"]])
    wait_until(lambda: begun(tmp_path))
    by_hand.scale_kind("gpu", 1)
    assert sorted(present(client)) == ["cpu-0", "gpu-0"]
    (tmp_path / "go").touch()
    assert future.result() == "gpu-0"


def test_a_call_that_outlasts_the_patience_is_started_again_elsewhere(tmp_path: Path) -> None:
    with ElasticCluster(two_kinds(), follow=False, patience_s=0.5) as cluster:
        client = cluster.client
        cluster.scale_kind("gpu", 1)
        where = present(client)["gpu-0"]
        future = client.submit(wait_for_leave, str(tmp_path), workers=[where], allow_other_workers=True)
        wait_until(lambda: begun(tmp_path))
        cluster.scale_kind("gpu", 0)
        (tmp_path / "go").touch()
        assert future.result() == "cpu-0"
        assert begun(tmp_path) == ["gpu-0", "cpu-0"]


def test_the_last_worker_stays_while_it_holds_a_result_and_takes_tasks_again(by_hand: ElasticCluster) -> None:
    client = by_hand.client
    by_hand.scale_kind("gpu", 0)
    by_hand.scale_kind("cpu", 1)
    held: Future | None = client.submit(pearl, 7, key="held")
    assert held is not None
    assert held.result() == pearl(7)
    by_hand.scale_kind("cpu", 0)
    assert by_hand.numbers == {"cpu": 1, "gpu": 0}
    assert client.submit(pearl, 8, key="another").result() == pearl(8)
    held.release()
    held = None
    wait_until(lambda: not client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)))
    by_hand.scale_kind("cpu", 0)
    assert by_hand.numbers == {"cpu": 0, "gpu": 0}
    assert present(client) == {}
    by_hand.scale_kind("cpu", 1)
    assert client.submit(pearl, 9).result() == pearl(9)


@contextmanager
def batch_system(folder: Path, refused: tuple[str, ...] = ()) -> Iterator[tuple[SpecCluster, Client, dict[str, Kind]]]:
    """A cluster without workers, and a kind of jobs of two workers each."""

    def job(number: int) -> dict[str, Any]:
        return {"cls": Job, "options": {"folder": str(folder), "refused": refused}, "group": ["-0", "-1"]}

    with (
        SpecCluster(scheduler=local_scheduler(), silence_logs=50) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield cluster, client, {"cpu": Kind(Shape(cpus=2, max_slots=2, maximum=2), job)}


def test_jobs_of_several_workers_come_and_go_as_one_and_are_asked_for_again_when_refused(tmp_path: Path) -> None:
    with batch_system(tmp_path, refused=("cpu-1",)) as (queue, client, kinds):
        adaptive = adapt_kinds(queue, kinds, interval_s=0.2)
        client.run_on_scheduler(want, cpu=2)
        wait_until(lambda: sorted(present(client)) == ["cpu-0-0", "cpu-0-1", "cpu-1-0", "cpu-1-1"])
        assert (tmp_path / "cpu-1.refused").exists()
        pearls = [
            client.submit(pearl, number, workers=[where]) for number, where in enumerate(present(client).values())
        ]
        assert client.gather(pearls) == [pearl(number) for number in range(4)]
        client.run_on_scheduler(want, cpu=1)
        wait_until(lambda: len(present(client)) == 2)
        assert len({name.rsplit("-", 1)[0] for name in present(client)}) == 1
        assert client.gather(pearls) == [pearl(number) for number in range(4)]
        assert client.run_on_scheduler(losses) == []
        queue.sync(adaptive.finish)


def test_a_job_that_was_ended_from_outside_is_asked_for_again(tmp_path: Path) -> None:
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1s"}),
        batch_system(tmp_path) as (queue, client, kinds),
    ):
        adaptive = adapt_kinds(queue, kinds, interval_s=0.2)
        client.run_on_scheduler(want, cpu=1)
        wait_until(lambda: sorted(present(client)) == ["cpu-0-0", "cpu-0-1"])
        before = present(client)
        queue.workers["cpu-0"].process.kill()
        # `until` fails the test when this does not come true.
        wait_until(lambda: sorted(present(client)) == ["cpu-0-0", "cpu-0-1"] and present(client) != before)
        queue.sync(adaptive.finish)


def test_workers_of_this_machine_announce_the_kind_by_its_name_in_the_cluster() -> None:
    kinds = {
        "small": Kind.cpus_here(maximum=2, minimum=1, memory_limit=10**9),
        "a100": Kind.simulated_gpus_here(maximum=1, minimum=1, memory_gb=40, memory_limit=10**9),
    }
    with ElasticCluster(kinds, follow=False) as cluster:
        cluster.scale_kind("small", 2)
        said = [one["kind"] for one in cluster.client.run(told).values()]
        assert sorted(said) == ["a100", "small", "small"]


def told(dask_worker: Worker) -> dict[str, Any]:
    return worker_info(dask_worker).to_dict()


def test_drivers_know_what_could_come(
    following: ElasticCluster, by_hand: ElasticCluster, cluster: LocalCluster
) -> None:
    assert client_offered_shapes(following.client) == following.shapes
    assert client_offered_shapes(by_hand.client) == {}
    assert client_offered_shapes(cluster.client) == {}


def test_an_offer_ends_with_the_process_that_made_it() -> None:
    def an_hour_ago(dask_scheduler: Scheduler) -> None:
        dask_scheduler.extensions[OFFER].made -= 3600

    kinds = {"cpu": Kind.cpus_here(maximum=1)}
    with (
        SpecCluster(scheduler=local_scheduler(), silence_logs=50) as open_cluster,
        Client(open_cluster, set_as_default=False) as client,
    ):
        adapt_kinds(open_cluster, kinds).stop()
        assert client_offered_shapes(client) == {"cpu": kinds["cpu"].shape}
        client.run_on_scheduler(an_hour_ago)
        assert client_offered_shapes(client) == {}
        adaptive = adapt_kinds(open_cluster, kinds)
        assert client_offered_shapes(client) == {"cpu": kinds["cpu"].shape}
        open_cluster.sync(adaptive.finish)
        assert client_offered_shapes(client) == {}


def test_a_kind_needs_a_cluster_that_starts_workers_from_a_specification(following: ElasticCluster) -> None:
    with (
        closing(Other(loop=following.client.loop)) as other,
        pytest.raises(ResourceError, match="a Other does not start workers from a specification; give a Supply"),
    ):
        adapt_kinds(other, {"cpu": Kind.cpus_here()})


def test_numbers_that_cannot_be_are_refused(by_hand: ElasticCluster, following: ElasticCluster) -> None:
    with pytest.raises(ResourceError, match="no workers are of kind 'cpus'; did you mean 'cpu'"):
        by_hand.scale_kind("cpus", 1)
    with pytest.raises(ResourceError, match="3 workers of kind 'gpu': there may be 0 to 2"):
        by_hand.scale_kind("gpu", 3)
    with pytest.raises(RunError, match="open it with follow=False to set numbers yourself"):
        following.scale_kind("gpu", 1)
    with pytest.raises(RunError, match="the cluster is not open"):
        ElasticCluster(two_kinds()).scale_kind("gpu", 1)


def test_kinds_that_cannot_be_are_refused(following: ElasticCluster) -> None:
    with pytest.raises(ResourceError, match="kinds is empty"):
        ElasticCluster({})
    with pytest.raises(ResourceError, match="0 <= minimum <= maximum must hold"):
        Shape(minimum=2, maximum=1)
    with pytest.raises(ResourceError, match="amounts must be zero or more"):
        Shape(cpus=-1)
