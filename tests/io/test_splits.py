from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from dcurate import (
    CsvReader,
    DataError,
    DocumentReader,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    ParquetReader,
    PdfReader,
    Pipeline,
    PipelineError,
    WarcReader,
)
from dcurate.core.stage import Stage
from dcurate.fs.paths import open_store
from tests.conftest import skip_outside_ci

pytestmark = pytest.mark.program


def put(root, *names, content='{"a": 1}\n'):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


def names(reader):
    return [str(split.key) for split in reader.splits()]


def test_a_directory_is_searched_to_the_bottom_in_name_order(tmp_path):
    put(tmp_path, "b.jsonl", "a/z.json", "a/b/c.ndjson", "note.txt")
    assert names(JsonlReader(str(tmp_path))) == ["a/b/c.ndjson", "a/z.json", "b.jsonl"]


def test_names_that_begin_with_underscore_or_dot_are_left_out(tmp_path):
    put(tmp_path, "a.jsonl", "_dcurate/ledger/1.jsonl", ".hidden.jsonl", ".git/x.jsonl", "_SUCCESS", "d/_tmp/x.jsonl")
    assert names(JsonlReader(str(tmp_path))) == ["a.jsonl"]


def test_hidden_parents_of_the_input_do_not_hide_it(tmp_path):
    put(tmp_path, "_in/.here/a.jsonl")
    assert names(JsonlReader(str(tmp_path / "_in/.here"))) == ["a.jsonl"]


def test_names_do_not_depend_on_where_the_dataset_lies(tmp_path):
    put(tmp_path, "here/x/a.jsonl", "here/x/b.jsonl", "there/else/x/a.jsonl", "there/else/x/b.jsonl")
    for way in ("", "/", "/x", "/*", "/x/*.jsonl", "/**/*.jsonl"):
        here = JsonlReader(f"{tmp_path}/here{way}", files_per_partition=2)
        there = JsonlReader(f"{tmp_path}/there/else{way}", files_per_partition=2)
        assert names(here) == names(there)


def test_globs_match_files_and_directories(tmp_path):
    put(tmp_path, "2024-01/a.jsonl", "2024-02/a.jsonl", "2023-12/a.jsonl", "2024-01/_x/b.jsonl")
    assert names(JsonlReader(f"{tmp_path}/2024-*")) == ["2024-01/a.jsonl", "2024-02/a.jsonl"]
    assert names(JsonlReader(f"{tmp_path}/*/a.jsonl")) == ["2023-12/a.jsonl", "2024-01/a.jsonl", "2024-02/a.jsonl"]


def test_braces_hold_alternatives(tmp_path):
    put(tmp_path, "2024/a.jsonl", "2024/b.jsonl", "2025/a.jsonl", "2026/a.jsonl")
    assert names(JsonlReader(f"{tmp_path}/{{2024,2026}}/*.jsonl")) == ["2024/a.jsonl", "2026/a.jsonl", "b.jsonl"]
    assert names(JsonlReader(f"{tmp_path}/202{{4/{{a,b}},5/a}}.jsonl")) == ["2024/a.jsonl", "2025/a.jsonl", "b.jsonl"]
    assert JsonlReader(f"{tmp_path}/{{2024,2026}}/*.jsonl").reads(f"{tmp_path}/2026/new.jsonl")
    assert not JsonlReader(f"{tmp_path}/{{2024,2026}}/*.jsonl").reads(f"{tmp_path}/2025/new.jsonl")
    with pytest.raises(DataError, match="nothing at .*2027"):
        names(JsonlReader(f"{tmp_path}/{{2026,2027}}/a.jsonl"))
    with pytest.raises(PipelineError, match="more than 10,000 paths"):
        JsonlReader("{a,b}" * 20)


def test_a_file_with_braces_in_its_name_is_a_file(tmp_path):
    put(tmp_path, "{a,b}.jsonl", "a.jsonl", "{c}.jsonl")
    assert names(JsonlReader(f"{tmp_path}/{{a,b}}.jsonl")) == ["{a,b}.jsonl"]
    assert names(JsonlReader(f"{tmp_path}/{{c}}.jsonl")) == ["{c}.jsonl"]


def test_a_file_whose_name_looks_like_a_glob_is_a_file(tmp_path):
    put(tmp_path, "part[1].jsonl", "part1.jsonl")
    assert names(JsonlReader(f"{tmp_path}/part[1].jsonl")) == ["part[1].jsonl"]


def test_a_file_named_by_itself_is_taken_under_any_name(tmp_path):
    put(tmp_path, "data.txt")
    assert names(JsonlReader(f"{tmp_path}/data.txt")) == ["data.txt"]


def test_each_file_comes_once_however_often_it_is_named(tmp_path):
    put(tmp_path, "a.jsonl", "b.jsonl")
    assert names(JsonlReader([f"{tmp_path}/b.jsonl", str(tmp_path), f"file://{tmp_path}/*"])) == ["a.jsonl", "b.jsonl"]


def test_equal_names_are_distinguished_by_more_of_their_paths(tmp_path):
    put(tmp_path, "en/part.jsonl", "de/part.jsonl", "de/other.jsonl")
    reader = JsonlReader([f"{tmp_path}/en", f"{tmp_path}/de"])
    assert names(reader) == ["de/part.jsonl", "en/part.jsonl", "other.jsonl"]


def test_a_symlink_to_a_directory_above_does_not_go_round_in_circles(tmp_path):
    put(tmp_path, "d/a.jsonl")
    os.symlink(tmp_path, tmp_path / "d/again")
    assert names(JsonlReader(str(tmp_path))) == ["d/a.jsonl"]


@pytest.mark.parametrize("ending", ["", ".gz", ".bz2", ".zst", ".xz"])
def test_all_endings_are_listed(tmp_path, ending):
    for name in ("a.jsonl", "b.json", "c.ndjson", "D.JSONL"):
        (tmp_path / f"{name}{ending}").write_bytes(b"")
    assert len(names(JsonlReader(str(tmp_path)))) == 4


def test_files_per_partition_groups_files_in_name_order(tmp_path):
    put(tmp_path, *(f"{n}.jsonl" for n in range(5)))
    splits = list(JsonlReader(str(tmp_path), files_per_partition=2).splits())
    assert [[os.path.basename(p) for p in s.data] for s in splits] == [
        ["0.jsonl", "1.jsonl"],
        ["2.jsonl", "3.jsonl"],
        ["4.jsonl"],
    ]
    assert [s.key.split.partition("-")[0] for s in splits] == ["0.jsonl+1", "2.jsonl+1", "4.jsonl"]


def test_the_name_of_a_group_follows_from_all_of_its_files(tmp_path):
    put(tmp_path, "one/a.jsonl", "one/b.jsonl", "two/a.jsonl", "two/c.jsonl")
    one, two = (names(JsonlReader(f"{tmp_path}/{d}", files_per_partition=2))[0] for d in ("one", "two"))
    assert one.startswith("a.jsonl+1-")
    assert two.startswith("a.jsonl+1-")
    assert one != two


def test_blocksize_packs_small_files_and_cuts_large_ones(tmp_path):
    line = f'{{"a": "{"x" * 65526}"}}\n'
    for name, lines in {"a": 3, "b": 3, "c": 3, "d": 25, "e": 1}.items():
        (tmp_path / f"{name}.jsonl").write_text(line * lines)
    reader = JsonlReader(str(tmp_path), blocksize=len(line) * 7)
    splits = list(reader.splits())
    found = [(str(s.key).partition("-")[0], [(p.start, p.stop) for p in s.parts]) for s in splits]
    assert found == [
        ("a.jsonl+1", [(0, None), (0, None)]),
        ("c.jsonl", [(0, None)]),
        ("d.jsonl@00000", [(0, 409600)]),
        ("d.jsonl@00001", [(409600, 819200)]),
        ("d.jsonl@00002", [(819200, 1228800)]),
        ("d.jsonl@00003", [(1228800, 1638400)]),
        ("e.jsonl", [(0, None)]),
    ]
    assert sum(reader.process(s).num_items for s in splits) == 35  # type: ignore[misc]


def test_the_smallest_files_count_as_64_kib_when_they_are_packed(tmp_path):
    put(tmp_path, *(f"{n:02}.jsonl" for n in range(10)))
    packed = JsonlReader(str(tmp_path), blocksize="256KiB")
    assert [len(split.parts) for split in packed.splits()] == [4, 4, 2]
    assert [len(split.parts) for split in JsonlReader(str(tmp_path), blocksize=100).splits()] == [1] * 10


def test_a_large_plain_file_is_cut_without_being_asked_but_not_a_compressed_one(tmp_path):
    for name in ("a.jsonl", "b.jsonl.gz"):
        with open(tmp_path / name, "wb") as file:
            file.write(b'{"a": 1}\n')
            file.truncate(300 * 2**20)
    reader = JsonlReader(str(tmp_path))
    reader._sniffed = reader._known()
    assert names(reader) == ["a.jsonl@00000", "a.jsonl@00001", "a.jsonl@00002", "b.jsonl.gz"]


def test_limit_keeps_the_first_splits(tmp_path):
    put(tmp_path, *(f"{n}.jsonl" for n in range(5)))
    assert names(JsonlReader(str(tmp_path), limit=2)) == ["0.jsonl", "1.jsonl"]


def test_a_version_changes_when_the_file_does(tmp_path):
    put(tmp_path, "a.jsonl", "b.jsonl")
    before = [s.version for s in JsonlReader(str(tmp_path)).splits()]
    os.utime(tmp_path / "a.jsonl", (1, 1))
    after = [s.version for s in JsonlReader(str(tmp_path)).splits()]
    assert before[0] != after[0]
    assert before[1] == after[1]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"files_per_partition": 2, "blocksize": "1MB"},
            "files_per_partition=2 and blocksize='1MB' both say how large a split is; give one of them",
        ),
        ({"files_per_partition": 0}, "files_per_partition=0 must be a whole number of at least 1"),
        ({"blocksize": "lots"}, "blocksize='lots' is not a size; give bytes, or text such as '128MiB' or '1GB'"),
        ({"blocksize": 0}, "blocksize=0 is not a size; give bytes, or text such as '128MiB' or '1GB'"),
        ({"fields": "text"}, "jsonl_reader: fields='text' must be a list of column names, or None for all"),
        ({"limit": 0}, "jsonl_reader: limit=0 must be a whole number of at least 1, or None for all rows"),
        ({"on_bad_line": "skip"}, "jsonl_reader: on_bad_line='skip' must be 'raise' or 'quarantine'"),
        (
            {"read_kwargs": {"lines": True, "chunksize": 3}},
            "jsonl_reader: read_kwargs 'chunksize' mean nothing here, as pandas is not in use; "
            "leave them out, and use fields= for columns and schema= for types",
        ),
        (
            {"schema": {"id": "strng"}},
            "jsonl_reader: schema: unknown type 'strng' of column 'id'; did you mean 'string'?",
        ),
        ({"file_paths": []}, "file_paths is an empty list; give at least one file, directory or glob"),
        ({"file_paths": [3]}, "file_paths: int 3 is not a path; give files, directories or globs as text"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings, sentence):
    with pytest.raises(PipelineError) as refusal:
        JsonlReader(**{"file_paths": "x", **settings})
    assert str(refusal.value) == sentence


def test_a_path_with_nothing_there_is_refused(tmp_path):
    with pytest.raises(DataError) as refusal:
        JsonlReader(f"{tmp_path}/none").columns()
    assert str(refusal.value) == (
        f"there is nothing at '{tmp_path}/none'; check the path (names that begin with '_' or '.' are left out)"
    )
    with pytest.raises(DataError, match=r"no file matches '.*/\*\.jsonl'; check the path"):
        JsonlReader(f"{tmp_path}/*.jsonl").columns()
    with pytest.raises(DataError, match=f"there is nothing at 'no-folder' in '{os.getcwd()}'; check the path"):
        JsonlReader("no-folder").columns()
    with pytest.raises(
        DataError, match=r"there is nothing at '\$DATA/in', where \$NAME is not replaced: write os.environ"
    ):
        JsonlReader("$DATA/in").columns()


@pytest.mark.parametrize("reader", [JsonlReader, ParquetReader, CsvReader, DocumentReader, WarcReader, PdfReader])
def test_the_records_of_a_run_are_not_taken_for_its_output(reader, tmp_path):
    put(tmp_path, "in.jsonl", content='{"a": 1}\n{broken\n')
    stages: list[Stage] = [
        JsonlReader(f"{tmp_path}/in.jsonl", on_bad_line="quarantine"),
        JsonlWriter(f"{tmp_path}/out"),
    ]
    Pipeline("t", stages=stages).run(InlineExecutor(), observers=[])
    for path in (f"{tmp_path}/out.dcurate", f"{tmp_path}/out.dcurate/"):
        with pytest.raises(DataError) as refused:
            list(reader(path).splits())
        assert str(refused.value) == (
            f"'{tmp_path}/out.dcurate' holds the records of the run that wrote '{tmp_path}/out', and not its rows; "
            f"read '{tmp_path}/out', or show the run with dcurate report {tmp_path}/out"
        )
    assert len(names(JsonlReader(f"{tmp_path}/out.dcurate/quarantine"))) == 1
    put(tmp_path, "mine.dcurate/a.jsonl")
    assert names(JsonlReader(f"{tmp_path}/mine.dcurate")) == ["a.jsonl"]


def test_an_empty_directory_is_refused(tmp_path):
    with pytest.raises(DataError) as refusal:
        list(JsonlReader(str(tmp_path)).splits())
    assert str(refusal.value) == (
        f"the directory '{tmp_path}' is empty (names that begin with '_' or '.' are left out); name another"
    )


def test_a_directory_without_files_of_the_format_is_refused_and_says_what_is_there(tmp_path):
    put(tmp_path, "a.parquet", "b.parquet", "README")
    with pytest.raises(DataError) as refusal:
        JsonlReader(str(tmp_path)).columns()
    assert str(refusal.value) == (
        f"no JSONL file at '{tmp_path}' (looked for .jsonl .json .ndjson, each plain or with .gz .bz2 .zst .xz), "
        f"only 3 of '.parquet', 'README'; name the files themselves or use the reader for their format"
    )
    put(tmp_path / "j", "a.jsonl")
    with pytest.raises(DataError, match=r"no Parquet file at '.*' \(looked for .parquet .pq\), only 1 of '.jsonl'"):
        ParquetReader(str(tmp_path / "j")).columns()


def test_an_unknown_protocol_is_refused():
    with pytest.raises(DataError, match=r"cannot open 'nowhere://x': .*; give a local path or a URL that fsspec knows"):
        JsonlReader("nowhere://x").columns()


def test_a_file_that_may_not_be_read_is_refused(tmp_path):
    if os.geteuid() == 0 and not os.path.exists("/usr/bin/setpriv"):
        skip_outside_ci("root may read anything; install util-linux for setpriv, or run as another user")
    put(tmp_path, "a.jsonl")
    os.chmod(tmp_path / "a.jsonl", 0)
    code = f"from dcurate import JsonlReader; JsonlReader({str(tmp_path)!r}).columns()"
    rights = "-dac_override,-dac_read_search"  # with which root reads anything
    drop = ["setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}"] if os.geteuid() == 0 else []

    def run(code: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*drop, sys.executable, "-c", code], check=False, capture_output=True, text=True)

    assert not run("import dcurate").returncode
    assert f"cannot read '{tmp_path}/a.jsonl': permission denied; give this user the right to it" in run(code).stderr


def test_settings_leave_out_where_the_files_are():
    one = JsonlReader("here", storage_options={"key": "a"}, blocksize="1MiB", limit=3)
    two = JsonlReader("there", blocksize=2**20)
    assert one.settings() == two.settings()
    assert one.settings() != JsonlReader("here", blocksize="2MiB").settings()


@pytest.mark.parametrize("name", ["a::b.jsonl", "dir::x/a.jsonl", "a::b/c::d.jsonl", "::.jsonl"])
def test_two_colons_may_be_part_of_a_name(tmp_path, name, monkeypatch):
    put(tmp_path, name)
    assert names(JsonlReader(str(tmp_path))) == [name]
    (split,) = JsonlReader(str(tmp_path / name)).splits()
    assert JsonlReader(str(tmp_path / name)).process(split).num_items == 1
    monkeypatch.chdir(tmp_path)
    if not name.startswith("dir::"):  # the name of a protocol, which a relative path may begin with
        assert names(JsonlReader(name)) == [name.rpartition("/")[2]]


def test_two_colons_may_be_part_of_a_url_and_chain_protocols_elsewhere(tmp_path):
    put(tmp_path, "a::b.jsonl")
    (split,) = JsonlReader(f"file://{tmp_path}/a::b.jsonl").splits()
    assert JsonlReader(f"file://{tmp_path}/a::b.jsonl").process(split).num_items == 1
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        archive.writestr("a.jsonl", '{"a": 1}\n')
    store, path = open_store(f"zip://a.jsonl::{tmp_path}/b.zip", {})
    assert store.cat_file(path) == b'{"a": 1}\n'
    with pytest.raises(DataError, match="cannot read .*none.zip': no such file"):
        open_store(f"zip://a.jsonl::{tmp_path}/none.zip", {})
    put(tmp_path, "c.jsonl")
    assert open_store(f"simplecache::file://{tmp_path}/c.jsonl", {})[1] == f"{tmp_path}/c.jsonl"


@pytest.mark.parametrize("name", [b"\xff\xfe.jsonl", b"x\xff/a.jsonl"])
def test_a_name_that_is_not_utf8_is_refused_in_one_sentence(tmp_path, name):
    path = os.path.join(os.fsencode(tmp_path), b"in", name)
    os.makedirs(os.path.dirname(path))
    Path(os.fsdecode(path)).write_bytes(b'{"a": 1}\n')
    for given in (tmp_path / "in", os.fsdecode(path)):
        with pytest.raises(DataError, match="is a name in bytes that are not UTF-8; rename the file or folder"):
            names(JsonlReader(str(given)))


def test_a_nul_in_a_path_is_refused_in_one_sentence(tmp_path):
    with pytest.raises(DataError, match="holds a NUL, which no file has in its name"):
        names(JsonlReader(f"{tmp_path}/a\0b.jsonl"))
    with pytest.raises(DataError, match="holds a NUL, which no file has in its name"):
        JsonlWriter(f"{tmp_path}/o\0").check()


@pytest.mark.parametrize(
    "address", ["zip://{}::{}/b.zip", "zip://{}", "tar://{}::file://{}/b.tar", "dir::file://{1}/{0}"]
)
def test_what_is_within_an_archive_is_neither_read_nor_written(address: str, tmp_path):
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        archive.writestr("a.jsonl", "{}\n")
    with tarfile.open(tmp_path / "b.tar", "w") as tar:
        put(tmp_path, "a.jsonl")
        tar.add(tmp_path / "a.jsonl", "a.jsonl")
    refused = "is within something that '(zip|tar|dir)' opens, where files have no address of their own; unpack it"
    for name in ("a.jsonl", "*.jsonl", ""):
        with pytest.raises(DataError, match=refused):
            JsonlReader(address.format(name, tmp_path)).columns()
    with pytest.raises(DataError, match=refused):
        JsonlWriter(address.format("out", tmp_path)).prepare(resume=False)


@pytest.mark.parametrize(
    ("files", "characters", "packing", "splits", "wanted"),
    [
        (1000, 11, {}, 63, ["1,000 files of 11 bytes on average are packed, up to 16 a split"]),
        (1000, 2**18 - 1, {}, 250, ["1,000 files of 262.1 kB on average are packed, up to 16 a split"]),
        (999, 11, {}, 999, []),
        (1000, 2**18, {}, 1000, []),
        (1000, 11, {"blocksize": "1MiB"}, 63, []),
        (1000, 11, {"files_per_partition": 1}, 1000, []),
    ],
    ids=["many small", "not so small", "few", "large", "packed", "asked for"],
)
def test_many_small_files_are_packed_and_said_to_be(tmp_path, files, characters, packing, splits, wanted):
    for number in range(files):
        with (tmp_path / f"{number}.jsonl").open("wb") as file:
            file.write(b'{"a": 1}\n')
            file.truncate(characters)  # what follows takes no space on the disk
    reader = JsonlReader(str(tmp_path), **packing)
    assert len(list(reader.splits())) == splits
    assert [notice.partition("; ")[0] for notice in reader.notices()] == wanted
