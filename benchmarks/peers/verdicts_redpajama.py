"""What RedPajama-Data v2's signals, as its own code computes them, say of each document with the paper's thresholds.

``python verdicts_redpajama.py PRESET INPUT OUTPUT CHECKOUT``: CHECKOUT is a clone of togethercomputer/RedPajama-Data;
the Python needs what its signals import: msgspec, nltk, numpy. INPUT is JSONL with ``text``; OUTPUT gets one line of
JSON for each document, ``[reason, null]``: a reason of null where it is kept.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

#: RedPajama has no signal of how many stop words there are; the paper's rule is asked of its words.
STOP_WORDS = {"the", "be", "to", "of", "and", "that", "have", "with"}
_TOP = {2: 0.20, 3: 0.18, 4: 0.16}
_DUPLICATE = {5: 0.15, 6: 0.14, 7: 0.13, 8: 0.12, 9: 0.11, 10: 0.10}


class RedPajamaSignals:
    """The signals of a document."""

    def __init__(self, checkout: Path) -> None:
        sys.path.insert(0, str(checkout / "app" / "src"))
        names = ("natural_language", "lines", "repetitions")
        self._modules = [importlib.import_module(f"core.quality_signals.{name}") for name in names]
        self._document = importlib.import_module("core.document").Document

    def document(self, text: str) -> Any:
        return self._document(text, domain=None)

    def values(self, document: Any, name: str) -> list[float]:
        """What a signal says, by span."""
        signal = next(getattr(module, name) for module in self._modules if hasattr(module, name))
        return [span[2] for span in signal()(document)]


def verdict(signals: RedPajamaSignals, text: str) -> str | None:
    """The first of the rules that drops it, or None."""
    document = signals.document(text)

    def value(name: str) -> float:
        return float(signals.values(document, name)[0] or 0.0)

    if not 50 <= value("RPS_Doc_Word_Count") <= 100000:
        return "word_count"
    if not 3 <= value("RPS_Doc_Mean_Word_Length") <= 10:
        return "mean_word_length"
    if value("RPS_Doc_Symbol_To_Word_Ratio") > 0.1:
        return "symbols"
    bullets = signals.values(document, "RPS_Lines_Start_With_Bulletpoint")
    if round(sum(bullets) / len(bullets), 8) > 0.9:
        return "bullets"
    if value("RPS_Doc_Frac_Lines_End_With_Ellipsis") > 0.3:
        return "ellipses"
    if value("RPS_Doc_Frac_No_Alph_Words") > 0.2:
        return "letters"
    if len(STOP_WORDS.intersection(document.normalized_words)) < 2:
        return "stop_words"
    for n, most in _TOP.items():
        if value(f"RPS_Doc_Frac_Chars_Top_{n}gram") > most:
            return f"top_{n}gram"
    for n, most in _DUPLICATE.items():
        if value(f"RPS_Doc_Frac_Chars_Dupe_{n}Grams") > most:
            return f"duplicate_{n}grams"
    return None


def main() -> None:
    _, source, target, checkout = sys.argv[1:5]
    signals = RedPajamaSignals(Path(checkout).resolve())
    with open(source, encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    started = time.process_time()
    reasons = [verdict(signals, text) for text in texts]
    seconds = time.process_time() - started
    with open(target, "w", encoding="utf-8") as out:
        for reason in reasons:
            out.write(json.dumps([reason, None]) + "\n")
    print(json.dumps({"cpu_s": seconds, "versions": {}}))


if __name__ == "__main__":
    main()
