"""How vision models are asked to read a page, and how their answers are read."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from dcurate.endpoints.errors import RequestError


class PageAnswer(NamedTuple):
    """What a vision model read on a page.

    Args:
        text: text of the page, as Markdown.
        turn: degrees by which the picture should be turned with the clock and sent again; 0 if it is upright.
        language: language of the page, as the model names it; empty if it does not.
    """

    text: str
    turn: int = 0
    language: str = ""


class Convention(NamedTuple):
    """A prompt, and the reader of answers to it.

    Args:
        prompt: sent with the picture of a page.
        anchored: sent instead with the text that the file has for the page, in place of ``{anchor}``.
        read: an answer to what it says; raises `RequestError` for one that cannot be used.
    """

    prompt: str
    anchored: str
    read: Callable[[str], PageAnswer]


_FENCE = re.compile(r"\A\s*```(?:markdown|md)?\s*\n(.*?)\n?```\s*\Z", re.DOTALL)
_FRONT = re.compile(r"\A\s*---\s*\n(.*?)\n---\s*(?:\n|\Z)", re.DOTALL)
_FIELD = re.compile(r"^(\w+):(.*)$", re.MULTILINE)
_BLOCK = re.compile(
    r"<x_(\d+(?:\.\d+)?)><y_(\d+(?:\.\d+)?)>([^<]*(?:<(?!x_\d)[^<]*)*)<x_\d+(?:\.\d+)?><y_\d+(?:\.\d+)?><class_([\w-]+)>"
)
#: Classes of Nemotron-Parse that are no part of the body.
_LEFT_OUT = {"Page-header", "Page-footer", "Page-number", "Picture", "TOC"}
_HEADINGS = {"Title": "# ", "Section-header": "## "}


def read_markdown(answer: str) -> PageAnswer:
    r"""Read an answer that is Markdown, perhaps in a fence.

    Examples:
        >>> read_markdown("```markdown\n# Fish\n```").text
        '# Fish'
    """
    fenced = _FENCE.match(answer)
    return PageAnswer((fenced[1] if fenced else answer).strip())


def read_olmocr(answer: str) -> PageAnswer:
    r"""Read an answer of olmOCR: Markdown below front matter.

    Raises:
        RequestError: there is no front matter, or it asks for a turn that is none.

    Examples:
        >>> read_olmocr("---\nprimary_language: en\nis_rotation_valid: True\nrotation_correction: 0\n---\nFish")
        PageAnswer(text='Fish', turn=0, language='en')
    """
    front = _FRONT.match(answer)
    if front is None:
        raise RequestError("the answer has no front matter", "unreadable answer", again=True)
    fields = {name: value.strip(" \t") for name, value in _FIELD.findall(front[1])}
    turn = fields.get("rotation_correction", "0")
    if turn not in ("0", "90", "180", "270"):
        raise RequestError(f"rotation_correction: {turn[:20]!r} is not a turn", "unreadable answer", again=True)
    valid = fields.get("is_rotation_valid", "True").lower() != "false"
    language = fields.get("primary_language", "")
    text = answer[front.end() :].strip()
    return PageAnswer("" if text == "null" else text, 0 if valid else int(turn), "" if language == "null" else language)


def read_nemotron_parse(answer: str) -> PageAnswer:
    r"""Read an answer of Nemotron-Parse: blocks, each with its corners and its class.

    Headers, footers and pictures are left out; titles become headings.

    Raises:
        RequestError: there is no block in it.

    Examples:
        >>> block = "<x_0.1><y_0.1>{}<x_0.9><y_0.2><class_{}>"
        >>> read_nemotron_parse(block.format("7", "Page-number") + block.format("Fish", "Title")).text
        '# Fish'
    """
    blocks = [(match[3].strip(), match[4]) for match in _BLOCK.finditer(answer)]
    if not blocks and answer.strip(" </s>\n"):
        raise RequestError("the answer has no block with a class", "unreadable answer", again=True)
    parts = []
    for block, name in blocks:
        text = block.replace("<tbc>", "").strip()
        if not text or name in _LEFT_OUT:
            continue
        mark = _HEADINGS.get(name, "")
        if name == "List-item" and not re.match(r"[-*+•]|\d+[.)]", text):
            mark = "- "
        parts.append(text if text.startswith("#") else mark + text)
    return PageAnswer("\n\n".join(parts))


_PLAIN = (
    "Convert this page of a document to Markdown, in the order in which one reads it. Write tables as Markdown tables "
    "and formulas as LaTeX. Leave out page headers, page footers and page numbers. Add nothing that the page does not "
    "say. Answer with the Markdown only."
)
_OLMOCR = (
    "Attached is one page of a document that you must process. Just return the plain text representation of this "
    "document as if you were reading it naturally. Convert equations to LateX and tables to HTML.\n"
    "If there are any figures or charts, label them with the following markdown syntax ![Alt text describing the "
    "contents of the figure](page_startx_starty_width_height.png)\n"
    "Return your output as markdown, with a front matter section on top specifying values for the primary_language, "
    "is_rotation_valid, rotation_correction, is_table, and is_diagram parameters."
)
_NEMOTRON = "</s><s><predict_bbox><predict_classes><output_markdown>"
_ANCHOR = "\nThe file has this text for the page; it may be wrong.\nRAW_TEXT_START\n{anchor}\nRAW_TEXT_END"

#: By name: any model that reads pictures, and two that were trained on a prompt of their own.
CONVENTIONS: Final = {
    "markdown": Convention(_PLAIN, _PLAIN + _ANCHOR, read_markdown),
    "olmocr": Convention(_OLMOCR, _OLMOCR + _ANCHOR, read_olmocr),
    "nemotron-parse": Convention(_NEMOTRON, _NEMOTRON, read_nemotron_parse),
}
