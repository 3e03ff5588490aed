"""Every change of an output is found by the root of its run, and located."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import (
    DataError,
    DocumentWriter,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    ParquetWriter,
    Pipeline,
    ScoreFilter,
)
from dcurate.core.stage import Stage
from dcurate.io.proof import ProvedRows
from dcurate.runs import Proof, RowChange, prove
from dcurate.runs.proof import changed_rows
from dcurate.text import WordCountFilter

Line = Callable[[list[bytes]], list[bytes]]


def run(folder: Path, writer: Stage, rows: int = 40) -> Proof:
    """The proof of a run over two files, of whose rows half are dropped."""
    (folder / "in").mkdir(exist_ok=True)
    for name in "ab":
        lines = [json.dumps({"id": f"{name}{row}", "text": "word " * (row % 4), "n": row}) for row in range(rows)]
        (folder / "in" / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    stages: list[Stage] = [JsonlReader(str(folder / "in")), ScoreFilter(WordCountFilter(min_words=2)), writer]
    Pipeline("demo", stages=stages).run(InlineExecutor(), proof=True, observers=[])
    proof = prove(str(folder / "out"))
    assert proof.holds
    assert proof.rows == rows
    return proof


def changes_of(output: Path, root: str | None = None) -> list[tuple[str, int | None]]:
    return [(change.what, change.row) for change in prove(str(output), root=root).changes]


def first(output: Path, pattern: str) -> Path:
    return min(output.glob(pattern))


@pytest.fixture(scope="module")
def jsonl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("jsonl")
    run(folder, JsonlWriter(str(folder / "out")))
    return folder / "out"


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parquet")
    run(folder, DocumentWriter(str(folder / "out"), filetype="parquet"))
    return folder / "out"


def changed(place: int, text: bytes) -> Line:
    return lambda lines: [line.replace(b"word", text, 1) if row == place else line for row, line in enumerate(lines)]


@pytest.mark.parametrize(
    ("edit", "changes"),
    [
        (changed(3, b"Word"), [("changed", 3)]),
        (lambda lines: lines[:5] + lines[6:], [("missing", 5)]),
        (lambda lines: lines[:-1], [("missing", 19)]),
        (lambda lines: [b'{"id":"new"}', *lines], [("added", 0)]),
        (lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]], [("changed", 2), ("changed", 3)]),
        (lambda lines: [*lines, lines[0]], [("added", 20)]),
        (lambda lines: [lines[0].replace(b"{", b"{ "), *lines[1:]], [("changed", 0)]),
    ],
)
def test_changes_of_lines_are_located(edit: Line, changes: list[tuple[str, int]], jsonl: Path) -> None:
    path = first(jsonl, "b-*.jsonl")
    before = path.read_bytes()
    try:
        path.write_bytes(b"".join(line + b"\n" for line in edit(before.splitlines())))
        [*proved] = prove(str(jsonl)).changes
        assert [(change.what, change.row) for change in proved] == changes
        assert {(change.file, change.split) for change in proved} == {(path.name, "b.jsonl")}
        assert str(proved[0]).startswith(
            f"{changes[0][0]}: {path.name}, row {changes[0][1]} (counted from 0), split 'b"
        )
    finally:
        path.write_bytes(before)
    assert prove(str(jsonl)).holds


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_change_of_any_byte_is_found(jsonl: Path, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted(jsonl.glob("*.jsonl"))))
    before = path.read_bytes()
    place = data.draw(st.integers(0, len(before) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda value: value != before[place]))
    try:
        path.write_bytes(before[:place] + bytes([byte]) + before[place + 1 :])
        proof = prove(str(jsonl))
        row = before[:place].count(b"\n")
        assert not proof.holds
        assert {change.file for change in proof.changes} == {path.name}
        rows = [change.row for change in proof.changes if change.row is not None]
        assert not rows or min(rows) == row  # of 65,536 changed rows one is not located
    finally:
        path.write_bytes(before)


def test_files_that_are_gone_or_new_are_found(tmp_path: Path) -> None:
    run(tmp_path, JsonlWriter(str(tmp_path / "out")))
    path = first(tmp_path / "out", "a-*.jsonl")
    path.rename(path.with_name("copy.jsonl"))
    changes = prove(str(tmp_path / "out")).changes
    assert [(change.what, change.file) for change in changes] == [("missing", path.name), ("added", "copy.jsonl")]


def test_rows_of_compressed_lines_and_of_folders_are_proved(tmp_path: Path) -> None:
    run(tmp_path, JsonlWriter(str(tmp_path / "out"), compression="gzip", separate_by="n", max_rows_per_file=3))
    path = first(tmp_path / "out", "2/a-*.jsonl.gz")
    content = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(content, 1))  # packed otherwise, with the same rows
    assert prove(str(tmp_path / "out")).holds
    path.write_bytes(gzip.compress(content.replace(b"word", b"Word", 1)))
    assert changes_of(tmp_path / "out") == [("changed", 0)]
    path.write_bytes(path.read_bytes()[:-9])
    [change] = prove(str(tmp_path / "out")).changes
    assert change.what == "unreadable"
    assert path.name in change.why


def test_values_of_parquet_are_proved_and_not_how_they_are_packed(tmp_path: Path) -> None:
    run(tmp_path, ParquetWriter(str(tmp_path / "out"), max_rows_per_file=15))
    path = first(tmp_path / "out", "a-*.parquet")
    table = pq.read_table(path)
    pq.write_table(table, path, compression="none", row_group_size=4, use_dictionary=False)
    assert prove(str(tmp_path / "out")).holds
    numbers = table["n"].to_pylist()
    pq.write_table(table.set_column(2, "n", pa.array([*numbers[:3], -1, *numbers[4:]])), path)
    assert changes_of(tmp_path / "out") == [("changed", 3)]
    pq.write_table(pa.concat_tables([table.slice(0, 1), table.slice(3)]), path)
    assert changes_of(tmp_path / "out") == [("missing", 1), ("missing", 2)]
    pq.write_table(table.rename_columns(["id", "texts", "n"]), path)
    [change] = prove(str(tmp_path / "out")).changes
    assert (change.row, change.why) == (None, "names or order of columns, or a row that is not found")
    path.write_bytes(b"PAR1")
    assert changes_of(tmp_path / "out") == [("unreadable", None)]


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_change_of_any_value_of_parquet_is_found_and_located(parquet: Path, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted(parquet.glob("*.parquet"))))
    before = path.read_bytes()
    table = pq.read_table(path)
    name, row = data.draw(st.sampled_from(table.column_names)), data.draw(st.integers(0, table.num_rows - 1))
    values = table[name].to_pylist()
    other = st.none() | (st.integers(-(2**63), 2**63 - 1) if name == "n" else st.text(max_size=5))
    values[row] = data.draw(other.filter(lambda value: value != values[row]))
    try:
        place = table.column_names.index(name)
        pq.write_table(table.set_column(place, name, pa.array(values, table.schema.field(name).type)), path)
        [change] = prove(str(parquet)).changes
        assert (change.what, change.file) == ("changed", path.name)
        assert change.row in (row, None)  # of 65,536 changed rows one is not located
    finally:
        path.write_bytes(before)


def test_records_that_are_changed_with_the_output_have_another_root(tmp_path: Path) -> None:
    proof = run(tmp_path, JsonlWriter(str(tmp_path / "out")))
    records = tmp_path / "out.dcurate"
    [ledger] = [path for path in (records / "ledger").iterdir() if path.name != "pipeline.json"]
    before = ledger.read_bytes()
    ledger.write_bytes(before.replace(b'"word_count":20', b'"word_count":19', 1))
    assert ledger.read_bytes() != before
    [change] = prove(str(tmp_path / "out")).changes
    assert change.what == "record"
    assert "not that of the run" in change.why
    ledger.write_bytes(before)
    assert changes_of(tmp_path / "out", root=proof.root.upper()) == []
    assert changes_of(tmp_path / "out", root="00") == [("record", None)]


def test_without_short_hashes_a_change_is_found_and_not_located(tmp_path: Path) -> None:
    run(tmp_path, JsonlWriter(str(tmp_path / "out")))
    path = first(tmp_path / "out", "a-*.jsonl")
    (tmp_path / "out.dcurate" / "proof" / "rows" / path.name).unlink()
    assert prove(str(tmp_path / "out")).holds
    path.write_bytes(path.read_bytes().replace(b"a3", b"c3"))
    [change] = prove(str(tmp_path / "out")).changes
    assert (
        str(change) == f"changed: {path.name}, split 'a.jsonl': which rows is not known, as the short hashes are gone"
    )


def test_an_output_without_a_proof_is_named_in_one_sentence(tmp_path: Path) -> None:
    rows = pd.DataFrame({"text": ["a"]})
    output = str(tmp_path / "out")
    Pipeline("x", stages=[JsonlWriter(output)]).run(InlineExecutor(), rows, observers=[])
    with pytest.raises(DataError) as refusal:
        prove(output)
    assert str(refusal.value) == f"{output!r} has no proof: run the pipeline with proof=True or --proof"
    (tmp_path / "out.dcurate" / "proof").mkdir()
    (tmp_path / "out.dcurate" / "proof" / "begun").touch()
    with pytest.raises(DataError, match="has no proof: the run has not ended; resume it"):
        prove(output)
    (tmp_path / "out.dcurate" / "proof" / "root.json").write_text("{}")
    with pytest.raises(DataError, match=r"root.json' is damaged \('root'\); run the pipeline again"):
        prove(output)


_digests = st.lists(st.binary(min_size=2, max_size=2), max_size=12)


@given(_digests, _digests)
def test_differences_turn_what_was_written_into_what_is_there(before: list[bytes], after: list[bytes]) -> None:
    differences = changed_rows("f", before, ProvedRows([], [], after, b""), "s")
    places = {what: [change.row for change in differences if change.what == what] for what in ("missing", "added")}
    kept = [digest for row, digest in enumerate(before) if row not in places["missing"]]
    for row in sorted(place for place in places["added"] if place is not None):
        kept.insert(row, after[row])
    assert len(kept) == len(after)
    unequal = [row for row, (one, other) in enumerate(zip(kept, after, strict=True)) if one != other]
    assert unequal == [change.row for change in differences if change.what == "changed" and change.row is not None]


def test_many_changes_of_a_file_are_counted() -> None:
    before, after = [bytes(2)] * 500, [b"xx"] * 500
    differences = changed_rows("f", before, ProvedRows([], [], after, b""), "s")
    assert len(differences) == 101
    assert differences[-1] == RowChange("changed", "f", split="s", why="and 400 rows more")


def test_what_a_run_gives_is_plain_values(tmp_path: Path) -> None:
    proof = run(tmp_path, JsonlWriter(str(tmp_path / "out")))
    values = json.loads(json.dumps(proof.to_dict()))
    assert values["holds"] is True
    assert (values["rows"], values["files"], values["splits"], values["changes"]) == (40, 2, 2, [])
