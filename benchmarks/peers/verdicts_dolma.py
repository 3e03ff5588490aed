"""What dolma's own taggers, with the thresholds of its mixes, say of each document. Runs where dolma is installed.

``python verdicts_dolma.py PRESET INPUT OUTPUT``: INPUT is JSONL with ``text``; OUTPUT gets one line of JSON for each
document, ``[reason, text]``: a reason of null where it is kept. The last line of what is printed says how many
CPU-seconds the taggers took.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
import time

from dolma.core.data_types import Document
from dolma.taggers.gopher import GopherTagger, GopherTaggerV2

TAGGERS = {"gopher-v1": GopherTagger, "gopher-v2": GopherTaggerV2}

#: Scores and what a document is dropped for: configs/dolma-v1_6/mixing/cc-head.yaml, but for its three rules on
#: ``fraction_of_characters_in_most_common_2gram`` (3gram, 4gram), which no tagger has ever written under that name.
DROPPED = (
    ("word_count", "<", 50),
    ("word_count", ">", 100000),
    ("median_word_length", "<", 3),
    ("median_word_length", ">", 10),
    ("symbol_to_word_ratio", ">", 0.1),
    ("fraction_of_words_with_alpha_character", "<", 0.8),
    ("required_word_count", "<", 2),
    ("fraction_of_lines_starting_with_bullet_point", ">", 0.9),
    ("fraction_of_lines_ending_with_ellipsis", ">", 0.3),
    ("fraction_of_duplicate_lines", ">", 0.3),
    ("fraction_of_characters_in_duplicate_lines", ">", 0.3),
    ("fraction_of_characters_in_duplicate_5grams", ">", 0.15),
    ("fraction_of_characters_in_duplicate_6grams", ">", 0.14),
    ("fraction_of_characters_in_duplicate_7grams", ">", 0.13),
    ("fraction_of_characters_in_duplicate_8grams", ">", 0.12),
    ("fraction_of_characters_in_duplicate_9grams", ">", 0.11),
    ("fraction_of_characters_in_duplicate_10grams", ">", 0.10),
)


def verdict(tagger: GopherTagger, number: int, text: str) -> str | None:
    """The first reason of the mix for which it goes, or None; scores have five decimals when they are stored."""
    spans = tagger.predict(Document(source="parity", id=str(number), text=text)).spans
    scores = {span.type: round(float(span.score), 5) for span in spans}
    for name, sign, limit in DROPPED:
        if name in scores and (scores[name] < limit if sign == "<" else scores[name] > limit):
            return name
    return None


def main() -> None:
    preset, source, target = sys.argv[1:4]
    tagger = TAGGERS[preset]()
    with open(source, encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    started = time.process_time()
    reasons = [verdict(tagger, number, text) for number, text in enumerate(texts)]
    seconds = time.process_time() - started
    with open(target, "w", encoding="utf-8") as out:
        for reason in reasons:
            out.write(json.dumps([reason, None]) + "\n")
    print(json.dumps({"cpu_s": seconds, "versions": {"dolma": importlib.metadata.version("dolma")}}))


if __name__ == "__main__":
    main()
