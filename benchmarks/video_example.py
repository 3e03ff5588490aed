"""The seeds' example with real films: slots are balanced over seven GPUs. Part ``example`` of ``benchmarks.video``.

Films of ``videos.tar``, again and again, go through stages of dcurate in real Dask processes, as `benchmarks.streaming`
runs them: they are decoded and cut into shots on CPUs; each film becomes several clips, a batch each; two vision models
embed the frames of a clip; and an endpoint captions it.

Simulated are the hosts (`HOST`), which declare more CPUs and GPUs than this machine has; the time that a GPU takes for
a clip and to load a model (the models are small, run on the CPU, and then the slot waits until that time is over); and
the endpoint, a real server that takes its time to answer, without a model.

The optimum is exact: the most films a second that any numbers of slots allow, by trying all. Seconds of calls on CPUs
are those of the same stages alone, one film at a time, measured before; those of models and of the endpoint are what is
simulated. ``steady_ratio`` is the throughput over the optimum, from when counts are right until the bottleneck runs out
of work; ``unbalanced_ratio`` is that of the same pipeline with one slot for each stage.
"""

from __future__ import annotations

import json
import math
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

from benchmarks import film_stages
from benchmarks.film_stages import (
    LoggedCaptions,
    LoggedClipRows,
    LoggedClips,
    LoggedEmbedding,
    LoggedFrames,
    LoggedPooling,
    LoggedReader,
    LoggedShots,
    LoggedWindows,
    made_vision,
)
from benchmarks.hosts import WORKER_MEMORY, HostSpec
from benchmarks.scenario import Phase, Scenario, Step
from benchmarks.streaming import StreamingRun, judge, line_of
from benchmarks.streaming import run as run_streaming
from benchmarks.timeline import Timeline, read_slots
from dcurate import InlineExecutor, Pipeline, Resources
from dcurate.llm import AsyncOpenAIClient
from dcurate.plan.compile import compile_plan
from dcurate.video import ClipLengths
from dcurate_testing.llm_server import Behaviour, Endpoint, served

#: What is pretended: the budget of the example.
HOST = HostSpec("host-0", cpus=16, cpu_workers=16, gpus=7, gpu_memory=80e9)

#: Seconds that a GPU takes for the frames of a clip with each model, and to load a model. So long that the hundredths
#: of a second between two calls, which a machine of few cores needs that is busy with other things, are a small share.
GPU_S = {"embed_scene": 2.0, "embed_look": 0.8}
LOAD_S = 3.0

#: Seconds of an answer of the endpoint on average, and by what share it takes more or less.
LATENCY_S, SPREAD = 1.5, 0.3

#: Seconds that runs take in their steady state: balanced, and with one slot a stage.
SECONDS, SECONDS_UNBALANCED = 200.0, 60.0

#: Bytes that may stand between stages, so that films are decoded all the time and not all at the beginning: frames of
#: about 25 films. With much less there is no room for a clip that waits for each slot of a model.
AHEAD_BYTES = 7_000_000

QUESTION = "Say in one sentence what these frames of a film show."

#: Height of frames in pixels.
_HEIGHT = 120
#: Figures of `benchmarks.streaming` that are kept.
_KEPT = (
    *("steady_ratio", "steady_work_ratio", "steady_from_s", "steady_to_s", "bottleneck", "bottleneck_busy_share"),
    *("seconds_to_right_counts", "allowed_seconds", "optimum", "counts_when_steady", "setups", "setups_thrown_away"),
    *("makespan_ratio", "run_s", "overslept", "cpu_share_of_machine", "cpu_share_of_others"),
)


# The pipeline


@dataclass(frozen=True)
class FilmScenario(Scenario):
    """The example as `benchmarks.streaming` runs it.

    Args:
        films: the folder with the films of a run.
        models: folders of the vision models, by the stage's name.
        url: address of the endpoint.
    """

    films: str = ""
    models: tuple[tuple[str, str], ...] = ()
    url: str = ""

    modules: ClassVar[tuple[str, ...]] = (film_stages.__name__,)

    def host_specs(self) -> list[HostSpec]:
        return [HOST]

    def memory_share(self) -> float:
        return AHEAD_BYTES / (HOST.workers * WORKER_MEMORY)

    def pipeline(self, splits: int, scale: float, folder: str, num_workers: int | None = None) -> Pipeline:
        """The stages of the example.

        Args:
            splits: films that are read, from the first on.
            scale: of the simulated seconds of GPUs; 0 for what the models take here.
            folder: for the diaries.
            num_workers: slots of each stage, where they are to be pinned.
        """
        whole_shots = ClipLengths(min_length_s=0.5, max_length_s=10.0, crop_s=None)
        embeddings = [
            LoggedEmbedding(model, device="cpu", embedding_field=name, name=name)
            .with_(resources=Resources(cpus=1.0, gpus=1.0))
            .on_simulated_gpu(scale * GPU_S[name], scale * LOAD_S)
            for name, model in self.models
        ]
        client = AsyncOpenAIClient(1, base_url=self.url, api_key="none")
        stages: list[Any] = [
            LoggedReader(self.films, files_per_partition=1, limit=splits),
            LoggedShots(),
            LoggedClips(whole_shots),
            LoggedClipRows(),
            LoggedFrames(height=_HEIGHT, max_films_per_batch=1),
            *embeddings,
            LoggedPooling(dict.fromkeys(GPU_S, "mean")),
            LoggedWindows(height=_HEIGHT),
            LoggedCaptions(
                prompt=QUESTION, images_field="window_frames", output_field="caption", client=client, model="made-up"
            ),
        ]
        pinned = [stage.with_(num_workers=num_workers) for stage in stages]
        return Pipeline(self.name, stages=[stage.logged(place, folder) for place, stage in enumerate(pinned)])


@contextmanager
def filmed(folder: Path, copies: int) -> Iterator[tuple[str, int]]:
    """A folder with copies of the films whose shots are known, and the number of films."""
    truth = map(json.loads, (folder / "videos-truth.jsonl").read_text().splitlines())
    names = {film["file"] for film in truth if film.get("shots") and "near_of" not in film}
    with tempfile.TemporaryDirectory(prefix="dcurate-films-") as place:
        with tarfile.open(folder / "videos.tar") as archive:
            archive.extractall(place, [member for member in archive if member.name in names], filter="data")
        repeated = Path(place, "films")
        repeated.mkdir()
        for copy in range(copies):
            for name in names:
                (repeated / f"{copy:04}-{name}").hardlink_to(Path(place, name))
        yield str(repeated), len(names)


# The optimum


def best_counts(work: Sequence[float], needs: Sequence[Resources], cpus: float, gpus: int) -> tuple[float, list[int]]:
    """The greatest rate that a host allows, and the fewest slots of each operator that reach it.

    At that rate some operator has exactly the slots that it needs, so that all such rates are tried.

    Args:
        work: seconds that a slot of each operator works on one film.
        needs: resources of one slot of each; GPUs are whole.

    Examples:
        >>> of_gpu = Resources(cpus=1.0, gpus=1.0)
        >>> best_counts([0.25, 1.0, 0.5], [of_gpu] * 3, cpus=16, gpus=7)
        (4.0, [1, 4, 2])
        >>> best_counts([1.0, 0.5], [Resources(cpus=1.0), of_gpu], cpus=2, gpus=7)
        (1.0, [1, 1])
    """
    most = [int(min(cpus / need.cpus, gpus / need.gpus if need.gpus else math.inf)) for need in needs]
    rates = {count / seconds for seconds, limit in zip(work, most, strict=True) for count in range(1, limit + 1)}
    for rate in sorted(rates, reverse=True):
        counts = [max(1, math.ceil(rate * seconds - 1e-9)) for seconds in work]
        slots = list(zip(counts, needs, strict=True))
        if sum(count * need.cpus for count, need in slots) <= cpus and sum(n * need.gpus for n, need in slots) <= gpus:
            return rate, counts
    raise ValueError("one slot of each operator does not fit")


def measured(scenario: FilmScenario, films: int, endpoint: Endpoint) -> FilmScenario:
    """The scenario with its steps and its optimum, after each film went through the stages twice, with nothing beside.

    Only the second time counts.
    """
    endpoint.behave()
    with tempfile.TemporaryDirectory(prefix="dcurate-alone-") as folder:
        pipeline = scenario.pipeline(2 * films, 0.0, folder)
        pipeline.run(InlineExecutor(), observers=[])
        slots = {slot.operator: slot for slot in read_slots(Path(folder))}
    seen = endpoint.seen
    behaviour = Behaviour(LATENCY_S, SPREAD)
    latency = sum(behaviour.seconds(text) * count for text, count in seen.asked.items()) / sum(seen.asked.values())
    steps = []
    for place, stage in enumerate(pipeline.stages):
        calls = slots[place].calls[len(slots[place].calls) // 2 :]
        seconds = fmean(call.end - call.begin for call in calls)
        if stage.name in GPU_S:
            assert seconds < GPU_S[stage.name], f"{stage.name} takes {seconds:.2f} s here, more than is simulated"
            seconds = GPU_S[stage.name]
        if place == len(pipeline.stages) - 1:
            seconds += latency
        fanout = float(Fraction(len(slots[place].calls), 2 * films))
        setup = LOAD_S if stage.name in GPU_S else 0.0
        needs = stage.resources
        steps.append(Step(stage.name, seconds, fanout, needs.cpus, needs.gpus, setup_s=setup))
    groups = _operators(pipeline)
    work = [sum(steps[place].seconds * steps[place].fanout for place in group) for group in groups]
    needs_of = [pipeline.stages[group[0]].resources for group in groups]
    rate, counts = best_counts(work, needs_of, HOST.cpus, HOST.gpus)
    of_stage = [count for group, count in zip(groups, counts, strict=True) for _ in group]
    phase = Phase(1.0, tuple(step.seconds for step in steps), tuple(of_stage), rate)
    return replace(scenario, steps=tuple(steps), phases=(phase,))


def _operators(pipeline: Pipeline) -> list[range]:
    """The places of the stages of each operator."""
    groups, first = [], 0
    for operator in compile_plan(pipeline.stages).operators:
        groups.append(range(first, first + len(operator.parts)))
        first += len(operator.parts)
    return groups


# The figures


def run(folder: Path) -> dict[str, Any]:
    with (
        tempfile.TemporaryDirectory(prefix="dcurate-models-") as models,
        served() as endpoint,
        filmed(folder, 40) as (films, count),
    ):
        made = tuple((name, made_vision(Path(models, name), seed)) for seed, name in enumerate(GPU_S))
        unknown = FilmScenario("video_example", (), (), (), films=films, models=made, url=endpoint.url)
        scenario = measured(unknown, count, endpoint)
        balanced, captions = _streamed(scenario, endpoint, count * math.ceil(SECONDS * scenario.phases[0].rate / count))
        pinned = with_one_slot_each(scenario)
        unbalanced, _ = _streamed(
            pinned, endpoint, count * math.ceil(SECONDS_UNBALANCED * pinned.phases[0].rate / count), 1
        )
    figures = judge(scenario, balanced)
    print(line_of(figures | {"short": []}), flush=True)
    if "error" in figures or unbalanced.error:
        return figures | {"unbalanced_error": unbalanced.error}
    shown = judge(pinned, unbalanced)
    print(line_of(shown | {"short": []}), flush=True)
    share = pinned.phases[0].rate / scenario.phases[0].rate
    return _summed_up(scenario, figures, captions) | {
        "unbalanced_ratio": round(share * shown["steady_ratio"], 4),
        "films_decoded_in_steady_state": decoded_in_steady_state(balanced.timeline),
    }


def decoded_in_steady_state(timeline: Timeline) -> int:
    """How many films were decoded and cut into shots in the window of ``steady_ratio``, and not before."""
    start, stop = timeline.steady() or (0.0, 0.0)
    place = [step.name for step in timeline.scenario.steps].index("find_shots")
    return sum(start <= call.begin < stop for call in timeline.calls_of(place))


def with_one_slot_each(scenario: FilmScenario) -> FilmScenario:
    """The scenario whose best is one slot for each stage."""
    [phase] = scenario.phases
    counts = (1,) * len(scenario.steps)
    return replace(scenario, phases=(replace(phase, counts=counts, rate=min(scenario.rate_of(counts))),))


def _streamed(
    scenario: FilmScenario, endpoint: Endpoint, films: int, num_workers: int | None = None
) -> tuple[StreamingRun, int]:
    """A run, and how many captions the endpoint gave."""
    endpoint.behave(latency=LATENCY_S, spread=SPREAD)
    return run_streaming(scenario, 1.0, films, num_workers), endpoint.seen.paid


def _summed_up(scenario: FilmScenario, figures: dict[str, Any], captions: int) -> dict[str, Any]:
    phase, last = scenario.phases[0], scenario.steps[-1]
    return {
        "simulated": [
            f"one host with {HOST.cpus} CPUs and {HOST.gpus} GPUs",
            *(f"{seconds:g} s on a GPU for a clip in {name}" for name, seconds in GPU_S.items()),
            f"{LOAD_S:g} s to load a model",
            f"{LATENCY_S:g} s of the endpoint for a caption, {SPREAD:.0%} more or less, of a server without a model",
        ],
        "films": figures["splits"],
        "clips": round(figures["splits"] * last.fanout),
        "captions": captions,
        "optimum_films_per_s": round(phase.rate, 4),
        "optimum_clips_per_s": round(phase.rate * last.fanout, 4),
        "seconds_of_a_call": {step.name: round(step.seconds, 4) for step in scenario.steps},
        "calls_of_a_film": {step.name: round(step.fanout, 4) for step in scenario.steps},
        **{name: figures[name] for name in _KEPT},
        "decisions": [event["reason"] for event in figures["decisions"] if event["event"] == "Decided"],
    }
