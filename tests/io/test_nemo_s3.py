"""A pipeline written for NeMo Curator, from S3 to S3, on worker processes."""

from __future__ import annotations

from dataclasses import dataclass

import fsspec
import pytest

from dcurate.compat.nemo import ids, stages, tasks
from dcurate.compat.nemo.executors import RayClient
from dcurate.compat.nemo.pipeline import Pipeline
from dcurate.compat.nemo.readers import JsonlReader
from dcurate.compat.nemo.writers import BaseWriter, JsonlWriter

pytestmark = [pytest.mark.cluster, pytest.mark.s3]


class Shout(stages.ProcessingStage[tasks.DocumentBatch, tasks.DocumentBatch]):
    """Write texts in capitals."""

    name = "shout"

    def process(self, task: tasks.DocumentBatch) -> tasks.DocumentBatch:
        task.data["text"] = task.data["text"].str.upper()
        return task


@dataclass
class TextWriter(BaseWriter):
    """A writer of a person's own, in the form of version 25.09."""

    file_extension: str = "txt"
    _name: str = "text_writer"

    def write_data(self, task: tasks.DocumentBatch, file_path: str) -> None:
        with fsspec.open(file_path, "w", **self.storage_options) as file:
            file.write("\n".join(task.to_pandas()["text"]))


def test_a_pipeline_reads_and_writes_in_a_store(bucket) -> None:
    url, options = bucket
    store = fsspec.filesystem("s3", **options, skip_instance_cache=True)
    for number in range(2):
        store.pipe_file(f"{url}/in/{number}.jsonl", b'{"text": "own%d", "more": {"k": 1.50}}\n' % number)
    store.pipe_file(f"{url}/in/notes.txt", b"none")
    kwargs = {"storage_options": options}
    ids.create_id_generator_actor()
    try:
        with RayClient(num_cpus=2, num_gpus=0):
            reader = JsonlReader(f"{url}/in", read_kwargs=kwargs, _generate_ids=True)
            made = Pipeline("s3", stages=[reader, Shout(), JsonlWriter(f"{url}/out", write_kwargs=kwargs)]).run()
            assert made is not None
            assert [store.cat_file(task.data[0]) for task in made] == [
                b'{"text": "OWN%d", "more": {"k": 1.50},"_curator_dedup_id":%d}\n' % (number, number)
                for number in range(2)
            ]
            slow = JsonlReader([f"{url}/in/0.jsonl"], read_kwargs={**kwargs, "nrows": 1})
            writer = TextWriter(f"{url}/text", write_kwargs=kwargs)
            assert writer.name == "text_writer"
            [task] = Pipeline("own", stages=[slow, Shout(), writer]).run() or []
            assert task.data[0].startswith(f"{url}/text/")
            assert store.cat_file(task.data[0]) == b"OWN0"
        ids.write_id_generator_to_disk(f"{url}/ids.json", options)
    finally:
        ids.kill_id_generator_actor()
    assert ids.IdGeneratorBase.from_disk(f"{url}/ids.json", options).next_id == 2
