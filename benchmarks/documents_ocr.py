"""The made documents with OCR on, and how well pages find their way; `benchmarks.documents` runs it.

    python -m benchmarks.documents_ocr DIR [KIND ...]

DIR is laid out as `../shared/data/pdf`. Needs the models of `rapidocr`: pip install --no-deps rapidocr
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.documents import documents, pages_of, scored
from benchmarks.documents_scores import auc
from dcurate import ResourceError
from dcurate.documents.ocr.pages import OcrPages
from dcurate.documents.pdf import PdfError, extract_pdf
from dcurate.media.ocr.files import model_files


def run(source: Path, kinds: Sequence[str] = ()) -> dict[str, Any]:
    """Word F1 and order with OCR on, and the router's AUC and mistakes over pages.

    Args:
        source: the folder with the made set.
        kinds: those to run; all if empty.
    """
    try:
        model_files()
    except ResourceError as error:
        return {"error": str(error)}
    answers: list[dict[str, Any]] = []
    needs: list[tuple[bool, float, bool]] = []
    with tempfile.TemporaryDirectory() as folder:
        rows = [row for row in documents(source, "made", Path(folder)) if not kinds or row["kind"] in kinds]
        for row in rows:
            options = {"password": row["password"]} if row.get("password") else {}
            began = time.process_time()
            try:
                found = extract_pdf(Path(row["path"]).read_bytes(), options, OcrPages())
            except PdfError as error:
                found = {"text": "", "error": str(error), "pages": []}
            answers.append({**found, "cpu_s": time.process_time() - began})
            needs += [_needed(row, page) for page in found["pages"]]
    return {
        "made": scored(rows, answers, [pages_of(row, answer) for row, answer in zip(rows, answers, strict=True)]),
        "router": {
            "pages": len(needs),
            "auc": auc([need for truth, need, _ in needs if truth], [need for truth, need, _ in needs if not truth]),
            "wrong": sum(truth != went for truth, _, went in needs),
        },
        "set_aside": sum(page["route"] == "set aside" for answer in answers for page in answer["pages"]),
        "cpu_s_per_ocr_page": _seconds(answers),
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _needed(row: Mapping[str, Any], page: Mapping[str, Any]) -> tuple[bool, float, bool]:
    """Whether a page needs OCR, how much the router says so, and whether it went there."""
    truth = bool(row.get("needs_ocr")) or page["number"] - 1 in row.get("needs_ocr_pages", ())
    return truth, page["ocr_need"], page["route"] != "text"


def _seconds(answers: Sequence[Mapping[str, Any]]) -> float | None:
    """CPU-seconds of a page of files all of whose pages the models read."""
    of = [each for each in answers if each["pages"] and all("skew_degrees" in page for page in each["pages"])]
    return sum(each["cpu_s"] for each in of) / sum(len(each["pages"]) for each in of) if of else None


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]), sys.argv[2:]), indent=1))
