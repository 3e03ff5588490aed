"""The rule sets in plain Python, one text at a time, after those who wrote them: what the presets are held against.

Each answers the reason for which a text is dropped, or None.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from statistics import median

from dcurate.text.english import split_english
from dcurate.text.splitters import LINE_ENDS, SENTENCE_ENDS, SYMBOLS, split_unicode

STOP = {"the", "be", "to", "of", "and", "that", "have", "with"}
TOP = ((2, 0.20), (3, 0.18), (4, 0.16))
DUPLICATE = ((5, 0.15), (6, 0.14), (7, 0.13), (8, 0.12), (9, 0.11), (10, 0.10))

Checks = Iterable[tuple[str, bool]]


def first_failed(checks: Checks) -> str | None:
    return next((name for name, failed in checks if failed), None)


def share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def size(parts: Iterable[Sequence[str] | str]) -> int:
    return sum(map(len, parts))


def grams(words: list[str], n: int) -> list[tuple[str, ...]]:
    return [tuple(words[at : at + n]) for at in range(len(words) - n + 1)]


def has_letter(word: str) -> bool:
    return any(map(str.isalpha, word))


def english(text: str) -> list[str]:
    return [word for chunk in text.split() for word in split_english(chunk)]


def repeated(parts: list[str]) -> tuple[int, int]:
    """Parts that occurred before, and their characters."""
    seen: set[str] = set()
    again = [part for part in parts if part in seen or seen.add(part)]
    return len(again), size(again)


def copied(parts: list[str]) -> tuple[int, int]:
    """All copies of parts that occur twice, and their characters."""
    counts = Counter(parts)
    copies = [part for part in parts if counts[part] > 1]
    return len(copies), size(copies)


def covered(words: list[str], n: int) -> int:
    """Characters of the words that are in an n-gram that occurs twice."""
    found = grams(words, n)
    counts = Counter(found)
    places = {at + step for at, gram in enumerate(found) if counts[gram] > 1 for step in range(n)}
    return sum(len(words[place]) for place in places)


def top(words: list[str], n: int, longest: bool) -> int:
    """Characters of the most frequent n-gram, if it occurs twice."""
    counts = Counter(grams(words, n))
    most = max(counts.values(), default=0)
    if most < 2:
        return 0
    sizes = [size(gram) for gram, count in counts.items() if count == most]
    return most * (max(sizes) if longest else sizes[0])


# datatrove


def skipped(words: list[str], n: int) -> int:
    seen: set[str] = set()
    found = at = 0
    while at <= len(words) - n:
        gram = "".join(words[at : at + n])
        if gram in seen:
            found += len(gram)
            at += n
        else:
            seen.add(gram)
            at += 1
    return found


def datatrove_top(words: list[str], n: int) -> int:
    counts = Counter(" ".join(gram) for gram in grams(words, n))
    if not counts:
        return 0
    gram, count = counts.most_common(1)[0]
    return len(gram) * count


def datatrove_repetition(text: str) -> Checks:
    paragraphs, lines, whole = re.split("\n{2,}", text.strip()), re.split("\n+", text), len(text)
    for unit, parts in (("paragraphs", paragraphs), ("lines", lines)):
        count, characters = repeated(parts)
        yield f"gopher_duplicate_{unit}", count / len(parts) > 0.3
        yield f"gopher_duplicate_{unit}_characters", share(characters, whole) > 0.2
    words = english(text)
    for n, most in TOP:
        yield f"gopher_top_{n}gram", share(datatrove_top(words, n), whole) > most
    for n, most in DUPLICATE:
        yield f"gopher_duplicate_{n}grams", share(skipped(words, n), whole) > most


def datatrove_quality(text: str) -> Checks:
    words, lines = english(text), text.splitlines()
    worded = [word for word in words if not SYMBOLS.issuperset(word)]
    yield "gopher_word_count", not 50 <= len(worded) <= 100000
    yield "gopher_word_length", not 3 <= share(size(worded), len(worded)) <= 10
    yield "gopher_hashes", share(text.count("#"), len(words)) > 0.1
    yield "gopher_ellipses", share(text.count("...") + text.count("…"), len(words)) > 0.1
    yield "gopher_bullets", share(sum(line.lstrip().startswith(("•", "-")) for line in lines), len(lines)) > 0.9
    yield "gopher_line_ellipses", share(sum(line.rstrip().endswith(("...", "…")) for line in lines), len(lines)) > 0.3
    yield "gopher_letters", share(sum(map(has_letter, words)), len(words)) < 0.8
    yield "gopher_stop_words", len(STOP.intersection(words)) < 2


def datatrove(text: str) -> str | None:
    return first_failed([*datatrove_repetition(text), *datatrove_quality(text)])


# Dolma


def dolma(text: str, blank: bool) -> Checks:
    words = text.split()
    yield "gopher_word_count", not 50 <= len(words) <= 100000
    yield "gopher_word_length", not 3 <= round(median(map(len, words)) if words else 0.0, 5) <= 10
    yield "gopher_symbols", round(share(sum("#" in word or "…" in word for word in words), len(words)), 5) > 0.1
    yield "gopher_letters", round(share(sum(map(has_letter, words)), len(words)), 5) < 0.8
    yield "gopher_stop_words", sum(word in STOP for word in words) < 2
    lines = text.split("\n") if blank else re.split("\n+", text)
    yield "gopher_bullets", round(sum(line.startswith(("*", "-")) for line in lines) / len(lines), 5) > 0.9
    yield "gopher_line_ellipses", round(sum(line.endswith("…") for line in lines) / len(lines), 5) > 0.3
    copies, characters = copied(lines)
    yield "gopher_duplicate_lines", round(copies / len(lines), 5) > 0.3
    yield "gopher_duplicate_lines_characters", round(characters / max(size(words), 1), 5) > 0.3
    for n, most in DUPLICATE:
        counts = Counter(grams(words, n))
        twice = sum(count * size(gram) for gram, count in counts.items() if count > 1)
        every = sum(count * size(gram) for gram, count in counts.items())
        yield f"gopher_duplicate_{n}grams", round(twice / max(every, 1), 5) > most


# DCLM


def dclm(text: str) -> Checks:
    words = text.split()
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    paragraphs = [part.strip() for part in text.split("\n\n") if part.strip()]
    counted = sum(word[0].isalnum() for chunk in words for word in chunk.split("\0") if word)
    yield "gopher_word_count", not 50 <= counted <= 100000
    yield "gopher_word_length", not 3 <= share(size(words), len(words)) <= 10
    yield "gopher_symbols", share(sum(map(text.count, ("#", "...", ". . .", "…"))), len(words)) > 0.1
    yield "gopher_bullets", share(sum(line.startswith(("●", "•", "*", "-")) for line in lines), len(lines)) > 0.9
    ellipses = sum(line.endswith(("...", ". . .", "…")) for line in lines)
    yield "gopher_line_ellipses", share(ellipses, len(lines)) > 0.3
    yield "gopher_letters", share(sum(map(has_letter, words)), len(words)) < 0.8
    yield "gopher_stop_words", sum(word.lower() in STOP for word in words) < 2
    for unit, parts in (("lines", lines), ("paragraphs", paragraphs)):
        yield f"gopher_duplicate_{unit}", share(copied(parts)[0], len(parts)) > 0.3
    for unit, parts in (("lines", lines), ("paragraphs", paragraphs)):
        yield f"gopher_duplicate_{unit}_characters", share(copied(parts)[1], size(parts)) > 0.2
    words = [word for chunk in words for word in split_unicode(chunk)]
    for n, most in TOP:
        yield f"gopher_top_{n}gram", share(top(words, n, longest=True), size(words)) > most
    for n, most in DUPLICATE:
        yield f"gopher_duplicate_{n}grams", share(covered(words, n), size(words)) > most


# RedPajama and the paper

BULLETS = ("•", "‣", "▶", "◀", "◦", "■", "□", "▪", "▫", "–")


def redpajama(text: str) -> Checks:
    plain = text.translate(str.maketrans("", "", string.punctuation)).lower()
    words = unicodedata.normalize("NFD", re.sub(r"\s+", " ", plain.strip())).split()
    raw, lines = re.findall(r"\w+|[^\w\s]+", text), text.split("\n")
    yield "gopher_word_count", not 50 <= len(words) <= 100000
    yield "gopher_word_length", not 3 <= round(share(size(words), len(words)), 8) <= 10
    yield "gopher_symbols", round(share(sum(map(text.count, ("#", "...", "…"))), len(raw)), 8) > 0.1
    yield "gopher_bullets", round(sum(line.lstrip().startswith(BULLETS) for line in lines) / len(lines), 8) > 0.9
    ellipses = sum(line.rstrip().endswith(("...", "…")) for line in lines)
    yield "gopher_line_ellipses", round(ellipses / len(lines), 8) > 0.3
    lettered = sum(any(character in string.ascii_letters for character in word) for word in raw)
    yield "gopher_letters", round(share(lettered, len(raw)), 8) < 0.8
    yield "gopher_stop_words", len(STOP.intersection(words)) < 2
    for n, most in TOP:
        yield f"gopher_top_{n}gram", round(share(top(words, n, longest=False), size(words)), 8) > most
    for n, most in DUPLICATE:
        yield f"gopher_duplicate_{n}grams", round(share(covered(words, n), size(words)), 8) > most


def paper(text: str) -> Checks:
    words, lines = text.split(), [line for line in text.split("\n") if line.strip()]
    paragraphs = [part for part in re.split("\n{2,}", text.strip()) if part.strip()]
    yield "gopher_word_count", not 50 <= len(words) <= 100000
    yield "gopher_word_length", not 3 <= share(size(words), len(words)) <= 10
    yield "gopher_hashes", share(text.count("#"), len(words)) > 0.1
    yield "gopher_ellipses", share(text.count("...") + text.count("…"), len(words)) > 0.1
    yield "gopher_bullets", share(sum(line.lstrip().startswith(("•", "-")) for line in lines), len(lines)) > 0.9
    yield "gopher_line_ellipses", share(sum(line.rstrip().endswith(("...", "…")) for line in lines), len(lines)) > 0.3
    yield "gopher_letters", share(sum(map(has_letter, words)), len(words)) < 0.8
    yield "gopher_stop_words", len(STOP.intersection(words)) < 2
    for unit, parts in (("lines", lines), ("paragraphs", paragraphs)):
        yield f"gopher_duplicate_{unit}", share(repeated(parts)[0], len(parts)) > 0.3
    for unit, parts in (("lines", lines), ("paragraphs", paragraphs)):
        yield f"gopher_duplicate_{unit}_characters", share(repeated(parts)[1], len(text)) > 0.2
    for n, most in TOP:
        yield f"gopher_top_{n}gram", share(top(words, n, longest=False), size(words)) > most
    for n, most in DUPLICATE:
        yield f"gopher_duplicate_{n}grams", share(covered(words, n), size(words)) > most


GOPHER: dict[str, Callable[[str], str | None]] = {
    "paper": lambda text: first_failed(paper(text)),
    "datatrove": datatrove,
    "dolma_v1": lambda text: first_failed(dolma(text, blank=True)),
    "dolma_v2": lambda text: first_failed(dolma(text, blank=False)),
    "dclm": lambda text: first_failed(dclm(text)),
    "redpajama": lambda text: first_failed(redpajama(text)),
}

# C4

CITATION = re.compile(r"\[\d*]|\[edit]|\[citation needed]")
POLICY = ("terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies", "use cookies")


def sentences(line: str) -> int:
    """Sentences of a line; runs of whitespace are words here where they are more than one space after a word."""
    found, seen = 1, False
    pieces = re.findall(r"\s+|\S+", line)
    for place, piece in enumerate(pieces):
        blank = piece[1:] if piece[0] == " " and place else piece
        words = [blank] if piece.isspace() else split_english(piece)
        for word in filter(None, words):
            if word in SENTENCE_ENDS:
                seen = True
            elif seen and not all(unicodedata.category(character)[0] == "P" for character in word):
                found, seen = found + 1, False
    return found


def c4(text: str, variant: str, end_marks: bool) -> tuple[str | None, str]:
    """The reason for which a text is dropped, or None, and the text that is left."""
    datatrove = variant == "datatrove"
    marks = (".", "?", "!", '"', *(("'",) if datatrove else ()))
    if not datatrove and len(text) > 190000:
        return "c4_length", ""
    kept, count = [], 0
    for raw in text.splitlines():
        before = raw.split()
        if any(len(word) > 1000 for word in before):
            continue
        line = CITATION.sub("", raw.strip())
        if end_marks and (not line.endswith(marks) or line.endswith("...")):
            continue
        if len(before if datatrove else line.split()) < (3 if datatrove else 5):
            continue
        lower = line.lower()
        if "lorem ipsum" in lower:
            return "c4_lorem_ipsum", ""
        if "javascript" in lower:
            continue
        if "{" in line:
            return "c4_curly_bracket", ""
        if any(phrase in lower for phrase in POLICY):
            continue
        count += sentences(line)
        kept.append(line)
    return ("c4_sentences", "") if count < (5 if datatrove else 3) else (None, "\n".join(kept).strip())


# FineWeb


def fineweb_quality(text: str) -> Checks:
    lines = [line for line in text.split("\n") if line.strip()]
    yield "fineweb_line_ends", share(sum(line.endswith(tuple(LINE_ENDS)) for line in lines), len(lines)) < 0.12
    yield "fineweb_short_lines", share(sum(len(line) <= 30 for line in lines), len(lines)) > 0.67
    yield "fineweb_duplicate_lines", share(repeated(lines)[1], len(text.replace("\n", ""))) > 0.01
    yield "fineweb_list", share(text.count("\n"), len(english(text))) > 0.3
