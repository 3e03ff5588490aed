from dataclasses import dataclass, field

import pytest

from dcurate import (
    DaskExecutor,
    ExactDuplicates,
    InlineExecutor,
    LocalCluster,
    Pipeline,
    PipelineError,
    ProcessingStage,
    ResourceError,
    Resources,
    StageSpec,
)
from dcurate.events import HostsSampled, RunEnded, RunStarted, Sampled
from tests.stages import Append, Numbers, Sleep

pytestmark = pytest.mark.cluster


@dataclass
class Told:
    """Keeps all events."""

    events: list = field(default_factory=list)

    def on_event(self, event):
        self.events.append(event)

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]


@dataclass
class Measured(ProcessingStage):
    """Logs how many rows it sees, and where it stands."""

    resources: Resources = field(default_factory=lambda: Resources(cpus=1, gpus=1))
    spec: StageSpec = field(default_factory=lambda: StageSpec(gpu_optional=True))

    def setup(self, worker_metadata=None):
        self.cards = worker_metadata.allocation

    def process(self, task):
        self._log_metrics({"seen": task.num_items, "cards": len(self.cards)})
        return task


def test_a_run_says_how_it_stands_and_what_its_machines_are(cluster):
    told = Told()
    pipeline = Pipeline("slow", stages=[Numbers(24), Append().with_(num_workers=1), Sleep(0.15).with_(num_workers=1)])
    result = pipeline.run(DaskExecutor(cluster=cluster), observers=[told])
    samples = told.of(Sampled)
    assert len(samples) >= 3
    waited = [one for sample in samples for one in sample.operators if one.operator == "sleep" and one.waiting_bytes]
    assert waited
    assert all(sample.held_bytes <= sample.budget_bytes for sample in samples)
    (host,) = told.of(HostsSampled)[-1].hosts
    assert (host.workers, host.threads) == (2, 2)
    assert 0 < host.memory < host.memory_limit
    assert result.history.snapshot().hosts == told.of(HostsSampled)[-1].hosts
    busy = result.operators.set_index("operator")["busy"]["sleep"]
    assert 24 * 0.15 / result.report.seconds <= busy <= 1  # its one slot was there no longer than the run


@pytest.mark.parametrize("mode", ["inline", "streaming", "batch"])
def test_all_phases_of_a_run_have_its_id_and_the_last_says_that_it_is(mode, cluster):
    told = Told()
    executor = InlineExecutor() if mode == "inline" else DaskExecutor({"execution_mode": mode}, cluster)
    result = Pipeline("phases", stages=[Numbers(2), ExactDuplicates(), Append()]).run(executor, observers=[told])
    begun, ended = told.of(RunStarted), told.of(RunEnded)
    assert {event.run for event in begun} == {result.report.run}
    assert [event.phase for event in begun] == list(range(len(begun)))
    assert [event.last for event in ended] == [False] * (len(ended) - 1) + [True]
    assert len(begun) == len(ended) > 1


def test_what_a_stage_measures_is_added_up_over_calls_slots_and_modes(cluster):
    for executor in (InlineExecutor(), DaskExecutor(cluster=cluster)):
        result = Pipeline("measured", stages=[Numbers(6, rows=5), Measured(), Append()]).run(executor)
        assert result.report.stages[1].metrics == {"seen": 30.0, "cards": 0.0}
        assert result.stages.set_index("stage")["seen"]["measured"] == 30.0


def test_a_stage_whose_gpu_is_optional_runs_on_cpus_where_there_is_none(cluster):
    result = Pipeline("optional", stages=[Numbers(2), Measured()]).run(DaskExecutor(cluster=cluster))
    assert result.report.stages[-1].rows_out == 10


def test_a_stage_whose_gpu_is_optional_takes_one_where_there_is_one():
    with LocalCluster(n_workers=1, simulate_gpus=1) as cluster:
        result = Pipeline("optional", stages=[Numbers(2), Measured()]).run(DaskExecutor(cluster=cluster))
    assert result.report.stages[-1].metrics["cards"] == 2


def test_who_asks_for_a_gpu_by_name_is_refused_where_there_is_none(cluster):
    insisting = Measured().with_(resources=Resources(gpus=0.5))
    assert not insisting.spec.gpu_optional
    with pytest.raises(ResourceError, match=r"GPU"):
        Pipeline("insisting", stages=[Numbers(2), insisting]).run(DaskExecutor(cluster=cluster))


def test_gpu_optional_is_true_or_false():
    with pytest.raises(PipelineError, match=r"^gpu_optional='maybe' must be True or False$"):
        StageSpec(gpu_optional="maybe")  # type: ignore[arg-type]
