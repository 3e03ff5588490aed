"""Keys of a store show nowhere: not in what a run leaves there, nor in what is said when they are refused."""

import fsspec
import pytest

from dcurate import DcurateError, InlineExecutor, JsonlReader, JsonlWriter, Pipeline, ScoreFilter
from dcurate.core.pipeline import AnyStage
from dcurate.text import WordCountFilter

KEYS = {"key": "AKIAhunter2Q1", "secret": "hunter2Q2", "token": "hunter2Q3"}


def test_the_keys_of_a_store_show_neither_in_it_nor_in_an_error(bucket):
    url, options = bucket
    keyed = {**options, **KEYS}
    store = fsspec.filesystem("s3", **options)
    store.pipe_file(f"{url}/in/a.jsonl", b'{"text": "a b c"}\n{"text": broken\n{"text": "a"}\n')
    stages: list[AnyStage] = [
        JsonlReader(f"{url}/in", on_bad_line="quarantine", storage_options=keyed),
        ScoreFilter(WordCountFilter(min_words=2)),
        JsonlWriter(f"{url}/out", storage_options=keyed),
    ]
    result = Pipeline("p", stages=stages).run(InlineExecutor(), rejected=f"{url}/rejected", observers=[])
    written = {path: store.cat_file(path).decode("latin1") for path in store.find(url)}
    assert len([path for path in written if "quarantine" in path or "/rejected/" in path]) == 2
    assert [path for path, text in written.items() if "hunter2" in text or "hunter2" in path] == []
    assert "hunter2" not in repr(result) + repr(result.report) + repr(stages)
    with pytest.raises(DcurateError) as caught:
        Pipeline("p", stages=[JsonlReader("s3://no-such-bucket-of-ours/in", storage_options=keyed)]).run(
            InlineExecutor()
        )
    assert "hunter2" not in str(caught.value)
