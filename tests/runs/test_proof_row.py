"""The path of one row leads from its source to the root of the run."""

import json
from hashlib import sha256
from pathlib import Path

import pytest
from blake3 import blake3

from dcurate import (
    ExactDuplicates,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    ParquetWriter,
    Pipeline,
    PipelineError,
    ScoreFilter,
)
from dcurate.core.stage import Stage
from dcurate.runs import RowProof, prove_row
from dcurate.text import WordCountFilter


def run(folder: Path, writer: Stage, *more: Stage, rejected: bool = True) -> None:
    (folder / "in").mkdir()
    for name in "abc":
        lines = [json.dumps({"id": f"{name}{row}", "text": f"{name} {row % 9} " * (row % 3)}) for row in range(40)]
        (folder / "in" / f"{name}.jsonl").write_text("\n".join([*lines, "no JSON"]) + "\n")
    reader = JsonlReader(str(folder / "in"), on_bad_line="quarantine")
    words = ScoreFilter(WordCountFilter(min_words=2), score_field="words")
    kept = str(folder / "rejected") if rejected else None
    stages: list[Stage] = [reader, words, *more, writer]
    Pipeline("demo", stages=stages).run(InlineExecutor(), proof=True, rejected=kept, observers=[])


def climbed(leaf: str, steps: list[list[list[str]]], about: bytes, count: int) -> str:
    """The root above a leaf, computed with SHA-256 alone."""
    digest = bytes.fromhex(leaf)
    for before, after in steps:
        digest = sha256(bytes.fromhex("".join(before)) + digest + bytes.fromhex("".join(after))).digest()
    head = b"dcurate\0" + len(about).to_bytes(8, "big") + about + count.to_bytes(8, "big")
    return sha256(head + digest).hexdigest()


def check(proof: RowProof) -> None:
    """The path from the split to the root holds, by its plain values alone."""
    values = json.loads(json.dumps(proof.to_dict()))
    assert values["holds"] is True
    assert sha256(values["statement"].encode()).hexdigest() == values["split_leaf"]
    assert climbed(values["split_leaf"], values["to_root"], b"splits of a run", 3) == values["root"]


def test_a_kept_row_is_followed_from_its_line_to_the_root(tmp_path: Path) -> None:
    run(tmp_path, JsonlWriter(str(tmp_path / "out")))
    proof = prove_row(str(tmp_path / "out"), "b7")
    assert (proof.outcome, proof.split, proof.scores) == ("kept", "b.jsonl", {"words": 2})
    assert proof.source == f"{tmp_path}/in/b.jsonl, row 7 (counted from 0)"
    assert proof.passed == {"jsonl_reader": (), "word_count": (">= 2", "<= 100000"), "jsonl_writer": ()}
    path = next((tmp_path / "out").glob("b-*"))
    lines = path.read_bytes().splitlines()
    row = next(number for number, line in enumerate(lines) if b'"b7"' in line)
    assert proof.place == f"{path}, row {row} (counted from 0)"
    assert proof.block == (0, len(lines))
    assert proof.leaf == blake3(path.read_bytes()).hexdigest()
    assert climbed(proof.leaf, proof.to_file, b"lines", 1) == proof.file_root
    assert proof.file_root in proof.statement
    check(proof)
    again = prove_row(str(tmp_path / "out"), f"{path.name}:{row}")
    assert (again.leaf, again.root, again.source) == (proof.leaf, proof.root, proof.source)


def test_a_row_that_was_changed_has_a_path_that_leads_elsewhere(tmp_path: Path) -> None:
    run(tmp_path, ParquetWriter(str(tmp_path / "out")))
    assert prove_row(str(tmp_path / "out"), "b7").holds
    jsonl = tmp_path / "lines"
    jsonl.mkdir()
    run(jsonl, JsonlWriter(str(jsonl / "out")))
    path = next((jsonl / "out").glob("b-*"))
    path.write_bytes(path.read_bytes().replace(b'"b 7 "', b'"b 7 x"', 1))
    proof = prove_row(str(jsonl / "out"), "b7")
    assert not proof.holds
    assert proof.file_root in proof.statement


def test_a_dropped_row_and_one_in_quarantine_are_followed_to_the_root(tmp_path: Path) -> None:
    run(tmp_path, JsonlWriter(str(tmp_path / "out")))
    dropped = prove_row(str(tmp_path / "out"), "c3")
    assert (dropped.outcome, dropped.stage, dropped.reason, dropped.score) == ("dropped", "word_count", "word_count", 0)
    assert (dropped.source, dropped.leaf) == (f"{tmp_path}/in/c.jsonl, row 3 (counted from 0)", "")
    assert list(dropped.passed) == ["jsonl_reader"]
    check(dropped)
    faulty = prove_row(str(tmp_path / "out"), "no JSON", id_field="raw")
    assert (faulty.outcome, faulty.stage) == ("quarantined", "jsonl_reader")
    check(faulty)


def test_a_duplicate_is_followed_to_the_round_that_dropped_it(tmp_path: Path) -> None:
    run(tmp_path, JsonlWriter(str(tmp_path / "out")), ExactDuplicates())
    kept = [prove_row(str(tmp_path / "out"), f"a{row}") for row in (1, 10, 19)]
    assert sorted(proof.outcome for proof in kept) == ["dropped", "dropped", "kept"]
    assert {proof.stage for proof in kept} == {"", "exact_duplicates"}
    assert all(proof.holds for proof in kept)
    assert prove_row(str(tmp_path / "out"), "a0").stage == "word_count"


def test_a_row_that_is_nowhere_is_named_in_one_sentence(tmp_path: Path) -> None:
    run(tmp_path, JsonlWriter(str(tmp_path / "out")), rejected=False)
    for row in ("c3", "nowhere", "a.jsonl:3"):
        with pytest.raises(PipelineError, match=rf"row '{row}' is not in .*the run kept no dropped rows"):
            prove_row(str(tmp_path / "out"), row)
