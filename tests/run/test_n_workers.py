"""A number of workers in place of an executor."""

import os

import pandas as pd
import pytest

from dcurate import InlineExecutor, Pipeline, PipelineError, processing_stage

pytestmark = pytest.mark.cluster


@processing_stage(name="process", outputs=["process"])
def process(batch):
    return batch.with_data(batch.to_pandas().assign(process=os.getpid()))


def test_a_number_of_workers_starts_so_many_and_an_executor_beside_it_is_refused() -> None:
    rows = pd.DataFrame({"n": range(4)})
    result = Pipeline("x", stages=[process]).run(initial_tasks=rows, n_workers=2, observers=[])
    assert result.report.workers == 2
    assert os.getpid() not in set(result.to_pandas().process)
    with pytest.raises(PipelineError, match="n_workers=2 is in place of an executor, and one is given"):
        Pipeline("x", stages=[process]).run(InlineExecutor(), rows, n_workers=2)
