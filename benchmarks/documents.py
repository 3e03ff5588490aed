"""PDFs to text: words, order, headers, tables and pages a second, beside other tools, on files whose text is known.

``python -m benchmarks.documents --input DIR [--peers-python PATH] [--json FILE]``: see README.md. Scores are defined in
`benchmarks.documents_scores`. In the JSON, ``real`` and ``made`` have the figures of each tool, ``dcurate_ocr`` being
dcurate with OCR on; ``poison`` those of `benchmarks.documents_poison`. A part that DIR has not got is left out.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import importlib.util
import json
import random
import resource
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pypdfium2 import PdfiumError

from benchmarks.documents_scores import auc, cells, lines_left_out, order, tau, tokens, word_f1
from benchmarks.measure import called, machine, save, table, versions
from benchmarks.rows import all_rows
from dcurate.documents.pdf import PdfError, extract_pdf

PEERS = Path(__file__).parent / "peers" / "pdf_texts.py"
#: Tools that read a sample of the files: they take seconds for a page.
SLOW = frozenset(("pymupdf4llm", "pdfminer", "markitdown", "docling_parse"))
TOOLS = ("pypdfium2", "pymupdf", "pymupdf4llm", "pdfminer", "pdf_oxide", "kreuzberg", "markitdown", "docling_parse")
#: Seconds that another tool may take over a part of the data.
_PEER_S = 1800
#: What its authors publish of docling's whole pipeline, on a CPU; its models are downloaded, so it is not run here.
#: Text only, as the other tools give it: with what is outside of the crop box, as the truth has it, and without fields.
_PLAIN = {"markdown": False, "links": False, "crop": False, "forms": False}
PUBLISHED = {"docling": {"pages_per_s": [0.6, 0.9]}}


def documents(source: Path, part: str, scratch: Path) -> list[dict[str, Any]]:
    """The rows of the truth whose files are there, each with the path of its file; none if there is no such part."""
    archive, truth = source / f"{part}.tar", source / f"{part}-truth.jsonl.zst"
    if not (archive.exists() and truth.exists()):
        return []
    with tarfile.open(archive) as opened:
        opened.extractall(scratch / part, filter="data")
    rows = [{**row, "path": str(scratch / part / row["file"])} for row in all_rows(truth) if row.get("file")]
    return [row for row in rows if Path(row["path"]).is_file()]


def pages_of(row: Mapping[str, Any], answer: Mapping[str, Any]) -> int:
    """The pages of a document, as its truth says, or dcurate if that does not."""
    pages = row.get("pages")
    known = row.get("n_pages") or (len(pages) if isinstance(pages, list) else pages)
    return int(known or len(answer.get("pages") or ()) or 1)


def truth_of(row: Mapping[str, Any]) -> str | None:
    return row.get("truth_text") or row.get("text")


def sampled(rows: Sequence[Mapping[str, Any]], pages: Sequence[int], most: int) -> list[int]:
    """Files of at most that number of pages together, in an order of their own that is always the same."""
    order = list(range(len(rows)))
    random.Random(1).shuffle(order)
    chosen: list[int] = []
    for at in sorted(order, key=lambda at: truth_of(rows[at]) is None):
        if not chosen or sum(pages[other] for other in chosen) + pages[at] <= most:
            chosen.append(at)
    return sorted(chosen)


def of_dcurate(rows: Sequence[Mapping[str, Any]], repeat: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Each file's extraction, and the least CPU-seconds that it took; and the same of a bare loop over pypdfium2.

    Both take turns over each file, so that what else the machine does costs them the same.
    """
    spec = importlib.util.spec_from_file_location("pdf_texts", PEERS)
    assert spec is not None
    assert spec.loader is not None
    peers = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(peers)
    bare = peers.pypdfium2()
    files = [(Path(row["path"]).read_bytes(), row.get("password")) for row in rows]
    with suppress(PdfError):
        _extracted(*files[0])
    # As a long-lived child process does once its libraries are loaded: the collector need not look at them again.
    gc.collect()
    gc.freeze()
    both: tuple[list[dict[str, Any]], list[dict[str, Any]]] = [], []
    for number in range(repeat):
        for at, (data, password) in enumerate(files):
            for answers, extract in zip(both, (_extracted, bare), strict=True):
                began = time.process_time()
                try:
                    found = extract(data, password)
                except (PdfError, PdfiumError) as error:
                    found = {"text": "", "error": str(error), "pages": [], "headers_footers": []}
                seconds = time.process_time() - began
                if not number:
                    answers.append({**(found if isinstance(found, dict) else {"text": found}), "cpu_s": seconds})
                answers[at]["cpu_s"] = min(answers[at]["cpu_s"], seconds)
    return both


def _extracted(data: bytes, password: str | None) -> dict[str, Any]:
    return extract_pdf(data, {**_PLAIN, "password": password})


def of_peer(python: str, tool: str, rows: Sequence[Mapping[str, Any]], repeat: int) -> list[dict[str, Any]] | None:
    """The same of another tool; None if that Python has not got it."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as listed:
        json.dump([{"path": row["path"], "password": row.get("password")} for row in rows], listed)
        listed.flush()
        try:
            found = subprocess.run(
                [python, str(PEERS), tool, listed.name, str(repeat)],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                check=False,
                text=True,
                timeout=_PEER_S,
            )
        except subprocess.TimeoutExpired:
            print(f"{tool} took more than {_PEER_S} s; left out", file=sys.stderr)
            return None
    answers = [json.loads(line) for line in found.stdout.splitlines() if line.startswith("{")]
    return answers[: len(rows)] if len(answers) > len(rows) else None


def scored(
    rows: Sequence[Mapping[str, Any]], answers: Sequence[Mapping[str, Any]], pages: Sequence[int]
) -> dict[str, Any]:
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
            group[row.get(name) or "unknown"].append(score)
        if isinstance(row.get("pages"), list):
            body = [
                block["text"]
                for page in row["pages"]
                for block in page.get("blocks", ())
                if block["type"] not in {"header", "footer"}
            ]
            if (value := tau(body, found)) is not None:
                taus.append(value)
    seconds = sum(answer["cpu_s"] for answer in answers)
    return {
        **_means(scores),
        **({"tau": statistics.mean(taus)} if taus else {}),
        "pages_per_cpu_s": sum(pages) / seconds if seconds else None,
        "errors": sum("error" in answer for answer in answers),
        **{name: {key: _means(group[key]) for key in sorted(group)} for name, group in groups.items()},
    }


def _means(scores: Sequence[tuple[float, float]]) -> dict[str, Any]:
    if not scores:
        return {"word_f1": None, "order": None, "files": 0}
    words, orders = zip(*scores, strict=True)
    return {"word_f1": statistics.mean(words), "order": statistics.mean(orders), "files": len(scores)}


def structure(rows: Sequence[Mapping[str, Any]], answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Headers, footers and tables of the made documents."""
    left_out, ruled, aligned = ([0, 0, 0] for _ in range(3))
    for row, answer in zip(rows, answers, strict=True):
        if isinstance(row.get("pages"), list) and not row.get("needs_ocr") and not row.get("needs_ocr_pages"):
            _add(left_out, lines_left_out(row.get("headers_footers") or (), answer["headers_footers"]))
            _add(aligned if row.get("kind") == "table_plain" else ruled, cells(row, answer))
    return {
        "header_footer_precision": _share(left_out[0], left_out[2]),
        "header_footer_recall": _share(left_out[0], left_out[1]),
        "cell_f1_ruled": _share(2 * ruled[0], ruled[1] + ruled[2]),
        "cell_f1_aligned": _share(2 * aligned[0], aligned[1] + aligned[2]),
    }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _add(totals: list[int], counts: tuple[int, int, int]) -> None:
    for at, count in enumerate(counts):
        totals[at] += count


def router(source: Path) -> dict[str, Any]:
    """How well pages that need OCR are separated from others: the area under the curve, and the same by reason."""
    decide = importlib.import_module("dcurate.documents.router").decide
    scores: list[tuple[float, bool]] = []
    with tempfile.TemporaryDirectory() as folder:
        for row in documents(source, "made", Path(folder)):
            try:
                found = extract_pdf(Path(row["path"]).read_bytes(), {**_PLAIN, "password": row.get("password")})
            except PdfError:
                continue
            for number, page in enumerate(found["pages"]):
                needs = bool(row.get("needs_ocr")) or number in row.get("needs_ocr_pages", ())
                known = row["pages"] if isinstance(row.get("pages"), list) else ()
                if needs or (number < len(known) and known[number].get("words")):
                    scores.append((decide(page, page["text"]).need, needs))
    good, bad = ([score for score, needs in scores if needs is wanted] for wanted in (False, True))
    return {"auc": auc(bad, good), "pages": len(scores), "need_ocr": len(bad)}


def measure(source: Path, part: str, python: str, tools: Sequence[str], repeat: int, slow_pages: int) -> dict[str, Any]:
    """A part of the data through dcurate and the other tools; nothing if there is no such part."""
    with tempfile.TemporaryDirectory() as folder:
        rows = documents(source, part, Path(folder))
        if not rows:
            return {}
        answers, bare = of_dcurate(rows, repeat)
        pages = [pages_of(row, answer) for row, answer in zip(rows, answers, strict=True)]
        results: dict[str, Any] = {"dcurate": scored(rows, answers, pages)}
        if part == "made":
            results["dcurate"].update(structure(rows, answers))
        for tool in tools:
            chosen = sampled(rows, pages, slow_pages) if tool in SLOW else list(range(len(rows)))
            read, counts = [rows[at] for at in chosen], [pages[at] for at in chosen]
            print(f"{part}: {tool}, {len(read)} files, {sum(counts):,} pages", file=sys.stderr)
            found = bare if tool == "pypdfium2" else of_peer(python, tool, read, repeat)
            if found is not None:
                results[tool] = scored(read, found, counts)
                if len(read) < len(rows):
                    own = scored(read, [answers[at] for at in chosen], counts)
                    names = ("word_f1", "order", "pages_per_cpu_s")
                    results[tool]["sample"] = {
                        "files": len(read),
                        "pages": sum(counts),
                        "dcurate": {name: own[name] for name in names},
                    }
    return results


def optional(module: str) -> Callable[..., Any] | None:
    """``run`` of another module of benchmarks, if there is one."""
    if importlib.util.find_spec(f"benchmarks.{module}") is None:
        return None
    found: Callable[..., Any] = importlib.import_module(f"benchmarks.{module}").run
    return found


def show(part: str, results: Mapping[str, Any]) -> None:
    header = ["tool", "word F1", "order", "tau", "errors", "pages/CPU-s", "files with text"]
    rows = [
        [
            name,
            _figure(each["word_f1"], 4),
            _figure(each["order"], 4),
            _figure(each.get("tau"), 3),
            each["errors"],
            _figure(each["pages_per_cpu_s"], 1),
            each["files"],
        ]
        for name, each in results.items()
    ]
    print(f"{part}: means over files with text\n\n{table(header, rows)}\n")
    for name, each in results.items():
        if "sample" in each:
            own = each["sample"]["dcurate"]
            figures = _figure(own["word_f1"], 4), _figure(own["order"], 4), _figure(own["pages_per_cpu_s"], 1)
            read = f"{each['sample']['files']} files, {each['sample']['pages']:,} pages"
            print(f"{name} read a sample: {read}; dcurate on it: {' '.join(map(str, figures))}")
    for group in ("kind", "lang"):
        names = list(results)
        values = [[key, *(_pair(results[name][group].get(key)) for name in names)] for key in results["dcurate"][group]]
        print(f"\n{part} by {group}: word F1/order\n\n{table([group, *names], values)}\n")
    own = results["dcurate"]
    for key in ("header_footer_precision", "header_footer_recall", "cell_f1_ruled", "cell_f1_aligned"):
        if own.get(key) is not None:
            print(f"{key}: {own[key]:.4f}")
    print()


def _figure(value: float | None, places: int) -> str | None:
    return None if value is None else f"{value:.{places}f}"


def _pair(scores: Mapping[str, Any] | None) -> str | None:
    return f"{scores['word_f1']:.3f}/{scores['order']:.3f}" if scores else None


def with_ocr(source: Path, made: dict[str, Any]) -> dict[str, Any] | None:
    """Run the made documents with OCR on, among the figures of the tools; return what the pages say besides."""
    run = optional("documents_ocr")
    found = run(source) if run and (source / "made.tar").exists() else None
    if found and "made" in found:
        made["dcurate_ocr"] = found.pop("made")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", type=Path, required=True, help="folder with real.tar, made.tar and their truth")
    parser.add_argument("--peers-python", default=sys.executable, help="Python that has the other tools")
    parser.add_argument("--reuse", type=Path, nargs="*", help="JSON of earlier runs: figures of tools not run now")
    parser.add_argument("--tools", default=",".join(TOOLS), help="other tools to run, with commas")
    parser.add_argument("--parts", default="real,made,ocr,poison", help="parts to run, with commas")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each; the least time of each file counts")
    parser.add_argument(
        "--slow-pages", type=int, default=300, help=f"pages that slow tools read ({', '.join(sorted(SLOW))})"
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    given = parser.parse_args(arguments)
    before = machine()
    parts, tools = given.parts.split(","), [tool for tool in given.tools.split(",") if tool]
    figures: dict[str, Any] = {}
    for part in ("real", "made"):
        if part in parts:
            figures[part] = measure(given.input, part, given.peers_python, tools, given.repeat, given.slow_pages)
        if part == "made" and "ocr" in parts and (said := with_ocr(given.input, figures.setdefault("made", {}))):
            figures["ocr"] = said
        if not figures.get(part):
            continue
        for earlier in given.reuse or ():
            older = json.loads(earlier.read_text()).get(part, {})
            figures[part].update({tool: older[tool] for tool in TOOLS if tool in older and tool not in figures[part]})
        if "dcurate" in figures[part]:
            show(part, figures[part])
    if figures.get("made") and importlib.util.find_spec("dcurate.documents.router"):
        figures["router"] = router(given.input)
        print(f"router: {json.dumps(figures['router'])}\n")
    if "ocr" in figures:
        print(f"with OCR: {json.dumps(figures['ocr'])}\n")
    run = optional("documents_poison")
    if "poison" in parts and run and (given.input / "poison.tar.zst").exists():
        figures["poison"] = run(given.input)
        print(f"poison: {json.dumps(figures['poison'])}\n")
    figures.update(published=PUBLISHED, machine=before, versions=versions("dcurate", "pypdfium2"))
    figures["peak_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    save(given.json, figures)


if __name__ == "__main__":
    called(main)
