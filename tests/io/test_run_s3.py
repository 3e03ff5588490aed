"""Whole pipelines from S3 to S3, on worker processes."""

import json

import fsspec
import pytest

from dcurate import (
    DaskExecutor,
    ExactDuplicates,
    FuzzyDuplicates,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    LocalCluster,
    Pipeline,
    SemanticDuplicates,
    SpanDuplicates,
)
from dcurate.core.pipeline import AnyStage
from dcurate.fs.stores import Directory
from dcurate.run import Executor
from tests.run.regroup import pipeline
from tests.stages import KeepEvery

pytestmark = [pytest.mark.cluster, pytest.mark.s3]


@pytest.mark.parametrize("mode", ["inline", "streaming"])
def test_a_pipeline_runs_from_s3_to_s3_and_is_resumed(bucket, mode: str, cluster: LocalCluster) -> None:
    url, options = bucket
    store = fsspec.filesystem("s3", **options, skip_instance_cache=True)
    for number in range(3):
        store.pipe_file(
            f"{url}/in/{number}.jsonl", b'{"text": "same"}\n{"text": "own%d"}\n{"text": "drop me"}\n' % number
        )
    stages: list[AnyStage] = [
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

    texts = ['{"text": "same"}\n{"text": "own0"}\n', '{"text": "own1"}\n', '{"text": "own2"}\n']
    assert run() == (0, texts, 2)
    assert run() == (3, texts, 2)
    assert not store.find(f"{url}/out.dcurate/rounds")


def test_near_duplicates_are_found_from_s3_to_s3_day_after_day(bucket, cluster: LocalCluster) -> None:
    url, options = bucket
    store = fsspec.filesystem("s3", **options, skip_instance_cache=True)
    words = [f"word{place}" for place in range(14)]
    for day in range(2):
        for number in range(3):
            rows = [" ".join([*words, f"day {day}"]), " ".join(words[::-1] * (number + 1)), f"own {day} {number}"]
            store.pipe_file(f"{url}/{day}/{number}.jsonl", b"".join(b'{"text": "%s"}\n' % row.encode() for row in rows))
    left = []
    for day in range(2):
        stages: list[AnyStage] = [
            JsonlReader(f"{url}/{day}", storage_options=options),
            FuzzyDuplicates(threshold=0.7, index_path=f"{url}/seen", report_path=f"{url}/groups-{day}"),
            JsonlWriter(f"{url}/clean-{day}", storage_options=options),
        ]
        result = Pipeline("s3", stages=stages).run(DaskExecutor(cluster=cluster))
        lines = [line for batch in result for path in batch.data for line in store.cat_file(path).decode().splitlines()]  # type: ignore[attr-defined]
        left.append(len(lines))
        assert store.find(f"{url}/groups-{day}")
        assert not store.find(f"{url}/clean-{day}.dcurate/rounds")
    assert left == [5, 3]


def test_duplicates_by_meaning_are_found_from_s3_to_s3(bucket) -> None:
    url, options = bucket
    store = fsspec.filesystem("s3", **options, skip_instance_cache=True)
    for number in range(2):
        rows = [{"id": f"{number}-{row}", "embeddings": [1.0, row, row * row]} for row in range(4)]
        store.pipe_file(f"{url}/vectors/{number}.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode())
    stages: list[AnyStage] = [
        JsonlReader(f"{url}/vectors", storage_options=options),
        SemanticDuplicates(n_clusters=2, which_to_keep="first", id_field="id"),
        JsonlWriter(f"{url}/meaning", storage_options=options),
    ]
    result = Pipeline("s3", stages=stages).run(InlineExecutor())
    lines = [line for batch in result for path in batch.data for line in store.cat_file(path).splitlines()]  # type: ignore[attr-defined]
    assert [json.loads(line)["id"] for line in lines] == ["0-0", "0-1", "0-2", "0-3"]
    assert not store.find(f"{url}/meaning.dcurate/rounds")


def test_repeated_paragraphs_are_cut_from_s3_to_s3(bucket) -> None:
    url, options = bucket
    store = fsspec.filesystem("s3", **options, skip_instance_cache=True)
    for page in range(3):
        row = {"text": f"What page {page} of ours says.\n\nAll rights reserved, see our terms of use."}
        store.pipe_file(f"{url}/pages/{page}.jsonl", json.dumps(row).encode() + b"\n")
    stages: list[AnyStage] = [
        JsonlReader(f"{url}/pages", storage_options=options),
        SpanDuplicates(unit="paragraph", report_path=f"{url}/spans"),
        JsonlWriter(f"{url}/cut", storage_options=options),
    ]
    result = Pipeline("s3", stages=stages).run(InlineExecutor())
    lines = [line for batch in result for path in batch.data for line in store.cat_file(path).splitlines()]  # type: ignore[attr-defined]
    assert [len(json.loads(line)["text"].split("\n\n")) for line in lines] == [2, 1, 1]
    assert store.find(f"{url}/spans")
    assert not store.find(f"{url}/cut.dcurate/rounds")


@pytest.mark.parametrize("dedup", [False, True])
def test_rows_are_there_once_when_another_file_came_before_a_resume(bucket, dedup: bool) -> None:
    url, options = bucket
    store = fsspec.filesystem("s3", **options, skip_instance_cache=True)

    def put(name: str) -> None:
        store.pipe_file(f"{url}/in/{name}.jsonl", b'{"text": "everywhere"}\n{"text": "own %s"}\n' % name.encode())

    def run(output: str) -> list[str]:
        pipeline(f"{url}/in", f"{url}/{output}", dedup, **options).run(InlineExecutor(), resume=True)
        store.invalidate_cache()
        found = [path for path in store.find(f"{url}/{output}") if ".dcurate" not in path]
        return sorted(store.cat_file(path).decode() for path in found)

    for name in "bdf":
        put(name)
    run("out")
    put("c")
    store.copy(next(path for path in store.find(f"{url}/out") if ".dcurate" not in path), f"{url}/out/x-{0:012x}.jsonl")
    assert run("out") == run("new")
    assert len(run("out")) == (5 if dedup else 8)
    assert [path.rpartition("/")[2] for path in store.find(f"{url}/out.dcurate/strays")] == [f"x-{0:012x}.jsonl"]


def test_appends_in_a_store_have_names_of_their_own_where_records_are_gone(bucket) -> None:
    url, options = bucket
    store = fsspec.filesystem("s3", **options, skip_instance_cache=True)
    for day in range(4):
        store.pipe_file(f"{url}/day{day}/a.jsonl", b'{"text": "day%d"}\n' % day)
        reader = JsonlReader(f"{url}/day{day}", storage_options=options)
        writer = JsonlWriter(f"{url}/out", mode="append", storage_options=options)
        Pipeline("append", stages=[reader, writer]).run(InlineExecutor(), resume=day == 3)
        if day < 2:
            store.rm(f"{url}/out.dcurate", recursive=True)
    store.invalidate_cache()
    names = store.find(f"{url}/out")
    assert sorted(store.cat_file(name) for name in names) == [b'{"text": "day%d"}\n' % day for day in range(4)]
    folder = Directory(f"{url}/claims", options)
    assert [folder.create_file("1"), folder.create_file("1"), folder.create_file("2")] == [True, False, True]
