"""What other tools find: datatrove's PIIFormatter, Presidio's recognisers without a language model, libphonenumber.

``python run_pii.py TOOL INPUT SECONDS``, where INPUT is a JSON list of texts; answers in one line of JSON with how many
texts it took in that time, CPU-seconds, and spans as characters. Runs in an environment that holds the tool.
"""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

Spans = list[tuple[int, int, str]]


def datatrove() -> Any:
    formatter = import_module("datatrove.pipeline.formatters").PIIFormatter()
    replacers = {"EMAIL_ADDRESS": formatter.emails_replacer, "IP_ADDRESS": formatter.ip_replacer}

    def find(text: str) -> Spans:
        return [
            (match.start(), match.end(), kind)
            for kind, replacer in replacers.items()
            for match in replacer.regex.finditer(text)
            if replacer.validator is None or replacer.validator(match.group(0))
        ]

    return find


def presidio() -> Any:
    known = import_module("presidio_analyzer.predefined_recognizers")

    recognizers = [
        *(known.EmailRecognizer(), known.PhoneRecognizer(), known.IpRecognizer(), known.CreditCardRecognizer()),
        *(known.IbanRecognizer(), known.UsSsnRecognizer()),
    ]

    def find(text: str) -> Spans:
        found = []
        for recognizer in recognizers:
            results = recognizer.analyze(text, recognizer.supported_entities, None)
            found.extend((result.start, result.end, result.entity_type) for result in results if result.score >= 0.4)
        return found

    return find


def libphonenumber() -> Any:
    phonenumbers = import_module("phonenumbers")

    def find(text: str) -> Spans:
        return [(match.start, match.end, "PHONE_NUMBER") for match in phonenumbers.PhoneNumberMatcher(text, "US")]

    return find


TOOLS = {"datatrove": datatrove, "presidio": presidio, "libphonenumber": libphonenumber}
PACKAGES = {"datatrove": "datatrove", "presidio": "presidio-analyzer", "libphonenumber": "phonenumbers"}


def main(tool: str, source: str, seconds: float) -> dict[str, Any]:
    find = TOOLS[tool]()
    texts = json.loads(Path(source).read_text())
    find("warm up: jo@example.org, 8.8.8.8")
    start = time.process_time()
    spans, used = [], 0.0
    for text in texts:
        spans.append(find(text))
        used = time.process_time() - start
        if used > seconds:
            break
    return {"cpu_s": used, "spans": spans, "version": version(PACKAGES[tool])}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], float(sys.argv[3]))))
