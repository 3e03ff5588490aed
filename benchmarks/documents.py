"""PDFs to text: words, order, headers, tables and pages a second, beside other tools, on files whose text is known.

``python -m benchmarks.documents --input DIR [--peers-python PATH] [--json FILE]``: see README.md. Scores are defined in
`benchmarks.documents_scores`.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import importlib.util
import json
import resource
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.documents_scores import cells, lines_left_out, order, tau, tokens, word_f1
from benchmarks.measure import called, machine, save, table, versions
from benchmarks.rows import all_rows
from dcurate.documents.pdf import MediaError, extract_pdf

PEERS = Path(__file__).parent / "peers" / "pdf_texts.py"
TOOLS = ("pypdfium2", "pymupdf", "pymupdf4llm", "pdfminer", "pdf_oxide", "kreuzberg", "markitdown", "docling_parse")
#: What its authors publish of docling's whole pipeline, on a CPU; its models are downloaded, so it is not run here.
#: Text only, as the other tools give it.
_PLAIN = {"markdown": False, "links": False}
PUBLISHED = {"docling": {"pages_per_s": [0.6, 0.9]}}


def documents(source: Path, part: str, scratch: Path) -> list[dict[str, Any]]:
    """The rows of the truth, each with the path of its file."""
    with tarfile.open(source / f"{part}.tar") as archive:
        archive.extractall(scratch / part, filter="data")
    rows = list(all_rows(source / f"{part}-truth.jsonl.zst"))
    return [{**row, "path": str(scratch / part / row["file"])} for row in rows]


def pages_of(row: Mapping[str, Any]) -> int:
    return int(row.get("n_pages") or row["pages"])


def truth_of(row: Mapping[str, Any]) -> str | None:
    return row["truth_text"] if "truth_text" in row else row["text"]


def of_dcurate(rows: Sequence[Mapping[str, Any]], repeat: int) -> list[dict[str, Any]]:
    """Each file's extraction, and the least CPU-seconds that it took."""
    files = [(Path(row["path"]).read_bytes(), {**_PLAIN, "password": row.get("password")}) for row in rows]
    extract_pdf(*files[0])
    # As a long-lived child process does once its libraries are loaded: the collector need not look at them again.
    gc.collect()
    gc.freeze()
    answers: list[dict[str, Any]] = []
    for number in range(repeat):
        for at, (data, options) in enumerate(files):
            began = time.process_time()
            try:
                answer = extract_pdf(data, options)
            except MediaError as error:
                answer = {"text": "", "error": str(error), "pages": [], "headers_footers": []}
            seconds = time.process_time() - began
            if not number:
                answers.append({**answer, "cpu_s": seconds})
            answers[at]["cpu_s"] = min(answers[at]["cpu_s"], seconds)
    return answers


def of_peer(python: str, tool: str, rows: Sequence[Mapping[str, Any]], repeat: int) -> list[dict[str, Any]] | None:
    """The same of another tool; None if that Python has not got it."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as listed:
        json.dump([{"path": row["path"], "password": row.get("password")} for row in rows], listed)
        listed.flush()
        found = subprocess.run(
            [python, str(PEERS), tool, listed.name, str(repeat)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
            text=True,
        )
    answers = [json.loads(line) for line in found.stdout.splitlines() if line.startswith("{")]
    return answers[: len(rows)] if len(answers) > len(rows) else None


def scored(rows: Sequence[Mapping[str, Any]], answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Scores of a tool: means over files, and the same by language and by kind."""
    groups: dict[str, dict[str, list[tuple[float, float]]]] = {"lang": defaultdict(list), "kind": defaultdict(list)}
    scores, taus = [], []
    for row, answer in zip(rows, answers, strict=True):
        truth = truth_of(row)
        if not truth:
            continue
        wanted, found = tokens(truth), tokens(answer["text"])
        score = word_f1(wanted, found), order(wanted, found)
        scores.append(score)
        for name, group in groups.items():
            group[row[name]].append(score)
        if isinstance(row["pages"], list):
            body = [
                block["text"]
                for page in row["pages"]
                for block in page["blocks"]
                if block["type"] not in {"header", "footer"}
            ]
            if (value := tau(body, found)) is not None:
                taus.append(value)
    seconds = sum(answer["cpu_s"] for answer in answers)
    return {
        **_means(scores),
        **({"tau": statistics.mean(taus)} if taus else {}),
        "pages_per_cpu_s": sum(map(pages_of, rows)) / seconds,
        "errors": sum("error" in answer for answer in answers),
        **{name: {key: _means(group[key]) for key in sorted(group)} for name, group in groups.items()},
    }


def _means(scores: Sequence[tuple[float, float]]) -> dict[str, Any]:
    words, orders = zip(*scores, strict=True)
    return {"word_f1": statistics.mean(words), "order": statistics.mean(orders), "files": len(scores)}


def structure(rows: Sequence[Mapping[str, Any]], answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Headers, footers and tables of the made documents."""
    left_out, ruled, aligned = ([0, 0, 0] for _ in range(3))
    for row, answer in zip(rows, answers, strict=True):
        if not row.get("needs_ocr") and not row.get("needs_ocr_pages"):
            _add(left_out, lines_left_out(row["headers_footers"], answer["headers_footers"]))
            _add(aligned if row["kind"] == "table_plain" else ruled, cells(row, answer))
    return {
        "header_footer_precision": left_out[0] / max(1, left_out[2]),
        "header_footer_recall": left_out[0] / max(1, left_out[1]),
        "cell_f1_ruled": 2 * ruled[0] / max(1, ruled[1] + ruled[2]),
        "cell_f1_aligned": 2 * aligned[0] / max(1, aligned[1] + aligned[2]),
    }


def _add(totals: list[int], counts: tuple[int, int, int]) -> None:
    for at, count in enumerate(counts):
        totals[at] += count


def router(source: Path) -> dict[str, Any]:
    """How well pages that need OCR are separated from others: the area under the curve, and the same by reason."""
    decide = importlib.import_module("dcurate.documents.router").decide
    scores: list[tuple[float, bool]] = []
    with tempfile.TemporaryDirectory() as folder:
        for row in documents(source, "made", Path(folder)):
            found = extract_pdf(Path(row["path"]).read_bytes(), {**_PLAIN, "password": row.get("password")})
            for number, page in enumerate(found["pages"]):
                needs = bool(row.get("needs_ocr")) or number in row.get("needs_ocr_pages", ())
                if needs or row["pages"][number]["words"]:
                    scores.append((decide(page, page["text"]).need, needs))
    good, bad = ([score for score, needs in scores if needs is wanted] for wanted in (False, True))
    pairs = sum((b > g) + 0.5 * (b == g) for b in bad for g in good)
    return {"auc": pairs / max(1, len(good) * len(bad)), "pages": len(scores), "need_ocr": len(bad)}


def measure(source: Path, part: str, python: str | None, tools: Sequence[str], repeat: int) -> dict[str, Any]:
    """A part of the data through dcurate and the other tools."""
    with tempfile.TemporaryDirectory() as folder:
        rows = documents(source, part, Path(folder))
        answers = of_dcurate(rows, repeat)
        results: dict[str, Any] = {"dcurate": scored(rows, answers)}
        if part == "made":
            results["dcurate"].update(structure(rows, answers))
        for tool in tools:
            runner = sys.executable if tool == "pypdfium2" else python
            found = of_peer(runner, tool, rows, repeat) if runner else None
            if found is not None:
                results[tool] = scored(rows, found)
    return results


def optional(module: str) -> Callable[..., Any] | None:
    """``run`` of another module of benchmarks, if there is one."""
    if importlib.util.find_spec(f"benchmarks.{module}") is None:
        return None
    found: Callable[..., Any] = importlib.import_module(f"benchmarks.{module}").run
    return found


def show(part: str, results: Mapping[str, Any]) -> None:
    header = ["tool", "word F1", "order", "tau", "errors", "pages/CPU-s"]
    rows = [
        [
            name,
            f"{each['word_f1']:.4f}",
            f"{each['order']:.4f}",
            f"{each['tau']:.3f}" if "tau" in each else None,
            each["errors"],
            f"{each['pages_per_cpu_s']:.1f}",
        ]
        for name, each in results.items()
    ]
    print(f"{part}: means over {results['dcurate']['files']} files with text\n\n{table(header, rows)}\n")
    for group in ("kind", "lang"):
        names = list(results)
        values = [
            [
                key,
                *(
                    f"{results[name][group][key]['word_f1']:.3f}/{results[name][group][key]['order']:.3f}"
                    for name in names
                ),
            ]
            for key in results["dcurate"][group]
        ]
        print(f"{part} by {group}: word F1/order\n\n{table([group, *names], values)}\n")
    own = results["dcurate"]
    for key in ("header_footer_precision", "header_footer_recall", "cell_f1_ruled", "cell_f1_aligned"):
        if key in own:
            print(f"{key}: {own[key]:.4f}")
    print()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", type=Path, required=True, help="folder with real.tar, made.tar and their truth")
    parser.add_argument("--peers-python", help="Python that has the other tools")
    parser.add_argument("--reuse", type=Path, nargs="*", help="JSON of earlier runs: figures of tools not run now")
    parser.add_argument("--tools", default=",".join(TOOLS), help="other tools to run, with commas")
    parser.add_argument("--parts", default="real,made,poison,ocr", help="parts to run, with commas")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each; the least time of each file counts")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    given = parser.parse_args(arguments)
    before = machine()
    parts, tools = given.parts.split(","), [tool for tool in given.tools.split(",") if tool]
    figures: dict[str, Any] = {}
    for part in ("real", "made"):
        if part in parts:
            figures[part] = measure(given.input, part, given.peers_python, tools, given.repeat)
            for earlier in given.reuse or ():
                older = json.loads(earlier.read_text()).get(part, {})
                figures[part].update(
                    {tool: older[tool] for tool in TOOLS if tool in older and tool not in figures[part]}
                )
            show(part, figures[part])
    if "made" in parts and importlib.util.find_spec("dcurate.documents.router"):
        figures["router"] = router(given.input)
        print(f"router: {json.dumps(figures['router'])}\n")
    for part, module in (("poison", "documents_poison"), ("ocr", "documents_ocr")):
        if part in parts and (run := optional(module)):
            figures[part] = run(given.input)
            print(f"{part}: {json.dumps(figures[part])}\n")
    figures.update(published=PUBLISHED, machine=before, versions=versions("dcurate", "pypdfium2"))
    figures["peak_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    save(given.json, figures)


if __name__ == "__main__":
    called(main)
