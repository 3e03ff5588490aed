"""Documents near the thresholds of the rule sets, real ones, and what stages say of them."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress

import pyarrow as pa
from hypothesis import strategies as st

from dcurate import DocumentBatch, recipe
from tests.text.strategies import texts

SAMPLE = recipe.BUNDLED / "sample"

#: Words and marks that the rules look at, of which whole documents are made.
PIECES = st.sampled_from(
    [
        *("the", "of", "and", "to", "house", "river", "Don't", "it's", "U.S.", "e.g.", "well-known", "3.14", "#", "##"),
        *("...", "…", ". . .", "•", "-", "- milk", "* tea", "●", "(see", "below)", '"quoted"', "end.", "end?", "a,b"),
        *("[1]", "[edit]", "[٣]", "end.[2]", "[citation needed]", "javascript", "Lorem ipsum", "use cookies", "{", "}"),
        *(
            "use coo\u212aies",
            "x" * 1001,
            "é",
            "naïve",
            "中文字",
            "३",
            "¡hola!",
            "”",
            "’s",
            "don’t",
            "10am",
            ":)",
            "&",
            "–",
        ),
        *("\n", "\n", "\n\n", "\n\n\n", "\r\n", "\t", "  ", "\xa0", "\u2028", "\x0b", "\x1c", "\x85", "\x00", "\ufeff"),
    ]
)
LINES = st.sampled_from(
    [
        "The quick brown fox jumps over the lazy dog and runs to the river with a friend.",
        "It was the best of times, it was the worst of times. Who would have thought of that?",
        "Menu",
        "- one point of the list, and that with more words",
        "We have read the terms of use and the privacy policy of this site.",
        "And so it goes on, and on, and on...",
        "",
        "SHOUTING AT THE READER",
        "1,024 likes",
        "He said so. [3] And then? Nothing!  (Or so.)",
    ]
)
DOCUMENTS = st.one_of(
    texts,
    st.lists(PIECES, max_size=80).map(" ".join),
    st.lists(LINES, max_size=25).map("\n".join),
    st.lists(LINES | PIECES, max_size=40).map(" ".join),
    st.lists(PIECES, min_size=3, max_size=6).map(lambda pieces: " ".join(pieces * 15)),
)


def reasons(stages, documents: list[str]) -> tuple[list[str | None], dict[int, str]]:
    """Why each document is dropped, or None, and the texts of those that are left."""
    found: list[str | None] = [None] * len(documents)
    batch = DocumentBatch(data=pa.table({"text": pa.array(documents, pa.string()), "row": range(len(documents))}))
    for stage in stages:
        batch = stage.process(batch)
        for rejection in batch.rejections:
            for row in rejection.data["row"].to_pylist():
                found[row] = rejection.reason
    left = batch.to_arrow()
    return found, dict(zip(left["row"].to_pylist(), left["text"].to_pylist(), strict=True))


def sample_texts() -> list[str]:
    """Every ninth of the bundled documents, of which some lines are damaged on purpose."""
    files = sorted(SAMPLE.glob("*.jsonl")) + sorted(SAMPLE.glob("*.gz"))
    opened = (gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes() for file in files)
    found = []
    for line in (line for data in opened for line in data.splitlines()):
        with suppress(ValueError):
            found.append(json.loads(line).get("text") or "")
    return found[::9]
