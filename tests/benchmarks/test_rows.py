"""Rows that a benchmark is given may lack something; what cannot be read is refused in a sentence."""

from __future__ import annotations

import gzip
from pathlib import Path

import orjson
import pytest

from benchmarks.rows import all_rows, read_rows, texts

LABELLED = {"text": str, "lang": str}


def test_empty_lines_are_no_rows_and_rows_that_lack_a_value_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl.gz"
    lines = ['{"text": "a", "lang": "en", "more": [1]}', "", '{"text": "b"}', '{"text": null, "lang": "en"}', " "]
    file.write_bytes(gzip.compress("\n".join(lines).encode()))
    rows, left_out = read_rows(file, LABELLED)
    assert [row["text"] for row in rows] == ["a"]
    assert left_out == 2


def test_half_a_surrogate_pair_becomes_a_question_mark(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "a\\ud800b"}')
    assert list(all_rows(tmp_path)) == [{"text": "a?b"}]


def test_files_of_a_folder_are_read_in_order_of_their_names_and_others_are_not(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.json", "notes.txt"):
        (tmp_path / name).write_bytes(orjson.dumps({"text": name}))
    assert list(texts(tmp_path, 1)) == ["a.json", "b.jsonl"]
    assert list(texts(tmp_path, 0)) == ["a.json"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "there is no such file or folder; give JSONL"),
        ("", "none of 0 rows has 'text' and 'lang'; columns that came: none"),
        ('{"html": "a", "id": 1}', "none of 1 rows has 'text' and 'lang'; columns that came: html, id"),
        ('{"text": "a", "lang": "en"}\n[1]', "line 2: a JSON list, where an object with columns is wanted"),
        ('{"text": "a"', "line 1: not JSON"),
    ],
)
def test_what_cannot_be_read_is_refused_with_what_came(tmp_path: Path, content: str | None, said: str) -> None:
    file = tmp_path / "in.jsonl"
    if content is not None:
        file.write_text(content)
    with pytest.raises(SystemExit, match=said):
        read_rows(file, LABELLED)


def test_a_folder_without_jsonl_and_a_file_cut_short_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="the folder holds no file with a name like part-0.jsonl"):
        list(all_rows(tmp_path))
    (tmp_path / "in.jsonl.gz").write_bytes(gzip.compress(b"{}")[:-4])
    with pytest.raises(SystemExit, match="is truncated or not a .gz file"):
        list(all_rows(tmp_path))
