"""Build the bundled sample of languages from translations of the Universal Declaration of Human Rights.

    python -m benchmarks.make_declarations --input udhr2.jsonl.zst --output dcurate/bundled/declarations

The input is JSONL with ``text``, ``url`` and ``lang``; the text is in the public domain. Each translation is divided
into documents of whole paragraphs. The same input gives the same file.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import zstandard

from benchmarks.rows import read_rows

LANGUAGES = (
    "arb ben cmn_hans deu ell_monotonic eng fra heb hin ind jpn kor pes_1 pol por_BR rus spa swh tha tur urd vie"
)
#: Fewest bytes of a document, but for the last of a translation.
BYTES = 1200


def documents(text: str) -> Iterator[str]:
    """Divide a translation into documents of whole paragraphs."""
    paragraphs: list[str] = []
    for block in text.split("\n\n"):
        paragraphs.append(" ".join(block.split()))
        if sum(len(paragraph.encode()) for paragraph in paragraphs) >= BYTES:
            yield "\n\n".join(paragraphs)
            paragraphs = []
    if paragraphs:
        yield "\n\n".join(paragraphs)


def main() -> None:
    """Write the sample."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", required=True, type=Path)
    parser.add_argument("--output", required=True, type=Path)
    arguments = parser.parse_args()
    rows = read_rows(arguments.input, {"lang": str, "text": str, "url": str}).rows
    translations = {row["lang"]: row for row in rows}
    lines = [
        json.dumps(
            {"id": f"{language}-{number}", "url": translations[language]["url"], "text": text}, ensure_ascii=False
        )
        for language in LANGUAGES.split()
        for number, text in enumerate(documents(translations[language]["text"]))
    ]
    content = "".join(f"{line}\n" for line in lines).encode()
    (arguments.output / "declarations.jsonl.zst").write_bytes(zstandard.ZstdCompressor(level=19).compress(content))


if __name__ == "__main__":
    main()
