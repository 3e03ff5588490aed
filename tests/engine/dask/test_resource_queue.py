"""The queue of a worker with several operators."""

from distributed.worker_state_machine import ComputeTaskEvent, Execute, FreeKeysEvent, TaskState, WorkerState
from hypothesis import given
from hypothesis import strategies as st

from dcurate.engine.dask.resource_queue import FairQueue, install_resource_queue


def task(name: str, priority: int, resource: str) -> TaskState:
    return TaskState(name, priority=(priority,), resource_restrictions={resource: 1})


def test_a_task_whose_slot_is_busy_does_not_hold_up_the_others() -> None:
    free = {"embed": 0, "classify": 1}
    queue = FairQueue(free)
    first, second = task("a", 1, "embed"), task("b", 2, "classify")
    queue.add(first)
    queue.add(second)
    assert queue.peek() is second
    assert queue.pop() is second
    assert queue.peek() is first
    free["embed"] = 1
    assert queue.pop() is first
    assert not queue


@given(
    st.lists(st.tuples(st.integers(0, 20), st.sampled_from("abc")), min_size=1, max_size=20),
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 2)),
)
def test_it_gives_the_first_by_priority_of_those_that_may_run(
    tasks: list[tuple[int, str]], free: dict[str, int]
) -> None:
    queue = FairQueue(free)
    added = [task(str(number), priority, resource) for number, (priority, resource) in enumerate(tasks)]
    for one in added:
        queue.add(one)
    left = list(added)
    while left:
        may = [one for one in left if free.get(next(iter(one.resource_restrictions)), 0) >= 1] or left
        first = queue.pop()
        assert first in may
        assert first.priority == min(one.priority for one in may)
        left.remove(first)


def test_a_task_for_slots_that_have_gone_waits_and_does_no_harm() -> None:
    state = WorkerState(nthreads=1)
    install_resource_queue(state)
    held = ComputeTaskEvent.dummy("late", resource_restrictions={"stage-gone": 1}, stimulus_id="a")
    assert state.handle_stimulus(held) == []
    assert state.tasks["late"].state == "constrained"
    other = state.handle_stimulus(ComputeTaskEvent.dummy("other", stimulus_id="b"))
    assert [one.key for one in other if isinstance(one, Execute)] == ["other"]
    state.handle_stimulus(FreeKeysEvent(keys=["late"], stimulus_id="c"))
    assert "late" not in state.tasks
