"""Rows are hashed in blocks that do not depend on how their content comes."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_64_digest

from dcurate.core.merkle import FAN_OUT, merkle_path, merkle_root
from dcurate.io import proof
from dcurate.io.json_write import JsonForm
from dcurate.io.proof import SHORT, RowBlocks, lines_to_prove, table_rows
from dcurate.rows.lines import with_lines


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "_BLOCK", 8)


def blocks_of(lines: list[bytes]) -> tuple[list[bytes], list[int]]:
    """The blocks and their last rows, by the rule."""
    blocks, counts, block = [], [], b""
    for count, line in enumerate(lines, 1):
        block += line
        if len(block) >= 8 or count == len(lines):
            blocks.append(blake3(block).digest())
            counts.append(count)
            block = b""
    return blocks, counts


_LINES = st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"") + b"\n"), max_size=12)


@given(_LINES, st.booleans(), st.data())
def test_blocks_and_short_hashes_are_those_of_the_lines_however_they_come(
    lines: list[bytes], ends: bool, data: st.DataObject
) -> None:
    if lines and not ends and lines[-1] != b"\n":
        lines[-1] = lines[-1][:-1]  # the last line of a file may have no end
    content = b"".join(lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=4)))
    rows = lines_to_prove()
    for start, stop in pairwise([0, *cuts, len(content)]):
        rows.add_lines(content[start:stop])
    proved = rows.rows()
    assert (proved.blocks, proved.counts) == blocks_of(lines)
    assert proved.short == [xxh3_64_digest(line)[:SHORT] for line in lines]
    assert proved.root == merkle_root(proved.blocks, b"lines").hex()


@given(
    st.lists(st.text("abé\n", max_size=5), min_size=1, max_size=9),
    st.sampled_from(["fresh", "lines", "edited", "mixed"]),
)
def test_a_writer_says_where_its_lines_end(texts: list[str], kind: str) -> None:
    table = pa.table({"text": texts})
    if kind != "fresh":
        lines: list[bytes | None] = [
            line + b"\n" for line in b"".join(map(bytes, JsonForm().pieces(table))).splitlines()
        ]
        if kind == "mixed":
            lines[0:1] = [None]
        table = with_lines(table, pa.array(lines, pa.large_binary()), ["text"])
    if kind == "edited":
        table = table.append_column("n", pa.array(range(len(texts))))
    ended, scanned = lines_to_prove(), lines_to_prove()
    for piece, ends in JsonForm().ended_pieces(table):
        ended.add(piece, ends)
        scanned.add_lines(piece)
    assert ended.rows() == scanned.rows()
    assert len(ended.rows().short) == len(texts)


@given(st.lists(st.text(max_size=9), max_size=9), st.integers(1, 4))
def test_rows_of_tables_do_not_depend_on_their_chunks(texts: list[str], size: int) -> None:
    table = pa.table({"a": pa.array(texts, pa.string()), "n": range(len(texts))})
    pieces = [table.slice(0, 0), *(table.slice(start, size) for start in range(0, len(texts), size))]
    assert table_rows(pieces) == table_rows([table])
    assert table_rows([pa.concat_tables(pieces)]) == table_rows([table])
    assert table_rows([table]).root != table_rows([table.rename_columns(["b", "n"])]).root


def test_rows_without_columns_count() -> None:
    assert len(table_rows([pa.table({"a": range(3)}).select([])]).short) == 3
    empty = RowBlocks(b"")
    empty.add(b"", np.zeros(0, np.int64))
    assert empty.rows().counts == []


@given(st.integers(0, 300), st.data())
def test_each_path_leads_to_the_root_and_no_other_leaf_does(count: int, data: st.DataObject) -> None:
    leaves = [blake3(bytes([number % 256, number // 256])).digest() for number in range(count)]
    root = merkle_root(leaves, b"about")
    assert root != merkle_root(leaves, b"other")
    if count:
        place = data.draw(st.integers(0, count - 1))
        path = merkle_path(leaves, place, b"about")
        assert path.root(leaves[place]) == root
        assert path.root(bytes(32)) != root
        assert all(len(before) + len(after) < FAN_OUT for before, after in path.steps)
        assert root != merkle_root([*leaves[:place], *leaves[place + 1 :]], b"about")
