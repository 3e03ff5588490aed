"""The video example's optimum is exact, and its stages keep every clip."""

from __future__ import annotations

import doctest
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import film_stages, video_example
from benchmarks.scenario import Phase, Step
from benchmarks.timeline import read_slots
from benchmarks.video_example import FilmScenario, best_counts, with_one_slot_each
from dcurate import DocumentBatch, InlineExecutor, Resources
from dcurate.engine.allocate.allocation import Gpu, Host, SchedulingUnit
from dcurate.engine.allocate.solve import solve
from dcurate_testing.llm_server import served
from tests.video.films import film

pytestmark = pytest.mark.program

Pixels = npt.NDArray[np.uint8]

_NEEDS = (Resources(cpus=1.0), Resources(cpus=0.25), Resources(cpus=1.0, gpus=1.0))


def test_the_examples_hold() -> None:
    assert doctest.testmod(video_example).failed == doctest.testmod(film_stages).failed == 0


@settings(deadline=None, max_examples=60)
@given(
    operators=st.lists(st.tuples(st.floats(0.01, 20.0), st.sampled_from(_NEEDS)), min_size=1, max_size=5),
    cpus=st.integers(5, 16),
)
def test_the_optimum_is_that_of_the_solver(operators: list[tuple[float, Resources]], cpus: int) -> None:
    work, needs = [seconds for seconds, _ in operators], [need for _, need in operators]
    units = [
        SchedulingUnit(f"unit-{place}", need.cpus, need.gpus, seconds=seconds)
        for place, (seconds, need) in enumerate(operators)
    ]
    solution = solve(units, [Host("host", float(cpus), tuple(Gpu(f"gpu-{number}") for number in range(7)))])
    assert solution is not None
    rate, counts = best_counts(work, needs, cpus, 7)
    assert rate == pytest.approx(solution.throughput)
    assert min(count / seconds for count, seconds in zip(counts, work, strict=True)) == pytest.approx(rate)


def test_with_one_slot_each_the_slowest_stage_decides() -> None:
    steps = (Step("a", 0.5), Step("b", 2.0, fanout=3))
    scenario = FilmScenario("s", steps, (), (Phase(1.0, (0.5, 2.0), (1, 6), 1.0),))
    assert with_one_slot_each(scenario).phases == (Phase(1.0, (0.5, 2.0), (1, 1), 1 / 6),)


def three_shots(number: int) -> Pixels:
    return np.full((48, 64, 3), (30, 220, 120)[number // 20], np.uint8)


def test_every_clip_goes_through_all_stages_and_is_captioned(tmp_path: Path) -> None:
    (tmp_path / "films").mkdir()
    (tmp_path / "diaries").mkdir()
    for number in range(2):
        (tmp_path / "films" / f"{number}.mp4").write_bytes(film(frames=60, pictures=three_shots))
    models = tuple(
        (name, film_stages.made_vision(tmp_path / name, seed)) for seed, name in enumerate(video_example.GPU_S)
    )
    with served() as endpoint:
        scenario = FilmScenario("s", (), (), (), films=str(tmp_path / "films"), models=models, url=endpoint.url)
        pipeline = scenario.pipeline(2, 0.0, str(tmp_path / "diaries"))
        rows = []
        for batch in pipeline.run(InlineExecutor(), observers=[]):
            assert isinstance(batch, DocumentBatch)
            rows += batch.to_arrow().to_pylist()
        assert endpoint.seen.paid == len(rows)
    assert len(rows) == 2 * 3
    assert all(len(row["embed_scene"]) == len(row["embed_look"]) == 32 and row["caption"] for row in rows)
    calls = {slot.operator: len(slot.calls) for slot in read_slots(tmp_path / "diaries")}
    assert calls == {place: 2 if place < 5 else len(rows) for place in range(len(pipeline.stages))}
