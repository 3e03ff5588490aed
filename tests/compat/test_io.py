"""Readers and writers with NeMo Curator's arguments, on real files and worker processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import isnan
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dcurate
import dcurate.text
from dcurate.compat.nemo import builtin, ids, stages, tasks
from dcurate.compat.nemo.bridge import ForeignStage, engine_stages
from dcurate.compat.nemo.executors import RayClient
from dcurate.compat.nemo.partitioning import FilePartitioningStage
from dcurate.compat.nemo.pipeline import Pipeline
from dcurate.compat.nemo.readers import BaseReader, JsonlReader, JsonlReaderStage, ParquetReader
from dcurate.compat.nemo.writers import BaseWriter, JsonlWriter, ParquetWriter

pytestmark = pytest.mark.cluster

CHAT = [
    '{"messages":[{"role":"a","content":"x"},{"role":"b","content":null,"tool_calls":[{"id": 1}]}], "id": 7}',
    '{"id": "b", "messages": [{"role":"a", "content":[{"type":"text"}]}], "more": {"k": 1.50}}',
    '{"messages":[], "more": {"other": [1, "x", null]}, "id": null}',
]


@pytest.fixture(scope="module", autouse=True)
def client() -> Iterator[RayClient]:
    """A cluster for all pipelines of these tests."""
    with RayClient(num_cpus=2, num_gpus=0) as started:
        yield started


def write(folder: Path, name: str, lines: list[str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return folder


def read(folder: Path) -> list[str]:
    files = [path for path in sorted(folder.rglob("*.jsonl")) if "_dcurate" not in path.parts]
    return [line for path in files for line in path.read_text().splitlines()]


def run(*parts: Any, **options: Any) -> list[Any]:
    made = Pipeline("test", stages=list(parts)).run(**options)
    assert made is not None
    return made


class See(stages.ProcessingStage[tasks.DocumentBatch, tasks.DocumentBatch]):
    """Add a column with what the stage sees of each row, as JSON."""

    name = "see"

    def process(self, task: tasks.DocumentBatch) -> tasks.DocumentBatch:
        rows = [
            {k: None if isinstance(v, float) and isnan(v) else v for k, v in row.items()}
            for row in task.data.to_dict("records")
        ]
        task.data["seen"] = [json.dumps(row, default=str) for row in rows]
        return task


class Append(stages.ProcessingStage[tasks.DocumentBatch, tasks.DocumentBatch]):
    """Add a message to the first row, in place, and a column of mixed types."""

    name = "append"

    def process(self, task: tasks.DocumentBatch) -> tasks.DocumentBatch:
        frame = task.to_pandas()
        frame["messages"].iloc[0].append({"role": "c", "new": True})
        frame["mixed"] = pd.Series([1, "two", {"three": 3}], dtype=object)
        return task


def test_a_stage_sees_the_values_of_the_lines_and_rows_leave_as_they_came(tmp_path: Path) -> None:
    source = write(tmp_path / "Chat", "a.jsonl", CHAT)
    run(JsonlReader(str(source)), See(), JsonlWriter(str(tmp_path / "out")))
    written = read(tmp_path / "out")
    for line, before in zip(written, CHAT, strict=True):
        assert line.startswith(before[:-1] + ',"seen":')
        row, seen = json.loads(before), json.loads(json.loads(line)["seen"])
        assert {name: seen[name] for name in row} == row


def test_changed_values_are_written_as_the_stage_left_them(tmp_path: Path) -> None:
    source = write(tmp_path / "in", "a.jsonl", CHAT)
    run(JsonlReader(str(source)), Append(), See(), JsonlWriter(str(tmp_path / "out")))
    first, second, third = read(tmp_path / "out")
    messages = json.loads(CHAT[0])["messages"]
    assert json.loads(first)["messages"] == [*messages, {"role": "c", "new": True}]
    assert second.startswith(CHAT[1][:-1] + ',"mixed":"two"')
    assert third.startswith(CHAT[2][:-1] + ',"mixed":{"three":3}')
    assert json.loads(json.loads(third)["seen"])["mixed"] == {"three": 3}


def test_returned_tasks_hold_the_values_of_the_lines(tmp_path: Path) -> None:
    source = write(tmp_path / "in", "a.jsonl", CHAT)
    for parts in ([], [See()], [builtin.AddId("number")]):
        [task] = run(JsonlReader(str(source), fields=["messages", "more", "absent"]), *parts)
        assert list(task.data)[:2] == ["messages", "more"]
        assert task.data["messages"].tolist() == [json.loads(line)["messages"] for line in CHAT]
        assert task.data["more"].tolist()[1:] == [{"k": 1.5}, {"other": [1, "x", None]}]
        assert "_dcurate_line" not in task.to_pyarrow().column_names


def test_a_type_that_comes_late_makes_a_column_mixed(tmp_path: Path) -> None:
    lines = [json.dumps({"n": number, "text": "x" * 1000}) for number in range(600)]
    source = write(tmp_path / "in", "a.jsonl", [*lines, '{"n": "late", "text": "y"}'])
    [task] = run(JsonlReader(str(source)), See())
    assert task.data["n"].tolist() == [*range(600), "late"]


def test_fields_keep_absent_keys_absent_and_other_columns_out(tmp_path: Path) -> None:
    source = write(tmp_path / "in", "a.jsonl", CHAT)
    run(JsonlReader(str(source), fields=["more"]), See(), JsonlWriter(str(tmp_path / "out"), fields=["more"]))
    assert [json.loads(line) for line in read(tmp_path / "out")] == [
        {},
        {"more": {"k": 1.5}},
        {"more": {"other": [1, "x", None]}},
    ]


def test_chosen_fields_keep_numbers_as_they_are_written(tmp_path: Path) -> None:
    lines = [
        '{"no": 1, "id": 1.0e3, "more": {"a": 1.50}}',
        '{"id": 12345678901234567890123, "more": {"b": [1E2, -0.0]}, "no": 2}',
        r'{"more": {"c": "\u00e9"}, "id": 3}',
    ]
    source, fields = write(tmp_path / "in", "a.jsonl", lines), ["id", "more"]
    run(JsonlReader(str(source), fields=fields), See(), JsonlWriter(str(tmp_path / "out"), fields=fields))
    assert read(tmp_path / "out") == [
        '{"id":1.0e3,"more":{"a": 1.50}}',
        '{"id":12345678901234567890123,"more":{"b": [1E2, -0.0]}}',
        r'{"id":3,"more":{"c": "\u00e9"}}',
    ]


def test_rows_go_from_json_to_parquet_and_back_through_a_stage(tmp_path: Path) -> None:
    source = write(tmp_path / "in", "a.jsonl", CHAT)
    made = run(JsonlReader(str(source), fields=["id", "more"]), See(), ParquetWriter(str(tmp_path / "out")))
    [path] = made[0].data
    assert path.endswith(".parquet")
    assert pq.read_table(path).column_names == ["id", "more", "seen"]
    [task] = run(ParquetReader(str(tmp_path / "out")), See())
    assert json.loads(task.data["seen"][0])["id"] == "7"
    assert task.dataset_name == "out"
    assert task._metadata["source_files"] == [path]


def test_batches_carry_the_name_of_the_dataset_and_their_files(tmp_path: Path) -> None:
    source = write(tmp_path / "Books", "a.jsonl", ['{"text": "a"}'])
    write(source / "inner", "b.json", ['{"text": "b"}'])
    write(source, "c.txt", ["no data"])
    made = run(JsonlReader(str(source)))
    assert [task._metadata["source_files"] for task in made] == [[f"{source}/a.jsonl"], [f"{source}/inner/b.json"]]
    assert {task.dataset_name for task in made} == {"books"}
    assert len(run(JsonlReader([str(source)]))) == 1  # folders within those of a list are left out
    [text] = run(JsonlReader(str(write(tmp_path / "t", "a.TXT", ['{"text": 1}'])), file_extensions=[".txt"]))
    assert text.data["text"].tolist() == [1]


def test_many_small_files_are_a_task_each(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(1000):
        (tmp_path / "in" / f"{number}.jsonl").write_text('{"n": 1}\n')
    assert len(run(JsonlReader(str(tmp_path / "in")))) == 1000


def test_a_reader_is_dcurates_unless_pandas_is_needed(tmp_path: Path) -> None:
    def forms(**options: Any) -> list[str]:
        reader = JsonlReader("in", **options).with_({"jsonl_reader": {"num_workers": 2, "batch_size": 3}})
        parts = engine_stages(reader.decompose_and_apply_with())
        assert parts[-1].num_workers() == 2
        return [type(part).__name__ for part in parts]

    assert forms() == ["JsonlSource"]
    assert forms(read_kwargs={"engine": "pyarrow", "dtype_backend": "pyarrow", "encoding": "utf-8"}) == ["JsonlSource"]
    assert forms(read_kwargs={"nrows": 3}) == ["PartitionSource", "ForeignStage"]
    with pytest.raises(dcurate.PipelineError, match="not an argument of pandas.read_json"):
        forms(read_kwargs={"nosuch": 3})
    with pytest.raises(dcurate.PipelineError, match="lines=False is not supported"):
        forms(read_kwargs={"lines": False})


def test_arguments_that_change_the_rows_are_carried_out(tmp_path: Path) -> None:
    source = write(tmp_path / "in", "a.jsonl", [json.dumps({"id": f"00{n}", "n": n}) for n in range(5)])
    [task] = run(JsonlReader(str(source), read_kwargs={"nrows": 2, "dtype": {"id": str}}), See())
    assert task.data["id"].tolist() == ["000", "001"]
    assert task._metadata["source_files"] == [f"{source}/a.jsonl"]
    pd.DataFrame({"n": range(10), "text": "x"}).to_parquet(tmp_path / "a.parquet")
    reader = ParquetReader(str(tmp_path / "a.parquet"), read_kwargs={"filters": [("n", ">", 7)], "columns": ["n"]})
    [rows] = run(reader)
    assert rows.data.to_dict("list") == {"n": [8, 9]}
    [rows] = run(ParquetReader(str(tmp_path / "a.parquet"), read_kwargs={"columns": ["n"]}))
    assert rows.get_columns() == ["n"]


class Lines(BaseReader):
    """Read lines of text: a reader of a person's own."""

    def read_data(self, paths: list[str], read_kwargs: Any = None, fields: Any = None) -> pd.DataFrame:
        return pd.DataFrame({"text": [line for path in paths for line in Path(path).read_text().splitlines()]})


def test_a_reader_of_a_persons_own_reads_groups_of_files(tmp_path: Path) -> None:
    for name in "cab":
        write(tmp_path / "in", f"{name}.txt", [name] * 2)
    groups = FilePartitioningStage(str(tmp_path / "in"), files_per_partition=2, file_extensions=[".txt"])
    made = run(groups, Lines(name="lines"))
    assert sorted(task.data["text"].tolist() for task in made) == [["a", "a", "b", "b"], ["c", "c"]]
    assert made[0]._metadata["total_partitions"] == 2


@pytest.fixture
def generator() -> Iterator[None]:
    """The ids of this process."""
    ids.create_id_generator_actor()
    yield
    ids.kill_id_generator_actor()


def numbers(made: list[Any]) -> dict[str, int]:
    rows = [row for task in made for row in task.data.to_dict("records")]
    return {row["text"]: row[ids.CURATOR_DEDUP_ID_STR] for row in rows}


def test_ids_are_whole_numbers_in_the_order_of_the_files(tmp_path: Path, generator: None) -> None:
    for n, name in enumerate("dbca"):
        write(tmp_path / "in", f"{name}.jsonl", [json.dumps({"text": f"{name}{m}"}) for m in range(n + 1)] + ["", " "])
    source = str(tmp_path / "in")
    made = numbers(run(JsonlReader(source, files_per_partition=2, _generate_ids=True)))
    expected = {"a0": 0, "a1": 1, "a2": 2, "a3": 3, "b0": 4, "b1": 5, "c0": 6, "c1": 7, "c2": 8, "d0": 9}
    assert made == expected
    write(tmp_path / "in", "e.jsonl", ['{"text": "e0"}', '{"text": "e1"}'])
    later = numbers(run(JsonlReader(source, files_per_partition=1, _generate_ids=True)))
    assert sorted(later.values()) == list(range(10, 22))  # other groups have other ids
    ids.write_id_generator_to_disk(str(tmp_path / "ids.json"))
    ids.kill_id_generator_actor()
    ids.create_id_generator_actor(str(tmp_path / "ids.json"))
    (tmp_path / "in" / "e.jsonl").unlink()
    assert numbers(run(JsonlReader(source, files_per_partition=2, _assign_ids=True))) == expected
    assert ids.get_id_generator_actor().next_id == 22
    with pytest.raises(ValueError, match="have no ids"):
        run(JsonlReader(source, files_per_partition=3, _assign_ids=True))


def test_ids_of_parquet_and_of_readers_of_a_persons_own(tmp_path: Path, generator: None) -> None:
    for n, name in enumerate("ab"):
        pd.DataFrame({"text": [f"{name}{m}" for m in range(n + 1)]}).to_parquet(tmp_path / f"{name}.parquet")
    read_parquet = ParquetReader(str(tmp_path), _generate_ids=True)
    assert numbers(run(read_parquet)) == {"a0": 0, "b0": 1, "b1": 2}
    write(tmp_path / "in", "a.txt", ["x", "y"])
    write(tmp_path / "in", "b.txt", ["z"])
    groups = FilePartitioningStage(str(tmp_path / "in"), file_extensions=["txt"])
    assert numbers(run(groups, Lines(_generate_ids=True))) == {"x": 3, "y": 4, "z": 5}
    assert numbers(run(groups, Lines(_assign_ids=True))) == {"x": 3, "y": 4, "z": 5}


def test_ids_go_into_the_lines_of_rows(tmp_path: Path, generator: None) -> None:
    source = write(tmp_path / "in", "a.jsonl", CHAT)
    run(JsonlReader(str(source), _generate_ids=True), JsonlWriter(str(tmp_path / "out")))
    expected = [f'{line[:-1]},"_curator_dedup_id":{n}}}' for n, line in enumerate(CHAT)]
    assert read(tmp_path / "out") == expected


def test_ids_of_tasks_to_begin_with(tmp_path: Path, generator: None) -> None:
    for name in "ab":
        write(tmp_path, f"{name}.jsonl", [json.dumps({"text": f"{name}{n}"}) for n in range(2)])
    given = [tasks.FileGroupTask(dataset_name="d", data=[str(tmp_path / f"{name}.jsonl")]) for name in "ba"]
    made = run(JsonlReaderStage(_generate_ids=True), initial_tasks=given)
    assert numbers(made) == {"b0": 0, "b1": 1, "a0": 2, "a1": 3}
    stage = JsonlReaderStage(_generate_ids=True)
    stage.setup()
    assert numbers([stage.process(given[1])]) == {"a0": 2, "a1": 3}


def test_ids_are_kept_in_a_store() -> None:
    made = ids.IdGeneratorBase(5)
    made.register_batch(["a"], 2)
    made.to_disk("memory://ids/state.json")
    again = ids.IdGeneratorBase.from_disk("memory://ids/state.json", {})
    assert (again.next_id, again.get_batch_range("a", None)) == (7, (5, 6))


def test_without_an_id_generator_a_reader_with_ids_says_so(tmp_path: Path) -> None:
    source = write(tmp_path / "in", "a.jsonl", ['{"text": "a"}'])
    with pytest.raises(RuntimeError, match="call create_id_generator_actor"):
        run(JsonlReader(str(source), _generate_ids=True))


def test_files_that_changed_do_not_get_the_ids_of_others(tmp_path: Path, generator: None) -> None:
    source = write(tmp_path / "in", "a.jsonl", ['{"text": "a"}'])
    run(JsonlReader(str(source), _generate_ids=True))
    write(source, "a.jsonl", ['{"text": "a"}', '{"text": "b"}'])
    with pytest.raises(ValueError, match="have changed since"):
        run(JsonlReader(str(source), _generate_ids=True))


def test_a_writer_takes_pandas_arguments_and_an_ending(tmp_path: Path) -> None:
    source = write(tmp_path / "in", "a.jsonl", ['{"text": "Grüße", "when": "2024-01-01", "n": 1}'])
    reader = JsonlReader(str(source))
    [files] = run(reader, JsonlWriter(str(tmp_path / "a"), write_kwargs={"force_ascii": True}))
    assert Path(files.data[0]).read_text() == '{"text":"Gr\\u00fc\\u00dfe","when":"2024-01-01","n":1}\n'
    assert files._metadata["format"] == "jsonl"
    [files] = run(reader, JsonlWriter(str(tmp_path / "b"), file_extension="ndjson", write_kwargs={"index": False}))
    assert files.data[0].endswith(".ndjson")
    assert Path(files.data[0]).read_text() == (source / "a.jsonl").read_text()
    [files] = run(reader, JsonlWriter(str(tmp_path / "c"), file_extension="jsonl.gz"))
    assert pd.read_json(files.data[0], lines=True).n.tolist() == [1]
    options = {"engine": "pyarrow", "index": False, "partition_cols": ["n"], "row_group_size": 10}
    [files] = run(reader, ParquetWriter(str(tmp_path / "d"), write_kwargs=options))
    assert "/n=1/" in files.data[0]
    [files] = run(reader, ParquetWriter(str(tmp_path / "e"), write_kwargs={"index": True}, file_extension="pq"))
    assert pd.read_parquet(files.data[0]).index.tolist() == [0]


def test_the_modes_of_a_writer(tmp_path: Path) -> None:
    out = write(tmp_path / "out", "old.txt", ["old"])
    JsonlWriter(str(out))
    assert (out / "old.txt").exists()
    with pytest.raises(FileExistsError):
        JsonlWriter(str(out), mode="error")
    with pytest.raises(NotImplementedError):
        ParquetWriter(str(out), mode="append")
    with pytest.raises(ValueError, match="Invalid mode"):
        ParquetWriter(str(out), mode="never")  # type: ignore[arg-type]
    source = write(tmp_path / "in", "a.jsonl", ['{"text": "a"}'])
    for _ in range(2):
        run(JsonlReader(str(source)), JsonlWriter(str(out), mode="overwrite"))
        assert not (out / "old.txt").exists()
    assert read(out) == ['{"text": "a"}']
    run(JsonlReader(str(source)), JsonlWriter(str(out), mode="append", append_mode_implemented=True))
    assert len(read(out)) == 2


class Shouter(BaseWriter):
    """A writer of a person's own."""

    def write_data(self, task: tasks.DocumentBatch, file_path: str) -> None:
        Path(file_path).write_text("\n".join(task.to_pandas()["text"]).upper())

    def get_file_extension(self) -> str:
        return "loud"


def test_a_writer_of_a_persons_own_names_files_alike_in_every_run(tmp_path: Path) -> None:
    source = write(tmp_path / "in", "a.jsonl", ['{"text": "a"}'])
    for _ in range(2):
        [files] = run(JsonlReader(str(source)), Shouter(str(tmp_path / "out"), "txt"))
    assert [path.read_text() for path in (tmp_path / "out").iterdir()] == ["A"]
    assert files.data[0].endswith(".loud")


def test_a_writer_writes_by_hand_without_a_key(tmp_path: Path) -> None:
    batch = tasks.DocumentBatch(dataset_name="mine", data=pd.DataFrame({"meta": [{"a": 1}, {"b": 2}]}), task_id="0_1")
    [path] = JsonlWriter(str(tmp_path)).process(batch).data
    assert Path(path).read_text() == '{"meta":{"a":1}}\n{"meta":{"b":2}}\n'


def test_lines_pass_stages_that_need_all_rows(tmp_path: Path) -> None:
    rows = [json.dumps({"text": f"text {n % 3}", "meta": {f"key{n % 2}": n}}) for n in range(6)]
    source = write(tmp_path / "in", "a.jsonl", rows[:4])
    write(source, "b.jsonl", ['{"text": "plain"}', *rows[4:]])
    for writer in (JsonlWriter(str(tmp_path / "out")), None, ParquetWriter(str(tmp_path / "parquet"))):
        parts = [JsonlReader(str(source)), See(), builtin.ExactDuplicates("text", action="drop"), See()]
        made = run(*parts, *([writer] if writer else []))
        if writer is not None:
            assert all(len(task.data) == 1 and task.dataset_name == "in" for task in made)
            assert len({task.task_id for task in made}) == len(made) == 2
        else:
            assert made[0].data["meta"].tolist() == [{"key0": 0}, {"key1": 1}, {"key0": 2}]
    assert [json.loads(line).get("meta") for line in read(tmp_path / "out")] == [
        {"key0": 0},
        {"key1": 1},
        {"key0": 2},
        None,
    ]


class Marked(builtin.ScoreFilter):
    """A person's class that extends a stage of the library, and uses what tasks have there."""

    def process(self, task):
        found = super().process(task)
        frame = found.to_pandas().assign(task_id=task.task_id)
        return tasks.DocumentBatch(dataset_name=task.dataset_name, data=frame, _metadata=task._metadata)


class Named(builtin.ScoreFilter):
    """A person's class that changes nothing of the rows."""


def test_a_class_that_extends_a_built_in_stage_is_given_tasks():
    marked, named = engine_stages(
        [Marked(dcurate.text.WordCountFilter(min_words=2)), Named(dcurate.text.WordCountFilter())]
    )
    assert isinstance(named, Named)
    rows = dcurate.DocumentBatch(data=pa.table({"text": ["one two", "one"]}), key=dcurate.BatchKey("a.jsonl"))
    assert isinstance(marked, ForeignStage)
    (found,) = marked.process_batch([rows])
    assert found.to_arrow()["text"].to_pylist() == ["one two"]
    assert found.to_arrow()["task_id"][0].as_py()
