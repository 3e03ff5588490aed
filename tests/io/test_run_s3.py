"""Whole pipelines from S3 to S3, on worker processes."""

import fsspec
import pytest

from dcurate import DaskExecutor, ExactDuplicates, InlineExecutor, JsonlReader, JsonlWriter, LocalCluster, Pipeline
from dcurate.run import Executor
from tests.stages import KeepEvery

pytestmark = pytest.mark.s3


@pytest.mark.parametrize("mode", ["inline", "streaming"])
def test_a_pipeline_runs_from_s3_to_s3_and_is_resumed(bucket, mode: str, cluster: LocalCluster) -> None:
    url, options = bucket
    store = fsspec.filesystem("s3", **options, skip_instance_cache=True)
    for number in range(3):
        store.pipe_file(
            f"{url}/in/{number}.jsonl", b'{"text": "same"}\n{"text": "own%d"}\n{"text": "drop me"}\n' % number
        )
    stages = [
        JsonlReader(f"{url}/in", storage_options=options),
        KeepEvery(4, 0).with_(name="by_length"),
        ExactDuplicates(),
        JsonlWriter(f"{url}/out", storage_options=options),
    ]
    executor: Executor = InlineExecutor() if mode == "inline" else DaskExecutor(cluster=cluster)

    def run() -> tuple[int, list[str], int]:
        result = Pipeline("s3", stages=stages).run(executor, resume=True, rejected=f"{url}/rejected")
        texts = [store.cat_file(path).decode() for batch in result for path in batch.data]  # type: ignore[attr-defined]
        return result.report.splits_before, texts, len(store.find(f"{url}/rejected"))

    texts = ['{"text":"same"}\n{"text":"own0"}\n', '{"text":"own1"}\n', '{"text":"own2"}\n']
    assert run() == (0, texts, 2)
    assert run() == (3, texts, 2)
    assert not store.find(f"{url}/out/_dcurate/exact_duplicates")
