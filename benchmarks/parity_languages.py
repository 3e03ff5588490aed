"""Does FineWeb-2's preset drop the documents that datatrove drops with the same thresholds, language by language?

    python -m benchmarks.parity_languages --input xquad.jsonl.zst --configs DIR --peer-python datatrove=VENV

DIR is the folder configs of huggingface/fineweb-2. Each document is judged by datatrove's filters with the word
tokenizer that it has assigned to the language, and by the preset; every one on which they differ is listed.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from benchmarks.filters import peer_python
from benchmarks.measure import ROOT, called, job, machine, save, scratch_folder, table
from benchmarks.parity import answer, compare, judged, show_one, written
from dcurate.fs.compression import ending_of, unpack
from dcurate.text.presets import fineweb2


class Language(NamedTuple):
    """What FineWeb-2 calls a language, and how the preset is to split its words."""

    code: str
    words: str


LANGUAGES = {
    "ar": Language("arb_Arab", "spacy:ar"),
    "de": Language("deu_Latn", "spacy:de"),
    "el": Language("ell_Grek", "spacy:el"),
    "es": Language("spa_Latn", "spacy:es"),
    "ro": Language("ron_Latn", "spacy:ro"),
    "ru": Language("rus_Cyrl", "spacy:ru"),
    "tr": Language("tur_Latn", "spacy:tr"),
    "vi": Language("vie_Latn", "spacy:vi"),
    "zh": Language("cmn_Hani", "spacy:zh"),
    "hi": Language("hin_Deva", "indic:hi"),
    "th": Language("tha_Thai", "pythainlp:th"),
}


def texts(files: Sequence[Path], language: str, joins: Sequence[int]) -> Iterator[str]:
    """The texts of a language, for each of the numbers so many in a row as one document."""
    rows = (
        orjson.loads(line)
        for file in files
        for line in unpack(file.read_bytes(), ending_of(str(file)), file.name).splitlines()
    )
    found = [row["text"] for row in rows if row["lang"] == language]
    for joined in joins:
        yield from ("\n".join(found[first : first + joined]) for first in range(0, len(found), joined))


def judge(language: str, config: str, source: str, target: str) -> dict[str, Any]:
    """What the preset says of each document, as `benchmarks.parity.judge` writes it."""
    return judged(fineweb2(config, LANGUAGES[language].words), source, target)


def run_one(language: str, options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """Both verdicts on the documents of a language."""
    source, ours, theirs = (scratch / f"{name}.jsonl" for name in ("texts", "ours", "theirs"))
    size = written(texts(options.input, language, options.join), source)
    code = LANGUAGES[language].code
    config = options.configs / f"{code}.yml"
    script = Path(__file__).parent / "peers" / "verdicts_datatrove.py"
    python = peer_python("datatrove", options.peer_python)
    peer = answer([python, script, f"fineweb2:{code}:{config}", source, theirs])
    paths = {"config": str(config), "source": str(source), "target": str(ours)}
    command = job("benchmarks.parity_languages:judge", language=language, **paths)
    mine = answer(command, {**os.environ, "PYTHONPATH": str(ROOT)})
    return compare(ours, theirs) | {
        "versions": peer["versions"],
        "mb": size,
        "dcurate_mb_per_cpu_s": size / mine["cpu_s"],
        "peer_mb_per_cpu_s": size / peer["cpu_s"],
        "times": peer["cpu_s"] / mine["cpu_s"],
    }


def show(figures: dict[str, Any]) -> None:
    """Print the figures for a person."""
    joined = ", ".join(map(str, figures["input"]["joined"]))
    print(f"\n{', '.join(figures['input']['files'])}; texts in a row as one document: {joined}")
    print(f"versions: {', '.join(f'{name} {number}' for name, number in figures['versions'].items())}\n")
    header = ["language", "words", "documents", "dropped", "by the peer", "verdicts differ"]
    header += ["MB per CPU-s", "the peer's", "times"]
    rows = [
        [
            *(LANGUAGES[language].code, LANGUAGES[language].words, one["documents"], one["dropped_by_dcurate"]),
            *(one["dropped_by_peer"], len(one["verdicts_that_differ"])),
            *(one["dcurate_mb_per_cpu_s"], one["peer_mb_per_cpu_s"], f"{one['times']:.1f}x"),
        ]
        for language, one in figures["languages"].items()
    ]
    print(table(header, rows))


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.parity_languages", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--input", required=True, nargs="+", type=Path, metavar="FILE", help="JSONL with text and lang (ISO 639-1)"
    )
    parser.add_argument("--configs", required=True, type=Path, metavar="DIR", help="the folder configs of FineWeb-2")
    parser.add_argument("--language", action="append", choices=list(LANGUAGES), help="this one only; repeatable")
    parser.add_argument(
        "--join", nargs="+", type=int, default=[1], metavar="N", help="so many texts in a row as one document"
    )
    parser.add_argument("--peer-python", action="append", default=[], metavar="datatrove=PATH", help="its environment")
    parser.add_argument("--scratch", metavar="DIR", help="where texts and verdicts go for a while")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    found = {}
    with scratch_folder("parity", options.scratch) as scratch:
        for language in options.language or LANGUAGES:
            found[language] = run_one(language, options, scratch)
            show_one(f"fineweb2 {language}", found[language])
    versions = next(iter(found.values()))["versions"]
    files = [path.name for path in options.input]
    figures = {"input": {"files": files, "joined": options.join}, "languages": found, "versions": versions}
    show(figures)
    save(options.json, {**figures, "machine": machine()})


if __name__ == "__main__":
    called(main)
