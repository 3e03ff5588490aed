"""Formulas of a page as LaTeX: from MathML, from texts between delimiters, and from images."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dcurate.text.extract.symbols import ACCENTS, FUNCTIONS, SYMBOLS

#: Largest number of characters of a formula; longer ones are left out. Parts of MathML are cut there, so that nesting
#: costs no more.
LONGEST = 20_000
#: Deepest nesting of MathML; formulas with a deeper one are left out.
DEEPEST = 200
_TEX = ("application/x-tex", "tex", "latex", "application/x-latex", "text/tex", "text/latex")
_IMAGE = re.compile(
    r"(?:^|[\s_-])(?:math|tex|latex|mwe-math\S*|equation|formula|ee_img|inlineformula)(?:$|[\s_-])", re.IGNORECASE
)
_SHOWN = re.compile(r"^\{\\(displaystyle|textstyle) ?(.*)\}$", re.DOTALL)
_DELIMITED = re.compile(r"^\s*(?:\\\[(.*)\\\]|\$\$(.*)\$\$|\\\((.*)\\\)|\$(.*)\$)\s*$", re.DOTALL)
_ENVIRONMENT = re.compile(
    r"^\s*(\\begin\{(equation|align|gather|multline|eqnarray|displaymath|math)\*?\}.*\\end\{\2\*?\})\s*$", re.DOTALL
)


class Delimited(NamedTuple):
    """A formula.

    Attributes:
        latex: the formula in LaTeX.
        display: whether it is on a line of its own.
    """

    latex: str
    display: bool


def undelimited(text: str) -> Delimited | None:
    r"""Take a formula out of its delimiters, those of MathJax and KaTeX; None if it has none.

    Examples:
        >>> undelimited(r"\(x^2\)")
        Delimited(latex='x^2', display=False)
        >>> undelimited("x^2")
    """
    match = _DELIMITED.match(text)
    if match:
        display = match[1] if match[1] is not None else match[2]
        latex = display if display is not None else match[3] if match[3] is not None else match[4]
        return Delimited(latex.strip(), display is not None)
    match = _ENVIRONMENT.match(text)
    return Delimited(match[1], True) if match else None


def of_image(attributes: Mapping[str, str]) -> str:
    r"""Return the formula that an image shows, from its alternative text; empty if it shows none.

    Examples:
        >>> of_image({"class": "mwe-math-fallback-image-inline", "alt": r"{\displaystyle x^{2}}"})
        'x^{2}'
    """
    alternative = attributes.get("alt", "").strip()
    if not alternative or not _IMAGE.search(attributes.get("class", "")):
        return ""
    delimited = undelimited(alternative)
    return without_style(delimited.latex if delimited else alternative)


def without_style(latex: str) -> str:
    """Return a formula without the ``displaystyle`` that MediaWiki puts around it."""
    match = _SHOWN.match(latex.strip())
    return match[2].strip() if match else latex.strip()


@dataclass
class _MathElement:
    tag: str
    attributes: Mapping[str, str]
    children: list[str]
    text: list[str]
    tags: list[str]


class FormulaReader:
    """Reads the content of ``math`` as LaTeX: its annotation, if that is LaTeX, or else its elements.

    Args:
        attributes: attributes of ``math``.
    """

    def __init__(self, attributes: Mapping[str, str]) -> None:
        self.display = attributes.get("display") == "block" or attributes.get("mode") == "display"
        self._attributes = attributes
        self._annotation: list[str] | None = None
        self._within = 0  # depth in an annotation
        self._reads = False
        self._deeper = 0  # number of open elements that are nested too deep
        self._too_deep = False
        self._open = [_MathElement("mrow", {}, [], [], [])]

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if self._within:
            self._within += 1
        elif tag in ("annotation", "annotation-xml"):
            self._within = 1
            if attributes.get("encoding", "").lower() in _TEX and self._annotation is None:
                self._annotation = []
                self._reads = True
            else:
                self._reads = False
        elif len(self._open) < DEEPEST:
            self._open.append(_MathElement(tag, attributes, [], [], []))
        else:
            self._deeper += 1
            self._too_deep = True

    def end(self, tag: str) -> None:
        if self._within:
            self._within -= 1
        elif self._deeper:
            self._deeper -= 1
        elif len(self._open) > 1:
            element = self._open.pop()
            self._open[-1].children.append(_latex(element)[:LONGEST])
            self._open[-1].tags.append(element.tag)

    def data(self, text: str) -> None:
        if not self._within:
            self._open[-1].text.append(text)
        elif self._reads and self._annotation is not None:
            self._annotation.append(text)

    @property
    def latex(self) -> str:
        """The formula; empty if there is none."""
        annotated = "".join(self._annotation or ()).strip()
        latex = annotated or self._attributes.get("alttext", "").strip() or _row(self._open[0].children)
        if len(latex) > LONGEST or (self._too_deep and not annotated):
            return ""
        return without_style(latex)


def _latex(element: _MathElement) -> str:
    """Return an element of MathML as LaTeX, whose children are LaTeX already."""
    maker = _MAKERS.get(element.tag)
    if maker:
        return maker(element, element.children)
    return _row(element.children) if element.children else _text_of(element)


def _text_of(element: _MathElement) -> str:
    return "".join(element.text).strip()


def _row(parts: Sequence[str]) -> str:
    """Join parts, with a space where a command would run into a letter."""
    out: list[str] = []
    length = 0
    for part in parts:
        if not part:
            continue
        if out and part[0].isalpha() and _COMMAND_AT_END.search(out[-1][-40:]):
            out.append(" ")
        out.append(part)
        length += len(part)
        if length > LONGEST:
            break
    return "".join(out)


_COMMAND_AT_END = re.compile(r"\\[A-Za-z]+$")


def _symbols(text: str) -> str:
    """Return a text with commands for its symbols."""
    return _row([SYMBOLS.get(character, character) for character in text])


def _identifier(element: _MathElement, _: Sequence[str]) -> str:
    text = _text_of(element)
    if len(text) == 1:
        variant = element.attributes.get("mathvariant", "")
        command = _VARIANTS.get(variant)
        symbol = SYMBOLS.get(text, text)
        plain = command == "mathrm" and symbol.startswith("\\")
        return f"\\{command}{{{symbol}}}" if command and not plain else symbol
    if text in FUNCTIONS:
        return f"\\{text}"
    if text.isascii() and text.isalpha():
        return (
            f"\\operatorname{{{text}}}" if element.attributes.get("mathvariant") == "normal" else f"\\mathrm{{{text}}}"
        )
    return _symbols(text)


_VARIANTS = {
    "bold": "mathbf",
    "bold-italic": "boldsymbol",
    "double-struck": "mathbb",
    "script": "mathcal",
    "fraktur": "mathfrak",
    "sans-serif": "mathsf",
    "monospace": "mathtt",
    "normal": "mathrm",
}


def _operator(element: _MathElement, _: Sequence[str]) -> str:
    text = _text_of(element)
    if text in FUNCTIONS:
        return f"\\{text}"
    return {"{": "\\{", "}": "\\}", "%": "\\%", "&": "\\&", "#": "\\#"}.get(text) or _symbols(text)


def _words(element: _MathElement, _: Sequence[str]) -> str:
    text = "".join(element.text)
    if not text.strip():
        return "\\ " if text else ""
    shown = text.replace("\u00a0", " ")
    return f"\\text{{{shown}}}"


def _base(latex: str) -> str:
    """Return the base of an index, in braces if it is more than one symbol."""
    return latex if _SINGLE.match(latex) else f"{{{latex}}}"


_SINGLE = re.compile(r"^(?:.|\\[A-Za-z]+(?:\{[^{}]*\})?|\\.|\d+|)$", re.DOTALL)
_ATOM = re.compile(r"^(?:.|\\[A-Za-z]+)$", re.DOTALL)


def _script(mark: str, latex: str) -> str:
    if set(latex) <= {"'"} and latex and mark == "^":
        return latex
    return f"{mark}{latex}" if _ATOM.match(latex) else f"{mark}{{{latex}}}"


def _at(children: Sequence[str], place: int) -> str:
    return children[place] if place < len(children) else ""


def _indexed(*marks: str) -> Callable[[_MathElement, Sequence[str]], str]:
    def made(_: _MathElement, children: Sequence[str]) -> str:
        scripts = [
            _script(mark, _at(children, place)) for place, mark in enumerate(marks, start=1) if _at(children, place)
        ]
        return _base(_at(children, 0)) + "".join(scripts)

    return made


def _above(element: _MathElement, children: Sequence[str]) -> str:
    base, over = _at(children, 0), _at(children, 1)
    accent = ACCENTS.get(over)
    if accent:
        return f"\\{accent}{{{base}}}"
    if _takes_limits(base) or base.startswith(("\\overbrace", "\\underbrace")):
        return base + _script("^", over)
    return f"\\overset{{{over}}}{{{base}}}"


def _below(_: _MathElement, children: Sequence[str]) -> str:
    base, under = _at(children, 0), _at(children, 1)
    if under in ("\\underbrace", "\u23df"):
        return f"\\underbrace{{{base}}}"
    if under in ("_", "\u0332", "\\_"):
        return f"\\underline{{{base}}}"
    if _takes_limits(base) or base.startswith("\\underbrace"):
        return base + _script("_", under)
    return f"\\underset{{{under}}}{{{base}}}"


def _below_and_above(_: _MathElement, children: Sequence[str]) -> str:
    return _at(children, 0) + _script("_", _at(children, 1)) + _script("^", _at(children, 2))


def _takes_limits(base: str) -> bool:
    return base.startswith("\\") and base[1:] in _LIMITS


_LIMITS = frozenset(
    (
        "sum",
        "prod",
        "coprod",
        "int",
        "oint",
        "iint",
        "iiint",
        "bigcup",
        "bigcap",
        "bigoplus",
        "bigotimes",
        "bigvee",
        "bigwedge",
    )
) | frozenset(("lim", "max", "min", "sup", "inf", "limsup", "liminf", "arg", "det", "gcd", "Pr", "bigsqcup"))


def _fraction(element: _MathElement, children: Sequence[str]) -> str:
    over, under = _at(children, 0), _at(children, 1)
    if element.attributes.get("linethickness", "").strip() in ("0", "0px", "0pt", "0em"):
        return f"\\binom{{{over}}}{{{under}}}"
    return f"\\frac{{{over}}}{{{under}}}"


def _fenced(element: _MathElement, children: Sequence[str]) -> str:
    opening, closing = element.attributes.get("open", "("), element.attributes.get("close", ")")
    mark = element.attributes.get("separators", ",").strip()[:1]
    return f"\\left{_fence(opening)}{mark.join(children)}\\right{_fence(closing)}"


def _fence(text: str) -> str:
    return {"{": "\\{", "}": "\\}", "": "."}.get(text) or _symbols(text)


def _table(_: _MathElement, children: Sequence[str]) -> str:
    return "\\begin{matrix}" + " \\\\ ".join(children) + "\\end{matrix}"


def _group(_: _MathElement, children: Sequence[str]) -> str:
    matrix = children[1] if len(children) == 3 else ""
    if matrix.startswith("\\begin{matrix}") and matrix.endswith("\\end{matrix}"):
        name = _FENCED_MATRICES.get((children[0], children[2]))
        if name:
            return matrix.replace("{matrix}", f"{{{name}}}", 1)[: -len("{matrix}")] + f"{{{name}}}"
    return _row(children)


_FENCED_MATRICES = {
    ("(", ")"): "pmatrix",
    ("[", "]"): "bmatrix",
    ("|", "|"): "vmatrix",
    ("\\{", "\\}"): "Bmatrix",
}


def _before_and_after(element: _MathElement, children: Sequence[str]) -> str:
    """Return ``mmultiscripts``: scripts after ``mprescripts`` stand before the base."""
    scripts = element.tags
    split = scripts.index("mprescripts") if "mprescripts" in scripts else len(children)
    after, before = children[1:split], children[split + 1 :]
    return ("{}" + _pairs(before) if before else "") + _base(_at(children, 0)) + _pairs(after)


def _pairs(scripts: Sequence[str]) -> str:
    return "".join(_script("_^"[place % 2], latex) for place, latex in enumerate(scripts) if latex)


_MAKERS: Mapping[str, Callable[[_MathElement, Sequence[str]], str]] = {
    "mi": _identifier,
    "mn": lambda element, _: _text_of(element),
    "mo": _operator,
    "mtext": _words,
    "ms": _words,
    "mspace": lambda element, _: "\\\\ " if element.attributes.get("linebreak") == "newline" else "\\ ",
    "mrow": _group,
    "msup": _indexed("^"),
    "msub": _indexed("_"),
    "msubsup": _indexed("_", "^"),
    "mfrac": _fraction,
    "msqrt": lambda _, children: f"\\sqrt{{{_row(children)}}}",
    "mroot": lambda _, children: f"\\sqrt[{_at(children, 1)}]{{{_at(children, 0)}}}",
    "mover": _above,
    "munder": _below,
    "munderover": _below_and_above,
    "mfenced": _fenced,
    "mtable": _table,
    "mtr": lambda _, children: " & ".join(children),
    "mlabeledtr": lambda _, children: " & ".join(children[1:]),
    "mphantom": lambda _, children: f"\\phantom{{{_row(children)}}}",
    "menclose": lambda element, children: (
        f"\\sqrt{{{_row(children)}}}"
        if element.attributes.get("notation") == "radical"
        else f"\\boxed{{{_row(children)}}}"
    ),
    "mmultiscripts": _before_and_after,
    "none": lambda _, __: "",
    "mprescripts": lambda _, __: "",
}
