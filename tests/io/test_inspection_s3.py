"""Reports and documents of a run whose output is in S3."""

import fsspec
import pytest

from dcurate import (
    DaskExecutor,
    JsonlReader,
    LocalCluster,
    ParquetWriter,
    Pipeline,
    ScoreFilter,
    inspect,
    read_run,
    trace,
)
from dcurate.core.pipeline import AnyStage
from dcurate.runs import RunPlaces
from dcurate.text import WordCountFilter

pytestmark = [pytest.mark.cluster, pytest.mark.s3]


def test_a_run_into_s3_leaves_its_page_there_and_its_documents_are_found(bucket, cluster: LocalCluster) -> None:
    url, options = bucket
    store = fsspec.filesystem("s3", **options, skip_instance_cache=True)
    for part in range(2):
        lines = [b'{"id": "%d-%d", "text": "%s"}' % (part, row, b"word " * row) for row in range(8)]
        store.pipe_file(f"{url}/in/{part}.jsonl", b"\n".join(lines))
    stages: list[AnyStage] = [
        JsonlReader(f"{url}/in", files_per_partition=1, storage_options=options),
        ScoreFilter(WordCountFilter(min_words=4)),
        ParquetWriter(f"{url}/out", storage_options=options),
    ]
    Pipeline("far", stages=stages).run(DaskExecutor(cluster=cluster), rejected=f"{url}/rejected")
    page = store.cat_file(f"{url}/out.dcurate/report.html").decode()
    assert "What became of the documents" in page
    assert "test" not in page.partition("<table")[0]
    places = RunPlaces(f"{url}/out", storage_options=options)
    assert read_run(f"{url}/out", options).report.stages[1].dropped == {"word_count": 8}
    assert {one.score for one in inspect(places, "word_count", n=20).dropped} == {0, 1, 2, 3}
    dropped, kept = trace(places, ["0-2", "1-7"]).fates
    assert (dropped.outcome, dropped.score, kept.outcome) == ("dropped", 2, "kept")
    assert kept.place.startswith(f"{url}/out/1-")
