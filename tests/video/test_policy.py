import math
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import PipelineError
from dcurate.video import FramePolicy
from dcurate.video.selection import FrameSelector

POLICIES = [
    FramePolicy("all"),
    FramePolicy("every", 3),
    FramePolicy("per_second", 1),
    FramePolicy("per_second", 2.5),
    FramePolicy("per_second", 0.3),
    FramePolicy("first"),
    FramePolicy("middle"),
    FramePolicy("last"),
    FramePolicy("key"),
]


class Frame(NamedTuple):
    time_s: float
    is_key: bool


def by_definition(policy, frames, start_s, stop_s, duration_s):
    """The frames that the docstring of `FramePolicy` means, from all frames at once."""
    inside = [frame for frame in frames if frame.time_s >= start_s and (stop_s is None or frame.time_s < stop_s)]
    end_s = min(math.inf if stop_s is None else stop_s, max(duration_s, start_s))

    def at(time_s):
        before = [frame for frame in inside if frame.time_s <= time_s]
        return (before or inside[:1])[-1:]

    chosen = {
        "all": lambda: inside,
        "every": lambda: inside[:: int(policy.value or 1)],
        "first": lambda: inside[:1],
        "middle": lambda: at((start_s + end_s) / 2),
        "last": lambda: inside[-1:],
        "key": lambda: [frame for frame in inside if frame.is_key],
    }
    if policy.kind != "per_second":
        return chosen[policy.kind]()
    frames, steps = [], 0
    while inside and ((time_s := start_s + steps / policy.value) <= inside[-1].time_s or time_s < end_s or not steps):
        frames += [frame for frame in at(time_s) if frame not in frames]
        steps += 1
    return frames


@given(
    st.sampled_from(POLICIES),
    st.lists(st.tuples(st.integers(0, 400), st.booleans()), max_size=30, unique_by=lambda frame: frame[0]),
    st.integers(0, 300),
    st.none() | st.integers(1, 300),
    st.integers(0, 500),
)
def test_a_selector_chooses_the_frames_that_its_policy_means(policy, frames, start, length, duration):
    film = [Frame(time / 20, is_key) for time, is_key in sorted(frames)]
    start_s, stop_s = start / 20, None if length is None else (start + length) / 20
    selector = FrameSelector(policy, start_s, stop_s, duration / 20)
    chosen = [choice for frame in film for choice in selector.offer(frame)]
    chosen += selector.rest()
    assert chosen == by_definition(policy, film, start_s, stop_s, duration / 20)


@given(
    st.sampled_from(POLICIES),
    st.lists(st.integers(0, 400), min_size=1, max_size=30, unique=True),
    st.integers(0, 300),
    st.none() | st.integers(1, 300),
)
def test_frames_before_the_last_that_is_not_after_what_is_needed_do_not_matter(policy, times, start, length):
    film = [Frame(time / 20, True) for time in sorted(times)]
    start_s, stop_s = start / 20, None if length is None else (start + length) / 20
    everything, needed = (FrameSelector(policy, start_s, stop_s, film[-1].time_s + 0.05) for _ in range(2))
    chosen = [[], []]
    for number, frame in enumerate(film):
        chosen[0] += everything.offer(frame)
        follower = film[number + 1].time_s if number + 1 < len(film) else math.inf
        if follower > needed.needed_s:  # the frame at the needed time, or a later one
            chosen[1] += needed.offer(frame)
    assert chosen[0] + list(everything.rest()) == chosen[1] + list(needed.rest())


def test_times_that_jump_and_high_rates_take_no_time():
    selector = FrameSelector(FramePolicy("per_second", 1_000_000), 0.0, None, 1.0)
    frames = [Frame(time_s, True) for time_s in (0.0, 1e-3, 2.0**30, 2.0**33, 2.0**40)]
    chosen = [choice for frame in frames for choice in selector.offer(frame)]
    assert chosen + list(selector.rest()) == frames


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("frist", None, "no kind 'frist'; did you mean 'first'"),
        ("first", 2, "takes no value"),
        ("every", None, "must be above zero"),
        ("every", 1.5, "must be a whole number"),
        ("per_second", 0, "above zero"),
        ("per_second", float("nan"), "above zero"),
    ],
)
def test_wrong_policies_are_refused(kind, value, message):
    with pytest.raises(PipelineError, match=message):
        FramePolicy(kind, value)
