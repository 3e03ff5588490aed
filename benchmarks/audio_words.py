"""Words of the small recogniser: what PocketSphinx, with the English model of its wheel, hears of spoken phrases.

The folder has ``words.tar`` with recordings, and ``words-truth.jsonl`` with the words that are spoken in them and their
times. ``f1`` is that of words, each counted as often as it is in both texts of a recording, in lower case and without
punctuation. ``in_time`` is the part of the words in both whose middle lies within the spoken word, give or take 0.2 s.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

from dcurate import DocumentBatch, InlineExecutor, MediaReader, Pipeline
from dcurate.audio import PocketSphinxRecognizer, Transcribe
from dcurate.core.stage import Stage

_SLACK_S = 0.2


def run(folder: Path) -> dict[str, Any]:
    lines = (folder / "words-truth.jsonl").read_text("utf-8").splitlines()
    truth = {row["file"]: row for row in map(json.loads, lines)}
    stages: list[Stage] = [
        MediaReader(str(folder / "words.tar"), kinds=["audio"]),
        Transcribe(PocketSphinxRecognizer()),
    ]
    begin = time.process_time()
    batches = Pipeline(name="words", stages=stages).run(InlineExecutor())
    seconds = time.process_time() - begin
    rows = [row for batch in batches if isinstance(batch, DocumentBatch) for row in batch.to_arrow().to_pylist()]
    both = heard = spoken = in_time = 0
    for row in rows:
        said = truth[Path(row["file_name"]).name]
        theirs, ours = (Counter(map(_plain, words)) for words in (_words(said["words"]), _words(row["words"])))
        both += (theirs & ours).total()
        heard, spoken = heard + ours.total(), spoken + theirs.total()
        in_time += sum(_is_in_time(word, said["words"]) for word in row["words"])
    duration = sum(truth[Path(row["file_name"]).name]["duration"] for row in rows)
    return {
        "recordings": len(truth),
        "transcribed": len(rows),
        "f1": round(2 * both / max(1, heard + spoken), 4),
        "precision": round(both / max(1, heard), 4),
        "recall": round(both / max(1, spoken), 4),
        "in_time": round(in_time / max(1, both), 4),
        "seconds_per_cpu_s": round(duration / seconds, 2),
    }


def _words(words: list[dict[str, Any]]) -> list[str]:
    return [word["word"] for word in words]


def _plain(word: str) -> str:
    return re.sub(r"[^\w']", "", word).lower()


def _is_in_time(word: dict[str, Any], spoken: list[dict[str, Any]]) -> bool:
    middle = (word["start"] + word["end"]) / 2
    return any(
        _plain(said["word"]) == _plain(word["word"]) and said["start"] - _SLACK_S <= middle <= said["end"] + _SLACK_S
        for said in spoken
    )
