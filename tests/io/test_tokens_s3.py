"""Files of tokens from S3 to S3, on worker processes."""

import json
from pathlib import Path
from typing import Any

import fsspec
import pytest

from dcurate import DaskExecutor, InlineExecutor, JsonlReader, LocalCluster, Pipeline, TokenWriter
from dcurate_testing.token_files import train_bpe
from tests.tokens.conftest import texts
from tests.tokens.test_writer import data_files, rows_of, write

pytestmark = [pytest.mark.cluster, pytest.mark.s3]


def test_tokens_are_written_to_s3_and_resumed(bucket, cluster: LocalCluster, tmp_path: Path) -> None:
    url, options = bucket
    store = fsspec.filesystem("s3", **options, skip_instance_cache=True)
    rows = rows_of(texts(60))
    tokenizer = train_bpe(tmp_path / "tokenizer.json", texts(60))
    settings: Any = {"format": "mds", "shard_tokens": 900, "packing": "concat", "sequence_length": 64}
    source = write(tmp_path / "in", rows, 4)
    once = TokenWriter(str(tmp_path / "once"), tokenizer, **settings)
    Pipeline("once", stages=[JsonlReader(source), once]).run(InlineExecutor(), observers=[])
    for path in Path(source).iterdir():
        store.pipe_file(f"{url}/in/{path.name}", path.read_bytes())
    writer = TokenWriter(f"{url}/out", tokenizer, storage_options=options, **settings)
    stages: list[Any] = [JsonlReader(f"{url}/in", storage_options=options), writer]
    for _ in range(2):
        Pipeline("s3", stages=stages).run(DaskExecutor(cluster=cluster), resume=True, observers=[])
        for name, data in data_files(tmp_path / "once").items():
            assert store.cat_file(f"{url}/out/{name}") == data
    assert json.loads(store.cat_file(f"{url}/out/index.json"))["shards"]
    assert not store.find(f"{url}/out/_dcurate/rounds")
