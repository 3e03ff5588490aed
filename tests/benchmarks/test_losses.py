"""The simulation of hosts that are lost: every split ends once, and what notice saves is moved."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.losses import HostLoss, LossySimulation, clairvoyant, losses_of
from benchmarks.simulated import SimulatedJob, SimulatedOperator
from dcurate.engine.allocate.allocation import Host, SchedulingUnit


def small_job(hosts: int, splits: int, weight: float = 1.0) -> SimulatedJob:
    stages = (
        SimulatedOperator(SchedulingUnit("read", seconds=2.0), 0.3),
        SimulatedOperator(SchedulingUnit("score", seconds=5.0, weight=weight), 0.3, setup_s=3.0),
    )
    return SimulatedJob(stages, tuple(Host(f"host-{number}", 2.0) for number in range(hosts)), splits)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.0, 120.0), st.booleans()), max_size=4),
    st.integers(1, 80),
    st.sampled_from([1.0, 3.0]),
)
def test_every_split_ends_whatever_is_lost(losses: list[tuple[float, bool]], splits: int, weight: float) -> None:
    job = small_job(6, splits, weight)
    gone = [
        HostLoss(f"host-{number}", gone_s, max(0.0, gone_s - 30) if noticed else None)
        for number, (gone_s, noticed) in enumerate(losses)
    ]
    simulation = LossySimulation(job, gone)
    simulation.run()
    simulation._obey()
    assert simulation.splits_done == splits
    assert simulation.flow.done
    assert not simulation.missing
    assert not any(simulation.blocked.values())
    assert not simulation.home
    if all(noticed for _, noticed in losses):
        assert simulation.lost.results == 0


def test_losses_cost_calls_and_results() -> None:
    job = small_job(6, 300)
    untouched = LossySimulation(job, ())
    untouched.run()
    shaken = LossySimulation(job, [HostLoss("host-0", 30.0, None), HostLoss("host-1", 60.0, None)])
    shaken.run()
    assert (untouched.lost.calls, untouched.lost.results) == (0, 0)
    assert shaken.lost.calls > 0
    assert shaken.out.seconds > untouched.out.seconds


def test_a_clairvoyant_plan_has_fewer_hosts_after_each_loss() -> None:
    job = small_job(10, 1)
    losses = losses_of(job.hosts, 0.3, seed=1)
    assert len(losses) == 3
    assert sum(loss.notice_s is not None for loss in losses) == 2
    all_hours, some = clairvoyant(job, (), 0.0), clairvoyant(job, losses, 0.0)
    assert 0.7 * all_hours < some < all_hours
    assert clairvoyant(job, losses, 1800.0) < some
