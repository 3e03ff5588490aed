"""How much of personal data is found, how much that is none, and how fast; beside regexes and other tools.

    python -m benchmarks.pii --input /data/part-00.jsonl.zst --peer-python /peers/bin/python --json pii.json

Cases are made from a seed by `benchmarks.pii_cases`, which needs ``phonenumbers``, and put into prose of the input.
MB are 10**6 bytes of UTF-8; seconds are CPU seconds of the process.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.measure import ROOT, called, machine, save, table, versions
from benchmarks.pii_cases import Case, negatives, positives
from benchmarks.rows import texts
from benchmarks.signals import speed
from dcurate import BatchKey, DocumentBatch, Modify
from dcurate.frames.text import character_places, text_column
from dcurate.kernels.pii.scan import KINDS, find_pii
from dcurate.text import PiiModifier

Spans = list[tuple[int, int, str]]

_PROSE = "The committee met again in the spring, and nothing was decided. Some of them had been there before. "
_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
#: The same kinds by plain patterns, much as they are written everywhere; numbers are checked below.
PATTERNS = {
    "EMAIL_ADDRESS": r"[\w.%+'-]+@(?:[\w-]+\.)+[A-Za-z]{2,24}",
    "PHONE_NUMBER": r"(?<![\w.])(?:\+\d{1,3}[-. ]?)?\(?\d{2,4}\)?(?:[-. ]\d{2,4}){2,4}(?!\w)|\+\d{8,15}",
    "IP_ADDRESS": rf"(?<![\w.])(?:{_OCTET}\.){{3}}{_OCTET}(?![\w.])"
    r"|(?<![\w:])(?:[0-9A-Fa-f]{1,4}:){2,7}[:0-9A-Fa-f]+",
    "CREDIT_CARD": r"(?<!\d)(?:\d[ -]?){12,18}\d(?!\d)",
    "IBAN_CODE": r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b",
    "US_SSN": r"\b\d{3}-\d{2}-\d{4}\b",
    "SECRET": r"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b|\bgh[pousr]_\w{36}|\bxox[abprs]-[\w-]{24,}|\bAIza[\w-]{35}"
    r"|\bsk_live_\w{16,}|\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----",
}
_COMPILED = {kind: re.compile(pattern) for kind, pattern in PATTERNS.items()}


class PiiProse(NamedTuple):
    """Prose with a case in it, which takes the characters from ``start`` to ``stop``, its value those of ``value``."""

    text: str
    case: Case
    start: int
    stop: int
    value: tuple[int, int]


def documents(cases: Sequence[Case], prose: Sequence[str], draw: random.Random) -> list[PiiProse]:
    """Each case between two stretches of prose."""
    made = []
    for case in cases:
        source = draw.choice(prose)
        at = draw.randrange(max(len(source) - 600, 1))
        before, after = source[at : at + 300].rsplit(" ", 1)[0] + " ", " " + source[at + 300 : at + 600]
        start = len(before)
        value = start + len(case.before), start + len(case.before) + len(case.value)
        stop = value[1] + len(case.after)
        made.append(PiiProse(before + case.before + case.value + case.after + after, case, start, stop, value))
    return made


def prose_of(source: Path | None, megabytes: float) -> list[str]:
    """Long texts of the input; all of it as one where none is, and a text of our own where there is no input."""
    if source is None:
        return [_PROSE * 50]
    given = list(texts(source, megabytes))
    return [text for text in given if len(text) > 700] or [" ".join(given)]


def ours(given: Sequence[str]) -> list[Spans]:
    """What dcurate finds, as characters."""
    column = text_column(pa.table({"text": pa.array(given, pa.large_string())}), "text")
    spans = find_pii(*column, np.arange(len(column)))
    found = []
    for row in range(len(column)):
        places = character_places(column.data[column.offsets[row] : column.offsets[row + 1]].tobytes())
        mine = slice(spans.bounds[row], spans.bounds[row + 1])
        starts, stops = (
            np.searchsorted(places, edges[mine] - column.offsets[row]).tolist() for edges in (spans.starts, spans.stops)
        )
        found.append([(a, b, KINDS[kind]) for a, b, kind in zip(starts, stops, spans.kinds[mine], strict=True)])
    return found


def _luhn(text: str) -> bool:
    digits = [int(character) for character in text if character.isdigit()]
    return sum(sum(divmod(digit * (1 + place % 2), 10)) for place, digit in enumerate(reversed(digits))) % 10 == 0


def _iban(text: str) -> bool:
    plain = text.replace(" ", "")
    return int("".join(str(int(letter, 36)) for letter in plain[4:] + plain[:4])) % 97 == 1


def by_regex(text: str) -> Spans:
    """What plain patterns find, with the same checks of numbers."""
    checks = {"CREDIT_CARD": _luhn, "IBAN_CODE": _iban}
    return [
        (match.start(), match.end(), kind)
        for kind, pattern in _COMPILED.items()
        for match in pattern.finditer(text)
        if kind not in checks or checks[kind](match.group())
    ]


def scores(given: Sequence[PiiProse], found: Sequence[Spans]) -> dict[str, Any]:
    """Recall and precision by kind, recall by form, and finds by form of what is no personal data."""
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    forms: dict[str, Counter[str]] = defaultdict(Counter)
    wrong: dict[str, Counter[str]] = defaultdict(Counter)
    for document, spans in zip(given, found, strict=True):
        case, (first, last) = document.case, document.value
        inside = [span for span in spans if span[0] < document.stop and span[1] > document.start]
        right = [span for span in inside if span[2] == case.kind and span[0] < last and span[1] > first]
        for start, stop, kind in inside:
            kinds[kind]["finds"] += 1
            true = (start, stop, kind) in right
            kinds[kind]["true finds"] += true
            if not case.kind:
                wrong[case.form][kind] += 1
        if case.kind:
            masked = all(any(start <= at < stop for start, stop, _ in inside) for at in range(first, last))
            for counts in (kinds[case.kind], forms[f"{case.kind}: {case.form}"]):
                counts["cases"] += 1
                counts["found"] += bool(right)
                counts["exact"] += (first, last, case.kind) in right
                counts["masked"] += masked
        else:
            forms[f"none: {case.form}"]["cases"] += 1
    return {
        "kinds": {kind: _rates(kinds[kind]) for kind in [*KINDS, "UNCLAIMED"] if kinds[kind]},
        "forms": {form: _rates(counts) for form, counts in forms.items() if not form.startswith("none: ")},
        "false_finds": {form: dict(counts) for form, counts in wrong.items()},
        "negatives": sum(counts["cases"] for form, counts in forms.items() if form.startswith("none: ")),
    }


def _rates(counts: Counter[str]) -> dict[str, float | int | None]:
    cases, finds = counts["cases"], counts["finds"]
    rates: dict[str, float | int | None] = {"cases": cases}
    for name in ("found", "exact", "masked"):
        rates[name] = round(counts[name] / cases, 4) if cases else None
    if finds:
        rates["precision"] = round(counts["true finds"] / finds, 4)
    return rates


def _megabytes(given: Sequence[str]) -> float:
    return sum(len(text.encode()) for text in given) / 1e6


def per_megabyte(prose: Sequence[str], found: Sequence[Spans]) -> dict[str, float]:
    """Finds in a megabyte of the prose as it is, by kind: most are real ones, which nobody has labelled."""
    counts = Counter(kind for spans in found for _, _, kind in spans)
    return {kind: round(counts[kind] / _megabytes(prose), 3) for kind in KINDS}


def speeds(prose: Sequence[str], times: int) -> dict[str, float]:
    """MB a second of one core."""
    column = text_column(pa.table({"text": pa.array(prose, pa.large_string())}), "text")
    rows, size = np.arange(len(column)), int(column.offsets[-1])
    batch = DocumentBatch(key=BatchKey("pii"), data=pa.table({"text": pa.array(prose, pa.large_string())}))
    stage = Modify(PiiModifier(anonymize_action="replace"))
    stage.setup_on_node()
    sample = prose[: max(len(prose) // 20, 1)]
    return {
        "find": speed(lambda: find_pii(*column, rows), size, times),
        "find and replace": speed(lambda: stage.process(batch), size, times),
        "regexes": speed(lambda: [by_regex(text) for text in sample], int(_megabytes(sample) * 1e6), 1),
    }


def peer(python: Path, tool: str, given: Sequence[str], seconds: float) -> dict[str, Any] | None:
    """What another tool finds in as many texts as it takes in some seconds; None if it is not installed."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "texts.json"
        file.write_text(json.dumps(list(given)))
        script = ROOT / "benchmarks" / "peers" / "run_pii.py"
        ended = subprocess.run([python, script, tool, file, str(seconds)], capture_output=True, text=True, check=False)
    if ended.returncode:
        print(f"{tool}: not measured: {ended.stderr.strip().splitlines()[-1:]}")
        return None
    answer: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    answer["spans"] = [[tuple(span) for span in spans] for spans in answer["spans"]]
    return answer


def with_peers(python: Path | None, given: list[PiiProse], prose: list[str], seconds: float) -> dict[str, Any]:
    """The same figures for other tools, of those that are there."""
    figures: dict[str, Any] = {}
    for tool in ("datatrove", "presidio", "libphonenumber") if python and python.exists() else ():
        assert python is not None
        found = peer(python, tool, [document.text for document in given], 600)
        timed = peer(python, tool, prose, seconds) if found else None
        if found is None or timed is None:
            continue
        taken = prose[: len(timed["spans"])]
        figures[tool] = {
            "version": found["version"],
            **scores(given, found["spans"]),
            "mb_per_s": round(_megabytes(taken) / timed["cpu_s"], 3),
            "per_mb_of_prose": per_megabyte(taken, timed["spans"]),
        }
    return figures


def report(figures: dict[str, Any]) -> str:
    """The figures as text."""
    tools = {"dcurate": figures["dcurate"], "regexes": figures["regexes"], **figures["peers"]}
    lines = [figures["data"], ""]
    for tool, given in tools.items():
        rows = [
            [
                kind,
                *(
                    given["kinds"].get(kind, {}).get(name)
                    for name in ("cases", "found", "exact", "masked", "precision")
                ),
            ]
            for kind in given["kinds"]
        ]
        lines += [
            f"{tool} {given.get('version', '')}",
            table(["kind", "cases", "found", "exact", "masked", "precision"], rows),
            "",
        ]
    worst = sorted(figures["dcurate"]["forms"].items(), key=lambda item: item[1]["found"])[:12]
    lines += [
        "dcurate: the forms it finds least",
        table(
            ["form", "cases", "found", "masked"],
            [[form, rates["cases"], rates["found"], rates["masked"]] for form, rates in worst],
        ),
        "",
    ]
    wrong = figures["dcurate"]["false_finds"]
    lines += [
        f"dcurate: finds among {figures['dcurate']['negatives']:,} cases that are none: "
        + (", ".join(f"{form} {sum(kinds.values())}" for form, kinds in wrong.items()) or "none"),
        "",
    ]
    kinds = list(KINDS)
    lines += [
        "finds per MB of the prose as it is",
        table(
            ["tool", *kinds],
            [[tool, *(given["per_mb_of_prose"][kind] for kind in kinds)] for tool, given in tools.items()],
        ),
        "",
    ]
    lines += [table(["MB/s a core", ""], [[name, value] for name, value in figures["speeds"].items()])]
    return "\n".join(line.rstrip() for line in "\n".join(lines).splitlines())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", type=Path, help="prose: JSONL file, .zst or not, or a folder of them")
    parser.add_argument("--megabytes", type=float, default=16.0, help="of prose to read")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--each", type=int, default=200, help="cases of every form")
    parser.add_argument("--times", type=int, default=5, help="runs, of which the best counts")
    parser.add_argument("--peer-python", type=Path, help="Python that has datatrove, presidio-analyzer, phonenumbers")
    parser.add_argument("--peer-seconds", type=float, default=20.0, help="of prose for each of the other tools")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    draw = random.Random(options.seed)
    prose = prose_of(options.input, options.megabytes)
    cases = [*positives(draw, options.each), *negatives(draw, options.each)]
    given = documents(cases, prose, draw)
    start = time.process_time()
    found = ours([document.text for document in given])
    rivals = with_peers(options.peer_python, given, prose, options.peer_seconds)
    timed = speeds(prose, options.times)
    figures = {
        "data": f"{len(given):,} cases by seed {options.seed}, in {_megabytes(prose):.1f} MB of prose",
        "seed": options.seed,
        "dcurate": {**scores(given, found), "per_mb_of_prose": per_megabyte(prose, ours(prose))},
        "regexes": {
            **scores(given, [by_regex(document.text) for document in given]),
            "per_mb_of_prose": per_megabyte(
                prose[: len(prose) // 8 + 1], [by_regex(t) for t in prose[: len(prose) // 8 + 1]]
            ),
        },
        "peers": rivals,
        "speeds": {**timed, **{tool: rival["mb_per_s"] for tool, rival in rivals.items()}},
        "machine": machine(),
        "versions": versions("dcurate", "numba", "numpy", "phonenumbers"),
        "cpu_s": round(time.process_time() - start, 1),
    }
    print(report(figures))
    save(options.json, figures)


if __name__ == "__main__":
    called(main)
