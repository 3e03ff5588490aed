"""Workflows from S3 to S3."""

import json

import fsspec
import pytest

from dcurate import ExactDeduplicationWorkflow, InlineExecutor, TextDuplicatesRemovalWorkflow

pytestmark = pytest.mark.s3


def test_duplicates_are_found_in_one_bucket_and_removed_from_it(bucket) -> None:
    url, options = bucket
    store = fsspec.filesystem("s3", **options, skip_instance_cache=True)
    for number in range(3):
        store.pipe_file(f"{url}/in/{number}.jsonl", b'{"text": "same"}\n{"text": "own%d"}\n' % number)
    storage = {"storage_options": options}
    found = ExactDeduplicationWorkflow(
        f"{url}/found", f"{url}/in", "jsonl", read_kwargs=storage, write_kwargs=storage
    ).run(InlineExecutor())
    assert found.metadata["num_duplicates"] == 2
    removal = TextDuplicatesRemovalWorkflow(
        f"{url}/in",
        f"{url}/found/ExactDuplicateIds",
        f"{url}/out",
        "jsonl",
        duplicate_id_field="_curator_dedup_id",
        input_kwargs=storage,
        duplicate_id_read_kwargs=storage,
        id_generator_path=found.metadata["id_generator_path"],
        id_generator_storage_options=options,
        output_filetype="jsonl",
        output_kwargs=storage,
    ).run(InlineExecutor())
    rows = [json.loads(line) for path in store.glob(f"{url}/out/*.jsonl") for line in store.cat_file(path).splitlines()]
    assert sorted(row["text"] for row in rows) == ["own0", "own1", "own2", "same"]
    assert removal.metadata["num_duplicates_removed"] == 2
    assert removal.metadata["num_ids_not_found"] == 0
