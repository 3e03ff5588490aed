import json
import logging
import random
import sys
import time
from collections import Counter
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import (
    BatchKey,
    DaskExecutor,
    DataError,
    DocumentBatch,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    LocalCluster,
    Pipeline,
    PipelineError,
)
from dcurate.dedup import BloomDuplicates, BloomSize, bloom_state
from dcurate.dedup.bloom_filter import BloomFolder
from dcurate.kernels.bloom import BLOCK_WORDS, fill, insert, query
from tests.dedup.bloom_pass import pipeline
from tests.forked import start_forked

pytestmark = pytest.mark.cluster


def batch(name: str, texts: list[str | None]) -> DocumentBatch:
    return DocumentBatch(key=BatchKey(name), data=pa.table({"text": pa.array(texts, pa.string())}))


def texts_of(made: DocumentBatch) -> list[str | None]:
    texts: list[str | None] = made.to_arrow()["text"].to_pylist()
    return texts


def write(folder: Path, files: list[list[str]]) -> str:
    folder.mkdir()
    for number, texts in enumerate(files):
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
        (folder / f"{number:02}.jsonl").write_text(lines)
    return str(folder)


def written(*outputs: Path) -> Counter[str]:
    files = [path for output in outputs for path in output.glob("*.jsonl")]
    return Counter(json.loads(line)["text"] for path in files for line in path.read_text().splitlines())


@pytest.mark.parametrize("rate", [0.2, 1e-2, 1e-3])
def test_a_full_filter_finds_all_that_it_holds_and_is_wrong_as_often_as_asked(rate: float) -> None:
    draw, keys = np.random.default_rng(7), 100_000
    size = BloomSize.of(keys, rate)
    words = np.zeros(size.blocks * BLOCK_WORDS, np.uint64)
    held, others = draw.integers(0, 2**64, keys, np.uint64), draw.integers(0, 2**64, 2_000_000, np.uint64)
    insert(words, held, size.probes)
    assert query(words, held, size.probes).all()
    found = query(words, others, size.probes).mean()
    assert size.rate(keys) <= rate
    assert found == pytest.approx(rate, rel=0.06)
    assert size.rate_of_fill(fill(words)) == pytest.approx(rate, rel=0.06)


@settings(max_examples=30)
@given(st.integers(1, 10**10), st.floats(1e-12, 0.5))
def test_no_smaller_filter_would_do_and_the_rate_grows_with_the_keys(capacity: int, rate: float) -> None:
    size = BloomSize.of(capacity, rate)
    assert size.rate(capacity) <= rate * 1.000001
    assert size.rate(0) == 0.0
    assert size.rate(capacity) <= size.rate(2 * capacity) <= size.rate(100 * capacity) <= 1.0
    if size.blocks > 1000:
        assert BloomSize(size.blocks - size.blocks // 500, size.probes).rate(capacity) > rate


@settings(deadline=None, max_examples=40)
@given(st.lists(st.lists(st.sampled_from(["", "a", "b", "ä", "c" * 40, None]), max_size=8), max_size=6))
def test_the_first_of_equal_texts_stays(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[str | None]]
) -> None:
    stage = BloomDuplicates(str(tmp_path_factory.mktemp("bloom")), capacity=100, false_positive_rate=1e-9)
    stage.setup()
    seen: set[str] = set()
    for number, texts in enumerate(files):
        expected = [text for text in texts if text is None or (text not in seen and seen.add(text) is None)]
        assert texts_of(stage.process(batch(str(number), texts))) == expected
    stage.teardown()
    assert bloom_state(stage.path).documents == len(seen)


def test_a_batch_that_is_processed_again_keeps_what_it_kept(tmp_path: Path) -> None:
    first, second = BloomDuplicates(str(tmp_path / "b"), 100), BloomDuplicates(str(tmp_path / "b"), 100)
    assert texts_of(first.process(batch("one", ["a", "b", "a"]))) == ["a", "b"]
    assert texts_of(second.process(batch("two", ["b", "c"]))) == ["c"]
    assert texts_of(second.process(batch("one", ["a", "b", "a"]))) == ["a", "b"]
    assert texts_of(first.process(batch("two", ["b", "c"]))) == ["c"]


def test_a_batch_of_which_parts_or_more_come_again_loses_nothing(tmp_path: Path) -> None:
    stage = BloomDuplicates(str(tmp_path / "b"), 100)
    stage.process(batch("one", ["a", "b"]))
    assert texts_of(stage.process(batch("one", ["b"]))) == ["b"]
    assert texts_of(stage.process(batch("one", ["x", "a", "b"]))) == ["x", "a", "b"]
    assert texts_of(stage.process(batch("two", ["x", "a", "b"]))) == []
    assert texts_of(stage.process(batch("one", ["x"]))) == ["x"]


def test_another_label_is_another_input_and_the_same_label_is_the_same(tmp_path: Path) -> None:
    def kept(label: str) -> list[str | None]:
        return texts_of(BloomDuplicates(str(tmp_path / "b"), 100, label=label).process(batch("part-0", ["a", label])))

    assert [kept("monday"), kept("monday"), kept("../tuesday")] == [["a", "monday"], ["a", "monday"], ["../tuesday"]]
    assert {path.name for path in (tmp_path / "b" / "claims").iterdir()} == {"monday", "%2E.%2Ftuesday"}


def test_a_name_that_comes_again_with_other_texts_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stage = BloomDuplicates(str(tmp_path / "b"), 100)
    with caplog.at_level(logging.WARNING, "dcurate.dedup"):
        for texts in ("abc", "abc", "b", "def"):
            stage.process(batch("part-0", [*texts]))
    assert ["give each input its own label" in one.getMessage() for one in caplog.records] == [True]


def test_texts_may_be_compared_without_case_and_rows_by_another_column(tmp_path: Path) -> None:
    folded = BloomDuplicates(str(tmp_path / "a"), 100, normalize=["case", "whitespace"])
    assert texts_of(folded.process(batch("one", ["So it goes", "so  IT goes", "so it is"]))) == [
        "So it goes",
        "so it is",
    ]
    rows = pa.table({"url": ["x", "y", None, "x", None], "text": ["a", "a", "b", "b", "b"]})
    by_url = BloomDuplicates(str(tmp_path / "b"), 100, fields=["url"])
    made = by_url.process(DocumentBatch(key=BatchKey("one"), data=rows)).to_arrow()
    assert made["url"].to_pylist() == ["x", "y", None, None]


def test_a_process_that_died_before_it_set_its_bits_is_finished_by_the_next(tmp_path: Path) -> None:
    folder = BloomFolder(str(tmp_path / "b"), 100, 1e-9, {})
    keys = np.arange(1, 4, dtype=np.uint64) << np.uint64(40)
    (tmp_path / "b" / "pending").write_text("claims/x/00/dead.npy")
    folder._keep("claims/x/00/dead.npy", keys)
    assert folder.claim("claims/x/00/other.npy", keys).new.tolist() == [False] * 3
    assert folder.claim("claims/x/00/dead.npy", keys).new.tolist() == [True] * 3
    assert not (tmp_path / "b" / "pending").exists()
    (tmp_path / "b" / "pending").touch()
    assert folder.claim("claims/x/00/third.npy", keys + np.uint64(1)).new.tolist() == [True] * 3


def test_processes_at_the_same_time_never_both_keep_nor_both_drop_a_text(tmp_path: Path) -> None:
    draw = random.Random(5)
    texts = [str(number) for number in range(400)]
    sources = [write(tmp_path / f"in{each}", [draw.choices(texts, k=40) for _ in range(12)]) for each in "ab"]
    runs = [start(source, tmp_path / f"out{place}", tmp_path / "b", str(place)) for place, source in enumerate(sources)]
    for run in runs:
        run.join(60)
    assert [run.exitcode for run in runs] == [0, 0]
    every = set(written(tmp_path / "ina", tmp_path / "inb"))
    assert written(tmp_path / "out0", tmp_path / "out1") == Counter(every)


def test_a_killed_pass_loses_nothing_and_keeps_nothing_twice(tmp_path: Path) -> None:
    draw = random.Random(11)
    files = [[str(draw.randrange(300)) for _ in range(30)] for _ in range(30)]
    source, output = write(tmp_path / "in", files), tmp_path / "out"
    for _ in range(2):
        run = start(source, output, tmp_path / "b", "all")
        done = len(list(output.glob("*.jsonl")))
        while run.is_alive() and len(list(output.glob("*.jsonl"))) < done + 3:
            time.sleep(0.005)
        time.sleep(draw.uniform(0.0, 0.02))
        run.kill()
        run.join(60)
    pipeline(source, str(output), str(tmp_path / "b"), "all").run(InlineExecutor(), resume=True)
    assert written(output) == Counter({text for texts in files for text in texts})


def start(source: str, output: Path, path: Path, label: str) -> BaseProcess:
    command = [sys.executable, "-m", "tests.dedup.bloom_pass", source, str(output), str(path), label]
    return start_forked(command)


def test_worker_processes_share_the_filter_and_the_next_run_goes_on_with_it(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    files = [[str(number % 97) for number in range(start, start + 60)] for start in range(0, 600, 50)]
    for day, expected in (("monday", Counter(map(str, range(97)))), ("tuesday", Counter(["new"]))):
        source = write(tmp_path / day, [*files, ["new"]] if day == "tuesday" else files)
        stage = BloomDuplicates(str(tmp_path / "b"), 1000, 1e-9, label=day)
        reader, writer = JsonlReader(source), JsonlWriter(str(tmp_path / f"{day}-out"))
        report = Pipeline(day, stages=[reader, stage, writer]).run(DaskExecutor(cluster=cluster)).report
        assert written(tmp_path / f"{day}-out") == expected
        assert report.stages[1].dropped == {"bloom_duplicate": report.stages[1].rows_in - expected.total()}


def test_a_filter_fuller_than_it_was_made_for_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stage = BloomDuplicates(str(tmp_path / "b"), capacity=100, false_positive_rate=0.01)
    with caplog.at_level(logging.WARNING, "dcurate.dedup"):
        made = [stage.process(batch(str(number), [f"{number}-{row}" for row in range(90)])) for number in range(3)]
    assert made[0].found == {}
    assert 60 < made[1].found["beyond_capacity"] < 81
    assert made[2].found["beyond_capacity"] == made[2].num_items
    assert "was made for 100 documents and holds 1" in caplog.records[0].getMessage()
    state = bloom_state(stage.path)
    assert state.documents == sum(each.num_items for each in made)
    assert 0.01 < state.rate < 0.5


def test_a_filter_made_otherwise_is_refused_by_name(tmp_path: Path) -> None:
    BloomDuplicates(str(tmp_path / "b"), 100).setup_on_node()
    with pytest.raises(PipelineError, match="made with capacity=100, not 200; use it as it was made"):
        BloomDuplicates(str(tmp_path / "b"), 200).setup()
    with pytest.raises(PipelineError, match=r"made with fields=\['text'\], not \['url'\]"):
        BloomDuplicates(str(tmp_path / "b"), 100, fields=["url"]).setup()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("x")
    with pytest.raises(DataError, match="holds 'mine.txt' and no Bloom filter; name an empty folder"):
        BloomDuplicates(str(tmp_path / "other"), 100).setup()
    with pytest.raises(DataError, match="no Bloom filter"):
        bloom_state(str(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"path": "s3://bucket/b"}, "must be a folder on a local disk"),
        ({"capacity": 0}, "capacity=0 must be a whole number"),
        ({"false_positive_rate": 0.0}, "from 1e-12 to 0.5"),
        ({"normalize": ["cases"]}, "did you mean 'case'"),
        ({"capacity": 10**12}, "256 GiB"),
    ],
)
def test_what_cannot_work_is_refused_when_the_stage_is_made(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(PipelineError, match=said):
        BloomDuplicates(**{"path": "b", "capacity": 10, **arguments})  # type: ignore[arg-type]
