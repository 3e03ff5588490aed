"""The functions of `nemo_curator.utils`: what they do, as NeMo Curator's pages and tests have it."""

import io
import json
import logging
import struct
import sys
import tarfile
import uuid
from pathlib import Path
from types import SimpleNamespace

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dcurate import DataError
from dcurate.compat.nemo import files, iterables, megatron, split_files, temporary
from dcurate.compat.nemo.readers import ParquetReaderStage


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, size in {
        "b.JSONL": 3,
        "a.json": 5,
        "c.txt": 1,
        "none": 7,
        "below/d.jsonl": 2,
        "below/deep/e.json": 4,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * size)
    return tmp_path


def test_files_of_a_folder_are_listed_by_ending_and_depth(folder):
    def listed(path=folder, **how):
        return [Path(name).relative_to(folder).as_posix() for name in files.get_all_file_paths_under(str(path), **how)]

    assert listed() == ["a.json", "b.JSONL", "c.txt", "none"]
    assert listed(keep_extensions="jsonl") == ["b.JSONL"]
    assert listed(recurse_subdirectories=True, keep_extensions=[".json", "JSONL"]) == [
        *("a.json", "b.JSONL", "below/d.jsonl", "below/deep/e.json")
    ]
    assert listed(folder / "a.json") == ["a.json"]
    assert listed(folder / "*.txt") == ["c.txt"]
    assert listed(folder / "nothing") == []
    assert listed(folder / "c.txt", keep_extensions="json") == []


def test_files_have_sizes_and_are_sorted_by_them_or_by_path(folder):
    def listed(**how):
        found = files.get_all_file_paths_and_size_under(str(folder), keep_extensions=["json", "jsonl"], **how)
        return [(Path(name).name, size) for name, size in found]

    assert listed() == [("b.JSONL", 3), ("a.json", 5)]
    assert listed(sort_by_size=False) == [("a.json", 5), ("b.JSONL", 3)]
    assert listed(recurse_subdirectories=True) == [("d.jsonl", 2), ("b.JSONL", 3), ("e.json", 4), ("a.json", 5)]


def test_files_of_a_store_have_its_protocol():
    fs = fsspec.filesystem("memory")
    fs.pipe("/stored/a.jsonl", b"{}")
    assert files.get_all_file_paths_under("memory://stored") == ["memory:///stored/a.jsonl"]
    assert files.get_all_file_paths_under("/stored", fs=fs) == ["/stored/a.jsonl"]
    files.write_json_file("/stored/below/record.json", {"b": 1, "a": 2}, fs)
    assert files.read_json_file("/stored/below/record.json", fs) == {"a": 2, "b": 1}
    assert files.is_not_empty("memory://stored")
    files.delete_dir("memory://stored", storage_options={})
    assert not fs.exists("/stored")
    with pytest.raises(ValueError, match="cannot be provided together"):
        files.is_not_empty("/stored", fs, {})


def test_a_folder_is_made_and_emptied(folder):
    files.create_or_overwrite_dir(str(folder / "below"))
    assert [*(folder / "below").iterdir()] == []
    files.create_or_overwrite_dir(str(folder / "fresh"))
    assert (folder / "fresh").is_dir()


@pytest.mark.parametrize(("mode", "left"), [("overwrite", 0), (" Ignore", 1), ("append", 1)])
def test_a_writers_mode_decides_what_becomes_of_its_folder(tmp_path, mode, left):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a").touch()
    files.check_output_mode(mode, fsspec.filesystem("file"), str(tmp_path / "out"), append_mode_implemented=True)
    assert len([*(tmp_path / "out").iterdir()]) == left


@pytest.mark.parametrize(
    ("mode", "error"), [("error", FileExistsError), ("append", NotImplementedError), ("replace", ValueError)]
)
def test_a_mode_is_refused(tmp_path, mode, error):
    with pytest.raises(error):
        files.check_output_mode(mode, fsspec.filesystem("file"), str(tmp_path))


def test_json_is_written_whole_and_once(tmp_path):
    path = tmp_path / "new" / "record.json"
    files.write_json_atomically(path, {"b": 2, "a": 1}, separators=(",", ":"))
    assert path.read_text() == '{"a":1,"b":2}\n'
    assert not files.write_json_atomically_if_absent(path, {})
    assert files.write_json_atomically_if_absent(tmp_path / "else" / "record.json", {})
    with pytest.raises(TypeError):
        files.write_json_atomically(path, object())
    assert [item.name for item in path.parent.iterdir()] == ["record.json"]
    assert [item.name for item in (tmp_path / "else").iterdir()] == ["record.json"]


def test_small_files_are_written_in_several_formats(tmp_path, caplog):
    rows = [{"name": "a", "age": "1"}]
    files.write_parquet(rows, tmp_path / "x" / "a.parquet", "rows", "v.mp4", verbose=False)
    files.write_json({"id": uuid.UUID(int=7)}, tmp_path / "a.json", "object", "v.mp4", verbose=False)
    files.write_csv(tmp_path / "a.csv", "table", "v.mp4", [["a,b", "c\nd"]], verbose=False)
    assert pd.read_parquet(tmp_path / "x" / "a.parquet").to_dict("records") == rows
    assert json.loads((tmp_path / "a.json").read_text()) == {"id": str(uuid.UUID(int=7))}
    assert (tmp_path / "a.csv").read_bytes() == b'"a,b","c\nd"\r\n'
    with caplog.at_level(logging.WARNING, "dcurate"):
        files.write_bytes(b"new", tmp_path / "a.csv", "table", "v.mp4", verbose=False)
    assert "already exists, skipping" in caplog.text
    files.write_bytes(b"new", tmp_path / "a.csv", "table", "v.mp4", verbose=False, overwrite=True)
    assert (tmp_path / "a.csv").read_bytes() == b"new"
    with pytest.raises(NotImplementedError):
        files.write_bytes(b"", tmp_path / "a.csv", "table", "v.mp4", verbose=False, backup_and_overwrite=True)


def test_a_file_is_read_by_requests_for_its_parts(tmp_path):
    (tmp_path / "a").write_bytes(bytes(range(256)))
    path = files.FSPath(fsspec.filesystem("file"), str(tmp_path / "a"))
    assert path.get_bytes_cat_ranges(part_size=10) == path.open().read() == bytes(range(256))
    (tmp_path / "a").write_bytes(b"")
    assert path.get_bytes_cat_ranges() == b""
    assert files.FSPath(fsspec.filesystem("memory"), "/a").as_posix() == "memory:///a"


def archive(**members):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for kind, name in members.items():
            member = tarfile.TarInfo("inside" if "link" in kind else name)
            member.type = {"link": tarfile.SYMTYPE, "hardlink": tarfile.LNKTYPE, "device": tarfile.CHRTYPE}.get(
                kind, tarfile.REGTYPE
            )
            member.linkname = name if "link" in kind else ""
            tar.addfile(member, io.BytesIO())
    return tarfile.open(fileobj=io.BytesIO(data.getvalue()))


@pytest.mark.parametrize(
    "members",
    [
        {"file": "../out"},
        {"file": "/out"},
        {"link": "../out"},
        {"link": "/etc"},
        {"hardlink": "../out"},
        {"device": "d"},
    ],
)
def test_an_archive_that_leads_outside_the_folder_is_refused(tmp_path, members):
    with (
        archive(**members) as tar,
        pytest.raises(ValueError, match=r"Path traversal|Absolute|outside extraction|Device files"),
    ):
        files.tar_safe_extract(tar, str(tmp_path / "to"))


def test_an_archive_is_extracted(tmp_path):
    with archive(file="a/b", link="a/b") as tar:
        files.tar_safe_extract(tar, str(tmp_path))
    assert (tmp_path / "a" / "b").is_file()


def test_columns_are_selected_as_far_as_they_are_there():
    frame = pd.DataFrame({"a": [1], "b": [2]})
    assert files.pandas_select_columns(frame, ["b", "x", "a"], "file").columns.tolist() == ["b", "a"]
    assert files.pandas_select_columns(frame, ["x"], "file") is None
    assert files.pandas_select_columns(frame, None, "file") is frame


def test_arguments_are_checked():
    given = (True, False, "file", "")
    assert [files.resolve_filename_column(value) for value in given] == ["file_name", None, "file", ""]
    with pytest.raises(ValueError, match="Invalid value for add_filename_column"):
        files.resolve_filename_column(None)  # type: ignore[arg-type]
    assert files.get_default_file_extensions("jsonl") == [".jsonl", ".json"]
    with pytest.raises(ValueError, match="Unsupported filetype: csv"):
        files.get_default_file_extensions("csv")


def test_values_are_split_into_chunks():
    assert [*iterables.split_by_chunk_size([3, 4, 1], 4, lambda value: value)] == [[3, 4], [1]]
    assert [*iterables.split_by_chunk_size("abc", 2, drop_incomplete_chunk=True)] == [["a", "b"]]
    assert [*iterables.split_into_n_chunks("ab", 5)] == [["a"], ["b"]]
    assert [*iterables.split_into_n_chunks("", 5)] == []
    assert [*iterables.pairwise("abc")] == [("a", "b"), ("b", "c")]


def test_the_hash_of_names_is_that_of_nemo_curator():
    assert iterables.get_deterministic_hash(["b", "a"], "seed") == "946b21793aa9"
    assert iterables.get_deterministic_hash([], "seed") == "7d5f5790ce1e"


def test_temporary_folders_and_files_go(tmp_path):
    with (
        temporary.make_temporary_dir(prefix="x_") as folder,
        temporary.make_named_temporary_file(suffix=".y", target_dir=folder) as file,
        temporary.make_pipeline_temporary_dir("mine") as inside,
        temporary.make_pipeline_named_temporary_file(suffix=".z") as other,
    ):
        assert folder.name.startswith("x_")
        assert file.parent == folder
        assert inside.parent.name == "mine"
        assert other.parent.name == "ray_pipeline"
    assert not any(path.exists() for path in (folder, file, inside, other))
    with temporary.make_temporary_dir(target_dir=tmp_path, delete=False) as folder:
        pass
    assert folder.is_dir()


def test_a_jsonl_file_is_split_at_line_ends(tmp_path):
    lines = [json.dumps({"id": n, "text": "x" * (n % 50)}).encode() + b"\n" for n in range(1000)] + [
        b"y" * 5000 + b"\n"
    ]
    (tmp_path / "a.jsonl").write_bytes(b"".join(lines))
    (tmp_path / "out").mkdir()
    split_files.split_jsonl_file_by_size.remote(str(tmp_path / "a.jsonl"), str(tmp_path / "out"), 4096 / 2**20)
    parts = [tmp_path / "out" / f"a_{n}.jsonl" for n in range(len([*(tmp_path / "out").iterdir()]))]
    assert b"".join(part.read_bytes() for part in parts) == b"".join(lines)
    assert all(4096 / 2 < part.stat().st_size <= 4096 for part in parts[:-2])
    assert parts[-1].stat().st_size == 5001


DIGITS = np.datetime64("2024-01-02T03:04:05.123456789")
YEAR_9999 = np.datetime64("9999-12-31T23:59:59.999999")


def as_96_bits(path, *moments):
    """Write moments, each with its own unit, as Spark does; nanoseconds and far years share no column of Arrow."""
    columns = {f"at{number}": pa.array([moment] * 6) for number, moment in enumerate(moments)}
    pq.write_table(pa.table(columns), path, use_deprecated_int96_timestamps=True, row_group_size=2)
    return str(path)


@pytest.mark.parametrize("moment", [DIGITS, YEAR_9999])
def test_a_split_parquet_file_keeps_the_digits_and_years_of_timestamps_of_96_bits(moment, tmp_path):
    (tmp_path / "out").mkdir()
    path = as_96_bits(tmp_path / "a.parquet", moment)
    split_files.split_parquet_file_by_size.remote(path, str(tmp_path / "out"), 16 / 2**20)
    parts = sorted((tmp_path / "out").iterdir())
    values = pa.concat_tables([pq.read_table(part) for part in parts])["at0"]
    assert len(parts) > 1
    assert values.to_numpy().tolist() == np.array([moment] * 6).tolist()
    assert str(values.type) == f"timestamp[{np.datetime_data(moment.dtype)[0]}]"


def test_a_parquet_file_whose_timestamps_no_unit_holds_is_not_split(tmp_path):
    path = as_96_bits(tmp_path / "a.parquet", DIGITS, YEAR_9999)
    with pytest.raises(DataError, match=r"a.parquet has timestamps finer than microseconds, and others beyond"):
        split_files.split_parquet_file_by_size.remote(path, str(tmp_path), 1)


def test_a_reader_gives_timestamps_of_96_bits_with_all_digits_and_refuses_years_that_it_cannot_hold(tmp_path):
    reader = ParquetReaderStage()
    [value, *_] = reader.read_data([as_96_bits(tmp_path / "a.parquet", DIGITS)])["at0"]
    assert value == pd.Timestamp(DIGITS)
    path = as_96_bits(tmp_path / "b.parquet", YEAR_9999)
    with pytest.raises(DataError, match="column 'at0' of .*b.parquet has timestamps beyond the years 1677 to 2262"):
        reader.read_data([path])
    frame = reader.read_data([path], {"coerce_int96_timestamp_unit": "us"})
    assert pa.Table.from_pandas(frame)["at0"].to_numpy()[0] == YEAR_9999


def test_a_script_that_imports_ray_gets_references(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(put=lambda value: ("reference", value)))
    (tmp_path / "a.jsonl").write_text("{}\n")
    assert split_files.split_jsonl_file_by_size.remote(tmp_path / "a.jsonl", tmp_path, 1) == ("reference", None)
    assert (tmp_path / "a_0.jsonl").read_text() == "{}\n"


@pytest.mark.parametrize("rows_of_a_group", [10_000, 500])
def test_a_parquet_file_is_split_and_its_small_groups_are_merged(tmp_path, rows_of_a_group):
    table = pa.table({"id": np.arange(10_000), "text": [str(n) * 9 for n in range(10_000)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=rows_of_a_group)
    main = ["--input-path", tmp_path, "--output-path", tmp_path / "out", "--file-type", "parquet", "--target-size-mb"]
    most = table.nbytes // 4 / 2**20
    split_files.main([str(part) for part in (*main, 1)])
    assert pq.read_table(tmp_path / "out" / "a_0.parquet").equals(table)
    split_files.split_parquet_file_by_size(str(tmp_path / "a.parquet"), str(tmp_path / "out"), most)
    parts = [pq.read_table(tmp_path / "out" / f"a_{n}.parquet") for n in range(len([*(tmp_path / "out").iterdir()]))]
    assert pa.concat_tables(parts).equals(table)
    assert all(most / 2 < part.nbytes / 2**20 <= most for part in parts[:-1])


def test_a_row_larger_than_the_target_has_a_file_of_its_own(tmp_path):
    pq.write_table(pa.table({"text": ["x" * 5000, "y"]}), tmp_path / "a.parquet")
    split_files.split_parquet_file_by_size(str(tmp_path / "a.parquet"), str(tmp_path), 1e-4)
    assert [pq.read_table(tmp_path / f"a_{n}.parquet").num_rows for n in range(2)] == [1, 1]


def write_tokens(prefix: Path, documents: list[list[int]], dtype: str) -> None:
    """Files of tokens as Megatron writes them."""
    tokens = [np.array(document, dtype) for document in documents]
    prefix.with_suffix(".bin").write_bytes(b"".join(array.tobytes() for array in tokens))
    lengths = [len(array) for array in tokens]
    starts = np.cumsum([0, *lengths])[:-1] * np.dtype(dtype).itemsize
    prefix.with_suffix(".idx").write_bytes(
        b"MMIDIDX\x00\x00"
        + struct.pack("<QBQQ", 1, 4 if dtype == "i4" else 8, len(lengths), len(lengths) + 1)
        + np.array(lengths, "<i4").tobytes()
        + starts.astype("<i8").tobytes()
        + np.arange(len(lengths) + 1, dtype="<i8").tobytes()
    )


@pytest.mark.parametrize("dtype", ["i4", "u2"])
def test_files_of_tokens_are_merged_as_if_they_had_been_written_together(tmp_path, dtype):
    parts, together = [[[1, 2, 3], [4]], [[5, 6]], [[], [7]]], tmp_path / "together"
    (tmp_path / "parts").mkdir()
    for number, documents in enumerate(parts):
        write_tokens(tmp_path / "parts" / f"part-{number}", documents, dtype)
    write_tokens(together, [document for documents in parts for document in documents], dtype)
    megatron.merge_file_prefixes(str(tmp_path / "parts"), str(tmp_path / "merged"))
    for ending in (".bin", ".idx"):
        assert (tmp_path / f"merged{ending}").read_bytes() == together.with_suffix(ending).read_bytes()


def test_files_of_tokens_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(ValueError, match="no .bin and .idx files"):
        megatron.merge_file_prefixes(str(tmp_path), str(tmp_path / "merged"))
    write_tokens(tmp_path / "a", [[1]], "i4")
    write_tokens(tmp_path / "b", [[1]], "u2")
    with pytest.raises(ValueError, match="tokens of type uint16, others of int32"):
        megatron.merge_file_prefixes(str(tmp_path), str(tmp_path / "merged"))
    (tmp_path / "a.bin").unlink()
    with pytest.raises(ValueError, match=r"has no .*a\.bin"):
        megatron.merge_file_prefixes(str(tmp_path), str(tmp_path / "merged"))
    (tmp_path / "b.idx").write_bytes(b"x")
    with pytest.raises(ValueError, match="not an index of Megatron"):
        megatron.extract_index_contents(str(tmp_path / "b.idx"))
