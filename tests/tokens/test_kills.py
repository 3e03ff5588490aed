"""Files of tokens after kills are those of a run without any."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tests.dying import dying
from tests.forked import run_forked
from tests.tokens.conftest import texts
from tests.tokens.test_writer import data_files, rows_of, write

pytestmark = pytest.mark.program

_PROGRAM = "tests.tokens.program"
#: The program dies as soon as one of these is there.
KILLS = [
    "out.dcurate/output.json",
    "out.dcurate/rounds/*/00-*.chunks",
    "out.dcurate/rounds/*/03-*.chunks",
    "out/tokens-00000.bin",
    "out/tokens-00001.idx",
    "out/spans/tokens-00002.cu_seqlens.npy",
    "out/spans/tokens-00003.parquet",
    "out/tokens.json",
]


def test_bytes_after_kills_are_those_of_one_run(tokenizer: str, tmp_path: Path) -> None:
    source = write(tmp_path / "in", rows_of(texts(80)), 5)
    out = tmp_path / "out"
    whole = [sys.executable, "-m", _PROGRAM, source]
    assert run_forked([*whole, tmp_path / "once", tokenizer]) == 0
    for pattern in KILLS:
        killed = run_forked(dying(tmp_path, pattern, _PROGRAM, source, out, tokenizer))
        assert killed == -signal.SIGKILL, pattern
        (*_, last) = sorted(tmp_path.glob(pattern))
        assert last.exists()
    assert run_forked([*whole, out, tokenizer]) == 0
    assert data_files(out) == data_files(tmp_path / "once")
    spans = [sorted((folder / "spans").iterdir()) for folder in (out, tmp_path / "once")]
    assert [path.read_bytes() for path in spans[0]] == [path.read_bytes() for path in spans[1]]
    assert len(data_files(out)) > 8


def test_a_resumed_run_with_less_input_leaves_what_a_new_run_leaves(tokenizer: str, tmp_path: Path) -> None:
    source = Path(write(tmp_path / "in", rows_of(texts(80)), 5))
    out = tmp_path / "out"
    killed = run_forked(dying(out, "tokens-00003.bin", _PROGRAM, source, out, tokenizer))
    assert killed == -signal.SIGKILL
    (source / "00.jsonl").unlink()
    (source / "03.jsonl").unlink()
    for output in (out, tmp_path / "once"):
        assert run_forked([sys.executable, "-m", _PROGRAM, source, output, tokenizer]) == 0
    assert data_files(out) == data_files(tmp_path / "once")
    assert not (out / "tokens-00005.bin").exists()
