"""Corpora with URLs, and lists of what is to go."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from dcurate import InlineExecutor, JsonlReader, Pipeline
from dcurate.core.stage import Stage
from dcurate.optouts.listing import read_list
from dcurate.optouts.remove import OptOutRemoval
from dcurate_testing.token_files import train_bpe


def rows_of(count: int, hosts: int = 5) -> list[dict[str, Any]]:
    """Documents of different lengths, on a few hosts."""
    return [
        {
            "id": f"d{n}",
            "url": f"https://site{n % hosts}.example.com/p{n}",
            "text": f"words of document {n} " * (n % 7 + 1),
        }
        for n in range(count)
    ]


def write(folder: Path, rows: Sequence[Mapping[str, Any]], files: int = 3) -> Path:
    """Write rows to files of JSON Lines; which file a row is in follows from its id, not from the other rows."""
    folder.mkdir(parents=True)
    for file in range(files):
        lines = [json.dumps(row) for row in rows if sum(str(row["id"]).encode()) % files == file]
        (folder / f"{file}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return folder


def run(source: Path, *stages: Stage, **how: Any) -> Any:
    """Run stages on the rows of a folder."""
    return Pipeline("corpus", stages=[JsonlReader(str(source)), *stages]).run(InlineExecutor(), observers=[], **how)


def remove(listed: Path, *outputs: Path, **how: Any) -> dict[str, Any]:
    """Take the documents of a list out of outputs; return the receipt."""
    near = how.pop("near", None)
    wanted = read_list(str(listed), how.pop("lines", None), how.pop("compared", None), texts=near is not None)
    with OptOutRemoval(wanted, list(map(str, outputs)), how.pop("reason", ""), near) as removal:
        removal.lock()
        removal.find()
        removal.commit(in_this_process)
        return removal.receipt()


def in_this_process(stages: list[Stage]) -> None:
    """Run stages."""
    Pipeline("drop", stages=stages).run(InlineExecutor(), observers=[])


def data(folder: Path) -> dict[str, bytes]:
    """The files of an output."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def lines_of(folder: Path) -> list[bytes]:
    """All lines of the files of an output."""
    return [line for content in data(folder).values() for line in content.splitlines()]


def list_of(path: Path, *rows: Mapping[str, Any]) -> Path:
    """A list as JSON Lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A BPE of bytes with an EOS."""
    texts = [row["text"] for row in rows_of(50)]
    return train_bpe(Path(tmp_path_factory.mktemp("tokenizer")) / "tokenizer.json", texts)
