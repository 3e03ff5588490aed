from __future__ import annotations

import tracemalloc
from contextlib import suppress
from itertools import count
from uuid import uuid4

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dcurate import JsonlWriter, PipelineError
from dcurate.core.ledger import SplitRecord
from dcurate.events import StageStats
from dcurate.fs.stores import Directory
from dcurate.io.ledger import DirectoryLedger, saved_records
from tests.places import records

PRINT = {"reader": "1", "writer": "2"}


def record(split, version="v", files=(), inputs=()):
    stats = StageStats("jsonl_reader", 1, 2, 3, 4, 5, 0.5, {"short": 1}, {}).to_dict()
    return SplitRecord(split, version, tuple(files), (stats, {**stats, "name": "writer"}), tuple(inputs))


def segments(path):
    return sorted(path.name for path in (records(path) / "ledger").iterdir() if path.name != "pipeline.json")


def opened(path, resume=True, stages=PRINT, **settings):
    return DirectoryLedger(Directory(str(path)), stages, resume, **settings)


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_what_was_recorded_is_known_to_the_next_run(tmp_path):
    (tmp_path / "a.out").touch()
    ledger = opened(tmp_path)
    ledger.record(record("a", files=["a.out"]))
    ledger.record(record("b"))
    ledger.flush()
    later = opened(tmp_path)
    assert later.finished("a", "v") == record("a", files=["a.out"])
    assert later.finished("b", "v") == record("b")
    assert later.finished("c", "v") is None


def test_a_split_of_another_version_is_not_finished(tmp_path):
    ledger = opened(tmp_path)
    ledger.record(record("a", "old"))
    assert ledger.finished("a", "new") is None
    assert ledger.finished("a", "old") == record("a", "old")


def test_a_split_whose_files_are_gone_is_not_finished(tmp_path):
    (tmp_path / "a-0.out").touch()
    ledger = opened(tmp_path)
    ledger.record(record("a", files=["a-0.out", "a-1.out"]))
    ledger.flush()
    assert opened(tmp_path).finished("a", "v") is None


def test_files_of_an_earlier_version_are_deleted_when_the_split_is_done_again(tmp_path):
    for name in ("a-0.out", "a-1.out"):
        (tmp_path / name).touch()
    ledger = opened(tmp_path)
    ledger.record(record("a", "old", ["a-0.out", "a-1.out"]))
    ledger.flush()
    later = opened(tmp_path)
    later.record(record("a", "new", [f"{tmp_path}/a-0.out"]))
    assert not (tmp_path / "a-1.out").exists()
    assert (tmp_path / "a-0.out").exists()
    assert later.finished("a", "new").files == ("a-0.out",)


def test_what_is_left_of_a_split_whose_files_are_half_gone_is_deleted_when_it_is_done_again(tmp_path):
    (tmp_path / "a-1.out").touch()
    ledger = opened(tmp_path)
    ledger.record(record("a", files=["a-0.out", "a-1.out"]))
    ledger.flush()
    later = opened(tmp_path)
    assert later.count() == 0
    (tmp_path / "a-2.out").touch()
    later.record(record("a", files=["a-2.out"]))
    assert [path.name for path in tmp_path.glob("*.out")] == ["a-2.out"]
    assert later.count() == 1


def test_without_resume_the_earlier_run_is_forgotten(tmp_path):
    ledger = opened(tmp_path)
    ledger.record(record("a"))
    ledger.flush()
    assert opened(tmp_path, resume=False).count() == 0
    assert opened(tmp_path).count() == 0


def test_another_pipeline_is_refused_and_the_changed_stages_are_named(tmp_path):
    opened(tmp_path, stages={"reader": "1", "filter": "2", "clean": "3"})
    with pytest.raises(PipelineError) as refusal:
        opened(tmp_path, stages={"reader": "1", "filter": "changed", "dedup": "4"})
    assert str(refusal.value) == (
        f"'{tmp_path}' was begun by another pipeline: stage 'filter' is changed, stage 'dedup' is new, "
        f"stage 'clean' is gone; resume with the pipeline as it was, or start afresh with mode='overwrite'"
    )
    with pytest.raises(PipelineError, match="the stages are in another order"):
        opened(tmp_path, stages={"filter": "2", "reader": "1", "clean": "3"})
    opened(tmp_path, resume=False, stages={"dedup": "4"})


def test_a_fingerprint_that_cannot_be_read_is_refused(tmp_path):
    opened(tmp_path)
    (records(tmp_path) / "ledger/pipeline.json").write_text('{"a":')
    with pytest.raises(PipelineError, match="cannot be read, so the run cannot be resumed; start afresh with"):
        opened(tmp_path)


def test_records_are_written_when_a_second_has_passed_or_one_percent_of_the_run(tmp_path):
    clock = Clock()
    ledger = opened(tmp_path, clock=clock)
    flushed = []
    for second in [0.5, 1, 1.5, 2, 500, 502.5, 504.9, 505.1, 2000, 2009, 2010]:
        clock.now = second
        ledger.record(record(f"{second}"))
        flushed.append(len(segments(tmp_path)))
    assert flushed == [0, 1, 1, 2, 3, 3, 3, 4, 5, 5, 6]


def test_records_are_written_when_512_are_waiting(tmp_path):
    ledger = opened(tmp_path, clock=Clock())
    for number in range(1024):
        ledger.record(record(str(number)))
    assert len(segments(tmp_path)) == 2
    assert opened(tmp_path).count() == 1024


def test_a_clean_end_leaves_one_segment(tmp_path):
    ledger = opened(tmp_path)
    for number in range(5):
        ledger.record(record(str(number)))
        ledger.flush()
    assert len(segments(tmp_path)) == 5
    ledger.close()
    assert len(segments(tmp_path)) == 1
    later = opened(tmp_path)
    assert all(later.finished(str(number), "v") == record(str(number)) for number in range(5))
    later.record(record("5"))
    later.close()
    assert len(segments(tmp_path)) == 1
    assert opened(tmp_path).count() == 6


@pytest.mark.parametrize("torn", [b"", b'["c","v",[],[]]\n["d"', b'["c","v",[],[]]\n["d"]\n', b"\0\0\0", b"\xff\n"])
def test_a_torn_segment_is_passed_over_and_counted(tmp_path, torn):
    ledger = opened(tmp_path)
    for split in "ab":
        ledger.record(record(split))
        ledger.flush()
    (records(tmp_path) / "ledger" / segments(tmp_path)[1]).write_bytes(torn)
    later = opened(tmp_path)
    assert later.finished("a", "v") is not None
    assert later.finished("b", "v") is None
    assert later.skipped == (1 if torn else 0)
    later.record(record("b"))
    later.close()
    assert opened(tmp_path).count() == 2
    assert opened(tmp_path).skipped == 0


def test_the_last_record_of_a_split_counts(tmp_path):
    for version in ("1", "2", "3"):
        ledger = opened(tmp_path)
        ledger.record(record("a", version))
        ledger.flush()
    assert opened(tmp_path).finished("a", "3") is not None
    assert opened(tmp_path).finished("a", "1") is None


def test_a_hundred_thousand_splits_take_a_few_hundred_bytes_each(tmp_path):
    ledger = opened(tmp_path, clock=Clock())
    tracemalloc.start()
    for number in range(5000):
        stats = tuple(
            StageStats(f"stage_{n}", 1, number, number // 2, number * 977, number * 31, 0.5 + number).to_dict()
            for n in range(10)
        )
        ledger.record(SplitRecord(f"part-{number:05}.jsonl", f"{number:016x}", (f"part-{number:05}.out",), stats))
    ledger.flush()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used / 5000 < 400


def test_the_ledger_of_a_writer_is_beside_its_output(tmp_path):
    writer = JsonlWriter(str(tmp_path))
    writer.prepare(resume=False)
    ledger = DirectoryLedger.open(writer, PRINT, resume=False)
    ledger.record(record("a"))
    ledger.close()
    assert segments(tmp_path) == ["000001.jsonl"]


def test_a_killed_run_of_weeks_forgets_ten_seconds_and_leaves_few_segments(tmp_path):
    clock = Clock()
    ledger = opened(tmp_path, clock=clock)
    for split in range(2_000):  # one every five seconds of almost three hours
        clock.now += 5
        ledger.record(record(f"{split}"))
        if split % 500 == 499:
            assert opened(tmp_path).count() > split - 3
    assert len(segments(tmp_path)) < 2 * 64


def test_a_record_becomes_durable_though_no_other_follows(tmp_path):
    clock = Clock()
    ledger = opened(tmp_path, clock=clock)
    clock.now = 1e6
    ledger.flush()
    ledger.record(record("a"))
    assert opened(tmp_path).count() == 0
    clock.now += 10
    ledger.flush_due()
    assert opened(tmp_path).count() == 1


@pytest.mark.parametrize("at", [0, 30, 200, 900])
def test_a_joined_segment_that_is_damaged_anywhere_is_passed_over_and_its_splits_are_done_again(tmp_path, at):
    ledger = opened(tmp_path)
    for split in range(2_000):
        ledger.record(record(str(split), files=[f"{split}.out"]))
        (tmp_path / f"{split}.out").touch()
    ledger.close()
    (name,) = segments(tmp_path)
    damaged = records(tmp_path) / "ledger" / name
    data = bytearray(damaged.read_bytes())
    place = len(data) * at // 1_000
    data[place : place + 8] = bytes(byte ^ 0xFF for byte in data[place : place + 8])
    damaged.write_bytes(data)
    later = opened(tmp_path)
    found = [later.finished(str(split), "v") for split in range(2_000)]
    assert found == [None] * 2_000
    assert later.skipped == 1
    for split in range(2_000):
        later.record(record(str(split), files=[f"{split}.out"]))
    later.close()
    assert opened(tmp_path).count() == 2_000
    assert opened(tmp_path).skipped == 0


@pytest.fixture(params=["local", "memory"])
def folders(request, tmp_path):
    """Gives folders on a disk and in an object store."""
    numbers = count()
    return lambda: f"memory://{uuid4().hex}/out" if request.param == "memory" else f"{tmp_path}/{next(numbers)}"


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(flushes=st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=12), kill=st.integers(0, 60))
def test_what_was_flushed_survives_a_kill_at_any_write_while_segments_are_joined(folders, flushes, kill):
    folder = folders()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dcurate.io.ledger_segments.JOINED", 3)
        patch.setattr("dcurate.io.ledger_segments.FULL_RECORDS", 6)
        ledger, durable = opened(folder, clock=lambda: 0.0), {}
        steps = []

        def step():
            steps.append(None)
            if len(steps) > kill:
                raise KeyboardInterrupt

        write, remove = Directory.write, Directory.remove

        def writing(self, name, data):
            step()
            write(self, name, data)

        def removing(self, names):
            for name in names:
                step()
                remove(self, [name])

        patch.setattr(Directory, "write", writing)
        patch.setattr(Directory, "remove", removing)
        with suppress(KeyboardInterrupt):
            for version, splits in enumerate(flushes):
                if version == len(flushes) // 2:
                    ledger = opened(folder, clock=lambda: 0.0)
                for split in splits:
                    ledger.record(record(str(split), str(version)))
                ledger.flush()
                durable |= {str(split): str(version) for split in splits}
            ledger.close()
    for _ in range(2):  # and once more after what is there was joined
        later = opened(folder)
        assert later.skipped == 0
        for split, version in durable.items():
            versions = [v for v in range(int(version), len(flushes)) if later.finished(split, str(v))]
            assert versions  # this version, or one of a flush that was written before the kill was noticed
        assert later.count() == len({found.split for found in saved_records(Directory(folder)).records()})
        later.close()


def test_segments_of_earlier_versions_are_read(tmp_path):
    ledger = opened(tmp_path)
    ledger.close()
    line = orjson.dumps(["a", "v", [], record("a").stats])
    (records(tmp_path) / "ledger/000007.jsonl").write_bytes(line + b"\n")
    assert opened(tmp_path).finished("a", "v") == record("a")


def test_splits_of_one_hash_are_told_apart(tmp_path, monkeypatch):
    for module in ("ledger_segments", "ledger_files"):
        monkeypatch.setattr(f"dcurate.io.{module}.key_of_split", lambda split: 7)
    for version in ("1", "2"):
        ledger = opened(tmp_path)
        for split in "abc":
            ledger.record(record(split, version if split != "c" else "1"))
        ledger.flush()
    assert opened(tmp_path).count() == 3
    ledger.close()
    later = opened(tmp_path)
    assert [later.finished(split, "2") is not None for split in "abcd"] == [True, True, False, False]
    assert later.finished("c", "1") == record("c", "1")


def written(path, splits):
    ledger = opened(path, clock=lambda: 0.0)
    tracemalloc.start()
    for split in range(splits):
        ledger.record(record(f"{split:06}", inputs=[f"/data/{split:06}.jsonl"]))
    ledger.close()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    tracemalloc.start()
    later = opened(path)
    assert all(later.finished(f"{split:06}", "v") for split in range(splits))
    assert later.finished("other", "v") is None
    resumed = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak, resumed


def test_memory_grows_by_some_ten_bytes_a_split(tmp_path, monkeypatch):
    monkeypatch.setattr("dcurate.io.ledger_segments.FULL_RECORDS", 2_048)
    monkeypatch.setattr("dcurate.io.ledger_segments._GROUPS", 2)
    few, many = written(tmp_path / "few", 5_000), written(tmp_path / "many", 15_000)
    for small, large in zip(few, many, strict=True):
        assert (large - small) / 10_000 < 100  # of which 16 stay


def test_a_resume_of_many_small_segments_joins_them(tmp_path):
    for start in range(150):  # as a run leaves them that is killed again and again
        ledger = opened(tmp_path)
        ledger.record(record(str(start)))
        ledger.flush()
    assert len(segments(tmp_path)) < 2 * 64
    assert opened(tmp_path).count() == 150
    ledger.close()
    assert len(segments(tmp_path)) == 1
    assert opened(tmp_path).count() == 150
