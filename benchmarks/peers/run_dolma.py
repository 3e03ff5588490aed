"""dolma's nearest rules on the files that dcurate reads: its Gopher tagger, then its mixer. In its own environment.

``python run_dolma.py INPUT OUTPUT WORKERS``, or ``--about`` for versions and rules; answers in one line of JSON.
The mixer drops by the thresholds of Gopher (table A1) what the tagger has scored; it writes gzip only.
"""

from __future__ import annotations

import gzip
import json
import platform
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

TAGGER = "gopher_v1"

#: Scores of the tagger, and what a document is dropped for.
DROPPED = (
    ("word_count", "<", 50),
    ("word_count", ">", 100_000),
    ("median_word_length", "<", 3),
    ("median_word_length", ">", 10),
    ("symbol_to_word_ratio", ">", 0.1),
    ("fraction_of_words_with_alpha_character", "<", 0.8),
    ("required_word_count", "<", 2),
    ("fraction_of_lines_starting_with_bullet_point", ">", 0.9),
    ("fraction_of_lines_ending_with_ellipsis", ">", 0.3),
    ("fraction_of_duplicate_lines", ">", 0.3),
    ("fraction_of_characters_in_duplicate_lines", ">", 0.2),
    ("fraction_of_characters_in_most_common_2grams", ">", 0.2),
    ("fraction_of_characters_in_most_common_3grams", ">", 0.18),
    ("fraction_of_characters_in_most_common_4grams", ">", 0.16),
    ("fraction_of_characters_in_duplicate_5grams", ">", 0.15),
    ("fraction_of_characters_in_duplicate_6grams", ">", 0.14),
    ("fraction_of_characters_in_duplicate_7grams", ">", 0.13),
    ("fraction_of_characters_in_duplicate_8grams", ">", 0.12),
    ("fraction_of_characters_in_duplicate_9grams", ">", 0.11),
    ("fraction_of_characters_in_duplicate_10grams", ">", 0.10),
)


def about() -> dict[str, object]:
    found = {"python": platform.python_version(), **{name: version(name) for name in ("dolma", "numpy", "nltk")}}
    return {"rules": [f"{score} {sign} {bound}" for score, sign, bound in DROPPED], "versions": found}


def curate(source: str, output: str, workers: int) -> dict[str, int]:
    folder = Path(output).absolute()
    documents, kept = folder / "documents", folder / "kept"
    documents.mkdir(parents=True)
    kept.mkdir()
    for path in Path(source).absolute().glob("*.jsonl"):
        (documents / path.name).symlink_to(path)
    dolma = [str(Path(sys.executable).with_name("dolma"))]
    tag = ["tag", "--documents", f"{documents}/*.jsonl", "--taggers", TAGGER, "--experiment", TAGGER]
    _run([*dolma, *tag, "--processes", str(workers)])
    config = folder / "mix.json"
    config.write_text(json.dumps(mix(documents, kept, workers)))
    _run([*dolma, "--config", str(config), "mix"])
    return {"documents_in": _lines(documents.iterdir()), "documents_out": _lines(kept.iterdir())}


def mix(documents: Path, kept: Path, workers: int) -> dict[str, object]:
    """The mixer's settings."""
    exclude = [f"$.attributes[?(@.{TAGGER}__{TAGGER}__{score}[0][2] {sign} {bound})]" for score, sign, bound in DROPPED]
    stream = {
        "name": "kept",
        "documents": [f"{documents}/*.jsonl"],
        "output": {"path": str(kept), "max_size_in_bytes": 10**10},
        "attributes": [TAGGER],
        "filter": {"exclude": exclude},
    }
    return {"streams": [stream], "processes": workers}


def _run(command: list[str]) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(f"{' '.join(command[:3])} failed: {ended.stderr[-2000:]}")


def _lines(paths: Iterable[Path]) -> int:
    return sum(_content(path).count(b"\n") for path in paths)


def _content(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


if __name__ == "__main__":
    answer = about() if sys.argv[1] == "--about" else curate(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    print(json.dumps(answer))
