"""The rule of `SpanDuplicates` in plain Python."""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import dataclass

from dcurate.text.splitters import SENTENCE_ENDS

ALONE = set("。！．？｡")


def closes(character: str) -> bool:
    return character in "\"'" or unicodedata.category(character) in ("Pe", "Pf", "Pi")


def sentences(line: str) -> list[str]:
    body = (line.splitlines() or [""])[0]
    pieces, start, at = [], 0, 0
    while at < len(body):
        if body[at] not in SENTENCE_ENDS:
            at += 1
            continue
        after = at + 1
        while after < len(body) and (body[after] in SENTENCE_ENDS or closes(body[after])):
            after += 1
        alone = bool(ALONE & set(body[at:after]))
        if after < len(body) and (alone or body[after].isspace()) and body[after:].strip():
            after = len(body) - len(body[after:].lstrip())
            pieces.append(body[start:after])
            start = after
        at = after
    return [*pieces, line[start:]]


def paragraphs(text: str) -> list[str]:
    pieces: list[str] = []
    for line in text.splitlines(keepends=True):
        if pieces and line.strip() and pieces[-1].strip():
            pieces[-1] += line
        else:
            pieces.append(line)
    return pieces


def segments(text: str, unit: str) -> list[str]:
    if unit == "paragraph":
        return paragraphs(text)
    lines = text.splitlines(keepends=True)
    return lines if unit == "line" else [piece for line in lines for piece in sentences(line)]


def folded(content: str, steps: set[str]) -> str:
    if not steps:
        return content
    if "unicode" in steps:
        content = unicodedata.normalize("NFKD", content)
    out = ""
    for character in content.replace("\0", ""):
        kind = unicodedata.category(character)
        if "whitespace" in steps and character.isspace():
            out += " "
        elif "digits" in steps and kind == "Nd":
            out += "0"
        elif "punctuation" in steps and not character.isspace() and (kind[0] in "PS" or kind in ("Cc", "Cf")):
            continue
        elif "case" in steps:
            out += "σ" if character == "ς" else character.lower()[0]
        else:
            out += character
    return " ".join(out.split()) if "whitespace" in steps else out


@dataclass
class Rule:
    unit: str = "line"
    span: int = 1
    normalize: tuple[str, ...] = ()
    min_chars: int = 0
    min_words: int = 0
    max_copies: int = 1
    keep: str = "first"

    def units(self, text: str) -> list[tuple[int, int, str, str]]:
        """Where each unit begins and ends, what it says, and what counts of that."""
        found: list[tuple[int, int, str, str]] = []
        at = 0
        for piece in segments(text, self.unit):
            content = piece.strip()
            says = folded(content, set(self.normalize))
            if says:
                found.append((at, at + len(piece), content, says))
            elif found:
                found[-1] = (found[-1][0], at + len(piece), *found[-1][2:])
            at += len(piece)
        return found

    def spans(self, text: str) -> list[tuple[int, int, tuple[str, ...]]]:
        units = self.units(text)
        found = []
        for first in range(len(units) - self.span + 1):
            own = units[first : first + self.span]
            enough = sum(len(unit[2]) for unit in own) >= self.min_chars
            if enough and sum(len(unit[2].split()) for unit in own) >= self.min_words:
                found.append((own[0][0], own[-1][1], tuple(unit[3] for unit in own)))
        return found

    def cut(self, texts: list[str | None]) -> list[str | None]:
        totals = Counter(span[2] for text in texts for span in self.spans(text or ""))
        seen: Counter[tuple[str, ...]] = Counter()
        left: list[str | None] = []
        for text in texts:
            gone: set[int] = set()
            for start, stop, says in self.spans(text or ""):
                seen[says] += 1
                if seen[says] > self.max_copies or (self.keep == "none" and totals[says] > self.max_copies):
                    gone.update(range(start, stop))
            left.append(text if text is None else without(text, gone))
        return left


def without(text: str, gone: set[int]) -> str:
    """The text without these places, runs of which are fitted to its lines."""
    out, at = "", 0
    for start in sorted(place for place in gone if place - 1 not in gone):
        stop = start
        while stop in gone:
            stop += 1
        kept, cut = text[at:start], text[start:stop]
        within = start > 0 and len((text[:start] + "x").splitlines()[-1]) > 1
        if within:
            body = cut[: len(cut.rstrip())]
            stop = start + len(body) + len((cut[len(body) :].splitlines() or [""])[0])
            if stop == len(text) or not (text[stop : stop + 1] + "x").splitlines()[0]:
                kept = kept.rstrip()
        elif stop == len(text) and not cut[-1].isspace():
            kept = kept.rstrip()
        out += kept
        at = stop
    return out + text[at:]
