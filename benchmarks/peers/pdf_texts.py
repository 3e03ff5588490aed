"""Text of PDFs by one tool. Runs in an environment with that tool; needs nothing else but the standard library.

``pdf_texts.py TOOL FILES REPEAT``: FILES is JSON, a list of ``{"path", "password"}``. Prints one JSON line a file:
``text`` or ``error``, and ``cpu_s``, the least of the runs; last, the tool's version.
"""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

Extract = Callable[[bytes, "str | None"], str]

#: CPU-seconds after which a tool is not run again.
_ENOUGH_S = 30.0


def pypdfium2() -> Extract:
    pypdfium2 = import_module("pypdfium2")

    def extract(data, password):
        document = pypdfium2.PdfDocument(data, password=password)
        texts = []
        for page in document:
            textpage = page.get_textpage()
            texts.append(textpage.get_text_range())
            textpage.close()
            page.close()
        document.close()
        return "\n".join(texts)

    return extract


def pymupdf() -> Extract:
    pymupdf = import_module("pymupdf")

    def extract(data, password):
        with pymupdf.open(stream=data, filetype="pdf") as document:
            if document.needs_pass:
                document.authenticate(password or "")
            return "\n".join(page.get_text() for page in document)

    return extract


def pymupdf4llm() -> Extract:
    pymupdf = import_module("pymupdf")
    pymupdf4llm = import_module("pymupdf4llm")

    def extract(data, password):
        with pymupdf.open(stream=data, filetype="pdf") as document:
            if document.needs_pass:
                document.authenticate(password or "")
            return pymupdf4llm.to_markdown(document, show_progress=False)

    return extract


def pdfminer() -> Extract:
    extract_text = import_module("pdfminer.high_level").extract_text

    return lambda data, password: extract_text(io.BytesIO(data), password=password or "")


def pdf_oxide() -> Extract:
    opened = import_module("pdf_oxide").PdfDocument

    def extract(data, password):
        document = opened.from_bytes(data)
        if password:
            document.authenticate(password)
        return "\n".join(document.extract_text(page) for page in range(document.page_count()))

    return extract


def kreuzberg() -> Extract:
    config_of = import_module("kreuzberg").ExtractionConfig
    pdf_config = import_module("kreuzberg").PdfConfig
    extract_bytes_sync = import_module("kreuzberg").extract_bytes_sync

    def extract(data, password):
        config = config_of(pdf_options=pdf_config(passwords=[password]) if password else None, use_cache=False)
        return extract_bytes_sync(data, "application/pdf", config).content

    return extract


def markitdown() -> Extract:
    made = import_module("markitdown").MarkItDown

    converter = made(enable_plugins=False)
    return lambda data, password: converter.convert_stream(io.BytesIO(data), file_extension=".pdf").text_content


def docling_parse() -> Extract:
    made = import_module("docling_parse.pdf_parser").DoclingPdfParser

    parser = made(loglevel="fatal")

    def extract(data, password):
        document = parser.load(io.BytesIO(data), **({"password": password} if password else {}))
        texts = ["\n".join(cell.text for cell in page.textline_cells) for _, page in document.iterate_pages()]
        return "\n".join(texts)

    return extract


TOOLS = {
    "pypdfium2": (pypdfium2, "pypdfium2"),
    "pymupdf": (pymupdf, "pymupdf"),
    "pymupdf4llm": (pymupdf4llm, "pymupdf4llm"),
    "pdfminer": (pdfminer, "pdfminer.six"),
    "pdf_oxide": (pdf_oxide, "pdf_oxide"),
    "kreuzberg": (kreuzberg, "kreuzberg"),
    "markitdown": (markitdown, "markitdown"),
    "docling_parse": (docling_parse, "docling-parse"),
}


def run(tool: str, listed: str, repeat: str) -> None:
    make, package = TOOLS[tool]
    try:
        extract = make()
    except ImportError as error:
        print(json.dumps({"missing": str(error)}))
        return
    files = [(Path(entry["path"]).read_bytes(), entry["password"]) for entry in json.loads(Path(listed).read_text())]
    found, best = [], [float("inf")] * len(files)
    began = time.process_time()
    for number in range(int(repeat)):
        for at, (data, password) in enumerate(files):
            start = time.process_time()
            try:
                answer = {"text": extract(data, password)}
            except Exception as error:  # a tool may raise anything
                answer = {"text": "", "error": f"{type(error).__name__}: {error}"[:200]}
            best[at] = min(best[at], time.process_time() - start)
            if not number:
                found.append(answer)
        if time.process_time() - began > _ENOUGH_S:
            break
    for answer, seconds in zip(found, best, strict=True):
        print(json.dumps({**answer, "cpu_s": seconds}))
    print(json.dumps({"version": version(package)}))


if __name__ == "__main__":
    run(*sys.argv[1:])
