"""Shards that are read and packed a few documents at a time are those that are made at once."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from dcurate import TokenWriter
from dcurate.tokens import documents, layout, tokenize
from dcurate.tokens.check import verify
from dcurate.tokens.folder import TokenFolder
from dcurate.tokens.tokenizer import TokenizerSource
from tests.tokens.conftest import texts
from tests.tokens.test_writer import data_files, rows_of, run, write


@pytest.mark.parametrize("form", ["megatron", "mds", "parquet"])
@pytest.mark.parametrize("packing", ["none", "concat", "best_fit"])
def test_bytes_do_not_depend_on_how_much_is_read_at_once(
    packing: Any, form: str, tokenizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(1)
    rows = [{**row, "loss": [[0, draw.randrange(40)]]} for row in rows_of(texts(150))]
    source = write(tmp_path / "in", rows)
    settings: Any = {"format": form, "packing": packing, "shard_tokens": 1500, "loss_ranges_field": "loss"}
    settings |= {"sequence_length": None if packing == "none" else 64}
    monkeypatch.setattr(layout, "_BLOCK_TOKENS", 300)
    monkeypatch.setattr(layout, "_BLOCK_WINDOWS", 2)
    run(source, TokenWriter(str(tmp_path / "once"), tokenizer, **settings))
    monkeypatch.setattr(tokenize, "_CHUNK_TOKENS", 70)
    monkeypatch.setattr(documents, "_READ", 900)
    run(source, TokenWriter(str(tmp_path / "bits"), tokenizer, **settings))
    once, bits = (data_files(tmp_path / name) for name in ("once", "bits"))
    if form == "parquet":  # the same rows in other row groups; what they hold is checked below
        once, bits = (dict.fromkeys(each, b"") for each in (once, bits))
    assert once == bits
    found = verify(TokenFolder(str(tmp_path / "bits")), TokenizerSource(tokenizer), [str(tmp_path / "in")], sample=200)
    assert found.wrong == []
    assert (found.sampled, found.tokenised) == (150, 150)
    losses = [sorted((tmp_path / name / "spans").glob("*.loss.npy")) for name in ("once", "bits")]
    assert [one.read_bytes() for one in losses[0]] == [one.read_bytes() for one in losses[1]]
    assert bool(losses[0]) == (form == "megatron")
