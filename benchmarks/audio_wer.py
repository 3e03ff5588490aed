"""Word error rates: pairs of transcripts per CPU-second, against jiwer. Part ``wer`` of ``benchmarks.audio``.

Texts are those of ``speech.nemo.jsonl``; of each pair the other has words left out, doubled, replaced and misspelt, by
a seed. Each tool gives word and character counts of all pairs: ``equal`` says whether all substitutions, deletions and
insertions are the same. dcurate's time is that of the stage `ErrorRates`, with ``clean=False``, which besides gives the
character error rates of both edges, from the table of texts to the table of rates.
"""

from __future__ import annotations

import random
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jiwer
import numpy as np
import orjson
import pyarrow as pa

from dcurate import DocumentBatch
from dcurate.audio import ErrorRates

PAIRS = 100_000
#: Share of words with an error.
ERRORS = 0.15
SEED = 1


def run(folder: Path) -> dict[str, Any]:
    texts = [orjson.loads(line)["text"] for line in (folder / "speech.nemo.jsonl").read_bytes().splitlines()]
    draw = random.Random(SEED)
    references = [" ".join(draw.choice(texts).split()) for _ in range(PAIRS)]
    hypotheses = [_misheard(text, draw) for text in references]
    table = pa.table({"text": references, "pred_text": hypotheses})
    stage = ErrorRates(clean=False)
    stage.setup_on_node()
    begin = time.process_time()
    rows = stage.process(DocumentBatch(data=table)).to_arrow()
    ours = time.process_time() - begin
    begin = time.process_time()
    peers = [
        (jiwer.process_words(one, other), jiwer.process_characters(one, other))
        for one, other in zip(references, hypotheses, strict=True)
    ]
    theirs = time.process_time() - begin
    expected = np.array([_counts(words) + _counts(chars) for words, chars in peers])
    return {
        "pairs": PAIRS,
        "words": int(rows["wer_tokens"].to_numpy().sum()),
        "mean_wer": round(float(rows["wer"].to_numpy().mean()), 4),
        "pairs_per_cpu_s": {"dcurate": round(PAIRS / ours), f"jiwer {version('jiwer')}": round(PAIRS / theirs)},
        "times_as_fast": round(theirs / ours, 1),
        "equal": bool(np.array_equal(_counts_of(rows), expected)),
    }


def _misheard(text: str, draw: random.Random) -> str:
    """A text with errors in its words, with one word at least."""
    heard: list[str] = []
    for word in text.split():
        kind = draw.choice(("left out", "doubled", "replaced", "misspelt")) if draw.random() < ERRORS else "right"
        if kind == "misspelt":
            place = draw.randrange(len(word))
            heard.append(word[:place] + draw.choice("aeiou") + word[place + 1 :])
        else:
            heard += {"left out": [], "doubled": [word, word], "replaced": ["the"]}.get(kind, [word])
    return " ".join(heard) or "the"


def _counts(measures: jiwer.WordOutput | jiwer.CharacterOutput) -> list[int]:
    return [measures.substitutions, measures.deletions, measures.insertions]


def _counts_of(rows: pa.Table) -> Any:
    """Counts of edits in words and characters, from the rates and the tokens."""
    columns = []
    for kind in ("wer", "cer"):
        for part in ("sub_rate", "del_rate", "ins_rate"):
            columns.append(np.rint(rows[f"{kind}_{part}"].to_numpy() * rows[f"{kind}_tokens"].to_numpy()))
    return np.column_stack(columns).astype(np.int64)
