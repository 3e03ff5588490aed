"""Several hosts, which real worker processes stand for: resources and fixed numbers hold on each, in every mode."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from dcurate import AttachedCluster, DaskExecutor, Pipeline, ResourceError, Resources
from dcurate.engine.dask.worker_plugin import describe
from dcurate.events import Event, SlotsChanged
from tests.cluster.test_worker_info import scheduler
from tests.engine.test_kills import worker_of_host
from tests.forked import forked
from tests.stages import Append, Numbers, Sleep

pytestmark = pytest.mark.cluster

HOSTS = ("north", "south")


@pytest.fixture(scope="module")
def two_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttachedCluster]:
    """Hosts of two CPU workers each and one (simulated) GPU each."""
    folder = tmp_path_factory.mktemp("hosts")
    with ExitStack() as stack:
        address = stack.enter_context(scheduler(folder))
        on_cpus = [worker_of_host(address, host, folder) for host in HOSTS]
        on_gpus = [worker_of_host(address, host, folder, "--simulate-gpus", "0") for host in HOSTS]
        for number, command in enumerate(on_cpus + on_gpus):
            stack.enter_context(forked(*command, log=folder / f"{number}.log"))
        cluster = stack.enter_context(AttachedCluster(address, timeout_s=180))
        cluster.client.wait_for_workers(8, timeout=180)
        yield cluster


class Slots:
    """The most slots that each operator ever had, by host; and of all operators together on GPUs."""

    def __init__(self, cluster: AttachedCluster) -> None:
        self.hosts = {address: said["host"] for address, said in cluster.client.run(describe).items()}
        self.now: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.most: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def on_event(self, event: Event) -> None:
        if isinstance(event, SlotsChanged):
            self.now[event.operator][event.worker] = event.slots
            by_host: Counter[str] = Counter()
            for worker, slots in self.now[event.operator].items():
                by_host[self.hosts[worker]] += slots
            self.most[event.operator] |= by_host


def texts(cluster: AttachedCluster, mode: str, slots: Slots, *chain: Append | Sleep) -> list[str]:
    stages = [Numbers(24, 2), *chain]
    executor = DaskExecutor({"execution_mode": mode}, cluster)
    batches = Pipeline("hosts", stages=stages).run(executor, observers=[slots])
    return sorted(text for batch in batches for text in batch.to_arrow()["text"].to_pylist())  # type: ignore[attr-defined]


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_a_number_for_each_host_holds_on_each(mode: str, two_hosts: AttachedCluster) -> None:
    slots = Slots(two_hosts)
    pinned = Append("!").with_(name="pinned", num_workers_per_node=1)
    assert texts(two_hosts, mode, slots, Sleep(0.02), pinned) == sorted(f"{number}!" for number in range(48))
    assert slots.most["pinned"] == dict.fromkeys(HOSTS, 1)


def test_gpu_stages_that_do_not_fit_side_by_side_run_in_batch_mode_and_no_card_is_given_twice(
    two_hosts: AttachedCluster,
) -> None:
    gpu = Resources(cpus=0, gpus=1)
    chain = [Append(letter).with_(name=f"gpu_{letter}", resources=gpu, num_workers=2) for letter in "abc"]
    slots = Slots(two_hosts)
    with pytest.raises(ResourceError, match="gpu_"):
        texts(two_hosts, "streaming", slots, *chain)
    assert not slots.most
    assert texts(two_hosts, "batch", slots, *chain) == sorted(f"{number}abc" for number in range(48))
    assert all(slots.most[f"gpu_{letter}"] == dict.fromkeys(HOSTS, 1) for letter in "abc")


def test_fractions_of_cards_hold_on_each_host_in_both_modes(two_hosts: AttachedCluster) -> None:
    third = Sleep(0.1).with_(name="third", resources=Resources(cpus=0, gpus=0.3))
    for mode in ("streaming", "batch"):
        slots = Slots(two_hosts)
        assert texts(two_hosts, mode, slots, third) == sorted(map(str, range(48)))
        assert set(slots.most["third"]) == set(HOSTS)
        assert max(slots.most["third"].values()) <= 3
