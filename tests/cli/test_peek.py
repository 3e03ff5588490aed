"""``dcurate peek``: the first rows and the types, a line for each value."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from dcurate import DataError, DocumentBatch, JsonlReader, PipelineError, peek, profile
from dcurate.cli import cli
from dcurate.cli.group import message_of
from dcurate.runs import Preview
from dcurate.ui.preview_table import PreviewTable


def printed(table: pa.Table, width: int) -> list[str]:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(PreviewTable(Preview(DocumentBatch(data=table), rows_read=table.num_rows)))
    return capture.get().splitlines()


@given(st.dictionaries(st.text(min_size=1, max_size=9), st.text(max_size=90), max_size=5), st.integers(60, 200))
@example({"a": "\x1b[2J\x07\r\n", "b": "語" * 80}, 60)
def test_lines_fit_the_terminal_and_cannot_control_it(values: dict[str, str], width: int) -> None:
    lines = printed(pa.table({name: [value] for name, value in values.items()}), width)
    assert all(cell_len(line) <= width for line in lines)
    assert not {char for line in lines for char in line if unicodedata.category(char) in ("Cc", "Cf")}


@given(st.lists(st.text("abc", min_size=1, max_size=12), min_size=1, max_size=4), st.sampled_from([80, 200]))
def test_values_that_fit_are_whole(texts: list[str], width: int) -> None:
    lines = printed(pa.table({f"column_{number}": [text] for number, text in enumerate(texts)}), width)
    assert any(line.split() == texts for line in lines)


def test_rows_are_lists_of_values_where_their_columns_do_not_fit() -> None:
    rows = pa.table({f"column_{number}": [number, number + 1] for number in range(20)})
    lines = [line.split() for line in printed(rows, 80)]
    assert ["row", "2"] in lines
    assert ["column_19", "20"] in lines


def test_the_command_shows_rows_types_and_whole_values_as_json(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"n": n, "text": "x" * 300, "other": None}) + "\n" for n in range(9)))
    answer = CliRunner().invoke(cli, ["peek", str(path), "--rows", "2", "--column", "text", "--column", "n"])
    lines = [line.split() for line in answer.stdout.splitlines()]
    assert ["text", "string"] in lines
    assert ["n", "int64"] in lines
    assert ["other", "null"] not in lines
    assert answer.stdout.splitlines()[-1] == "2 rows, from the first 2 of the input"
    answer = CliRunner().invoke(cli, ["peek", str(path), "--rows", "2", "--column", "text", "--column", "n", "--json"])
    assert json.loads(answer.stdout) == {
        "columns": {"text": "string", "n": "int64"},
        "rows": [{"text": "x" * 300, "n": 0}, {"text": "x" * 300, "n": 1}],
        "rows_read": 2,
    }


def test_a_frame_is_refused_in_one_sentence() -> None:
    with pytest.raises(PipelineError, match="peek: a DataFrame is neither a path, a list of paths nor a reader"):
        peek(pd.DataFrame({"a": [1]}))  # type: ignore[arg-type]


def test_columns_of_a_reader_are_its_own(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1, "b": 2}\n')
    assert peek(str(path), fields=["b"]).to_arrow().to_pylist() == [{"b": 2}]

    with pytest.raises(PipelineError, match="has no effect on a reader; give it to 'jsonl_reader'"):
        peek(JsonlReader(str(path)), fields=["b"])


def test_a_type_settles_a_column_that_differs_between_files_as_the_error_says(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "one", "id": 7}\n')
    pq.write_table(pa.table({"text": ["two"], "id": ["x"]}), tmp_path / "b.parquet")
    for command in (["peek"], ["profile", "--mode", "inline"]):
        refused = CliRunner().invoke(cli, [*command, str(tmp_path)])
        assert isinstance(refused.exception, DataError)
        assert "say which it is to be with --schema id=string" in message_of(refused.exception, command)
        assert CliRunner().invoke(cli, [*command, str(tmp_path), "--schema", "id=string"]).exit_code == 0
    assert peek(str(tmp_path), schema={"id": "string"}).to_arrow()["id"].to_pylist() == ["7", "x"]
    assert "is not of the form COLUMN=TYPE" in CliRunner().invoke(cli, ["peek", "a", "--schema", "id"]).output
    with pytest.raises(PipelineError, match="peek: schema=.* has no effect on a reader; give it to 'jsonl_reader'"):
        peek(JsonlReader(str(tmp_path)), schema={"id": "string"})
    with pytest.raises(PipelineError, match="profile: schema=.* has no effect on .jsonl_reader.; give it to"):
        profile(JsonlReader(str(tmp_path)), schema={"id": "string"})


@pytest.mark.parametrize(("sign", "option"), [(";", ";"), ("\t", r"\t"), ("\t", "\t"), ("|", "|")])
def test_the_advice_on_a_csv_file_that_is_divided_otherwise_works(sign: str, option: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"id{sign}text\n1{sign}one\n")
    shown = CliRunner().invoke(cli, ["peek", str(path)])
    assert f"give --delimiter {sign!r}" in " ".join(shown.stdout.split())
    refused = CliRunner().invoke(cli, ["profile", str(path), "--mode", "inline", "--quiet"])
    assert f"give --delimiter {sign!r}" in message_of(refused.exception or "", ["profile"])
    assert f"give delimiter={sign!r}" in peek(str(path)).notices[0]
    for command in (["peek"], ["profile", "--mode", "inline", "--quiet"]):
        assert CliRunner().invoke(cli, [*command, str(path), "--delimiter", option]).exit_code == 0
    assert peek(str(path), delimiter=sign).to_arrow().to_pylist() == [{"id": "1", "text": "one"}]
    with pytest.raises(PipelineError, match="peek: delimiter=.* has no effect on a reader"):
        peek(JsonlReader(str(path)), delimiter=sign)
