"""Pairs of ``.bin`` and ``.idx`` of other programs are merged with folders of ours, or refused in a sentence."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from dcurate import DataError, PipelineError
from dcurate_testing.token_files import read_tokens, train_bpe
from tests.tokens.conftest import texts
from tests.tokens.test_check import command
from tests.tokens.test_rewrite import spans, tokens
from tests.tokens.test_writer import expected, rows_of


def write_pair(folder: Path, name: str, documents: list[list[list[int]]], kind: str = "uint16", code: int = 8) -> None:
    """A pair as Megatron's own builder writes it: sequences, and which of them are of each document."""
    folder.mkdir(exist_ok=True)
    sequences = [ids for document in documents for ids in document]
    lengths = np.array([len(ids) for ids in sequences], "<i4")
    bounds = np.cumsum([0, *map(len, documents)]).astype("<i8")
    pointers = (np.cumsum(lengths, dtype="<i8") - lengths) * np.dtype(kind).itemsize
    (folder / f"{name}.bin").write_bytes(b"".join(np.array(ids, kind).tobytes() for ids in sequences))
    head = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, code, len(sequences), len(bounds))
    (folder / f"{name}.idx").write_bytes(head + lengths.tobytes() + pointers.astype("<i8").tobytes() + bounds.tobytes())


@pytest.mark.usefixtures("small_reads")
def test_pairs_are_merged_with_a_folder_of_ours(tokenizer: str, tmp_path: Path) -> None:
    ids = expected(tokenizer, texts(30, seed=1))
    theirs = tmp_path / "theirs"
    write_pair(theirs, "web_text_document", [[one] for one in ids[:20]])
    write_pair(theirs, "books", [[ids[20]], [], [ids[21][:1], ids[21][1:]], *([one] for one in ids[22:])])
    ours = tokens(tmp_path, tokenizer, "ours", rows_of(texts(20)))
    with pytest.raises(
        DataError, match="'.*theirs' has pairs of .bin and .idx alone, which do not say their tokenizer"
    ):
        command("merge", ours, str(theirs), "--output", str(tmp_path / "none"))
    code, said = command(
        *("merge", ours, str(theirs), "--output", str(tmp_path / "all"), "--shard-tokens", "500"),
        *("--tokenizer", tokenizer),
    )
    assert code == 0
    assert "tokens lead back to the pair and the number of the document in it, and no further" in said
    there = [*expected(tokenizer, texts(20)), *ids[20:], *ids[:20]]
    assert read_tokens(tmp_path / "all", "megatron") == there
    found = spans(str(tmp_path / "all"))
    assert len(found) == 50
    assert [one["doc"] for one in found[20:23]] == ["books_0", "books_2", "books_3"]
    assert {(one["source"], one["row"]) for one in found[30:]} == {("web_text_document.bin", row) for row in range(20)}
    assert command("verify", str(tmp_path / "all"), "--tokenizer", tokenizer)[0] == 0


def test_pairs_alone_need_no_tokenizer(tokenizer: str, tmp_path: Path) -> None:
    ids = expected(tokenizer, texts(12))
    write_pair(tmp_path / "a", "x", [[one] for one in ids[:5]], "int32", 4)
    write_pair(tmp_path / "b", "x", [[one] for one in ids[5:]], "int32", 4)
    assert command("merge", str(tmp_path / "a"), str(tmp_path / "b"), "--output", str(tmp_path / "all"))[0] == 0
    assert read_tokens(tmp_path / "all", "megatron") == ids
    assert command("convert", str(tmp_path / "a"), "--output", str(tmp_path / "npy"), "--format", "npy")[0] == 0


def cut(data: bytes) -> bytes:
    return data[:-3]


DAMAGE: list[tuple[str, Callable[[bytes], bytes], str]] = [
    ("x.bin", cut, "x.bin has .* bytes, and its index says .*; copy it again"),
    ("x.idx", cut, "is cut: it has .* bytes, and says that it has"),
    ("x.idx", lambda data: data + b"\x00\x00", "has more than tokens, such as modes of images"),
    ("x.idx", lambda data: b"no index", "is not an index of Megatron"),
    (
        "x.idx",
        lambda data: data[:17] + b"\x06" + data[18:],
        "is float64; ids of 'uint16', 'int32', 'int64' in version 1",
    ),
    ("x.idx", lambda data: data[:-8] + struct.pack("<q", 1), "does not say of which documents its 2 sequences are"),
    ("x.idx", lambda data: data[:42] + b"\x01" + data[43:], "names tokens that do not follow one another"),
]


@pytest.mark.parametrize(("name", "change", "said"), DAMAGE)
def test_damaged_pairs_are_refused(name: str, change: Callable[[bytes], bytes], said: str, tmp_path: Path) -> None:
    write_pair(tmp_path / "a", "x", [[[1, 2]], [[3]]])
    (tmp_path / "a" / name).write_bytes(change((tmp_path / "a" / name).read_bytes()))
    with pytest.raises(DataError, match=said):
        command("merge", str(tmp_path / "a"), "--output", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_pairs_of_other_types_or_tokenizers_are_refused(tokenizer: str, tmp_path: Path) -> None:
    most = Tokenizer.from_file(tokenizer).get_vocab_size()
    write_pair(tmp_path / "a", "x", [[[1, 2]], [[most]]])
    with pytest.raises(
        PipelineError, match=f"the pair 'x' has the id {most}, and those of .* go up to {most - 1}; name"
    ):
        command("merge", str(tmp_path / "a"), "--output", str(tmp_path / "out"), "--tokenizer", tokenizer)
    write_pair(tmp_path / "a", "y", [[[1, 2]]], "int32", 4)
    with pytest.raises(DataError, match="'x' and 'y' have different types of ids, uint16 and int32"):
        command("merge", str(tmp_path / "a"), "--output", str(tmp_path / "out"))
    (tmp_path / "a" / "y.bin").unlink()
    with pytest.raises(DataError, match=r"y.idx' has no .bin beside it"):
        command("merge", str(tmp_path / "a"), "--output", str(tmp_path / "out"))
    other = train_bpe(tmp_path / "other" / "tokenizer.json", texts(40), size=300)
    ours = tokens(tmp_path, tokenizer, "ours", rows_of(texts(5)))
    write_pair(tmp_path / "b", "x", [[one] for one in expected(other, texts(5))])
    with pytest.raises(DataError, match="have different tokenizers"):
        command("merge", ours, str(tmp_path / "b"), "--output", str(tmp_path / "out"), "--tokenizer", other)
    assert not (tmp_path / "out").exists()
