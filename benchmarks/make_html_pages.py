"""Pages of known structure, by real generators: a development set for ``benchmarks.html_structure``.

``python -m benchmarks.make_html_pages --texts FILE --output DIR [--python PYTHON] [--node DIR] [--pages 12] [--seed 1]``

A document is a title, prose, nested lists, code, tables and formulas. Each generator renders documents of its own.
PYTHON is an interpreter that has pypandoc_binary, sphinx with its themes, mkdocs with mkdocs-material and
pymdown-extensions, nbconvert and pygments; DIR holds the node_modules of highlight.js, prismjs, katex, marked,
mathjax-full and asciidoctor. What is missing is said and left out. None of them is needed by dcurate.
"""

# ruff: noqa: E501 - markup and scripts are read best on a line

from __future__ import annotations

import argparse
import html
import json
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.measure import called
from benchmarks.rows import texts

CODE: Mapping[str, Sequence[str]] = {
    "python": (
        "def mean(values):\n    total = 0\n\n    for value in values:\n        total += value\n\n\n    return total / len(values)",
        ">>> a = [1, 2]\n>>> a[0] < 2 and 'x' or \"y\"\n'x'",
    ),
    "c": (
        '#include <stdio.h>\n\nint main(void)\n{\n\tfor (int i = 0; i < 3 && 1; i++)\n\t\tprintf("%d\\n", i);\n\treturn 0;\n}',
    ),
    "html": ('<ul class="menu">\n  <li>a &amp; b</li>\n\n  <!-- none -->\n</ul>',),
    "bash": (
        "for file in *.txt; do\n  echo \"$file\" | sed 's/a/b/'\ndone",
        "$ ls -l\ntotal 0\n\n$ cat <<EOF\n> x\n> EOF",
    ),
    "rust": ('fn main() {\n    let x: Vec<&str> = vec!["a"];\n\n    println!("{:?}", x);\n}',),
    "json": ('{\n  "a": [1, 2, {"b": null}],\n\n  "c": "d"\n}',),
}
FORMULAS = (
    r"e^{i\pi}+1=0",
    r"\frac{a+b}{c}",
    r"\sqrt{x^2+y^2}",
    r"\sum_{i=1}^{n}x_i",
    r"\int_{0}^{1}f(x)dx",
    r"\alpha+\beta\leq\gamma",
    r"x_{k+1}=x_k-\eta\nabla f(x_k)",
    r"A\subseteq B\cup C",
)
WORDS = (
    "size",
    "name",
    "rate",
    "depth",
    "yes",
    "no",
    "3.5",
    "12",
    "north",
    "left",
    "x < 3",
    "",
    "old and new",
    "100 %",
)


@dataclass
class MadeDocument:
    """What a page says: blocks in order, each a kind and its content."""

    title: str
    blocks: list[tuple[str, Any]] = field(default_factory=list)

    def of(self, kind: str) -> list[Any]:
        return [content for name, content in self.blocks if name == kind]


def documents(sentences: Sequence[str], seed: str, count: int, tabs: bool) -> Iterator[MadeDocument]:
    chance = random.Random(seed)

    def prose(least: int, most: int) -> str:
        return " ".join(chance.choice(sentences) for _ in range(chance.randint(least, most)))

    for number in range(count):
        document = MadeDocument(f"On the {chance.choice(('size', 'form', 'use', 'past'))} of things, part {number + 1}")
        add = document.blocks.append
        add(("p", prose(2, 5)))
        for section in range(chance.randint(2, 4)):
            add(("h", f"Section {section + 1}: {chance.choice(sentences)[:40].strip()}"))
            add(("p", prose(2, 6)))
            for kind in chance.sample(("code", "table", "inline", "display", "list", "code"), k=4):
                if kind == "code":
                    language = chance.choice(list(CODE))
                    code = chance.choice(CODE[language])
                    add(("code", (language, code if tabs else code.replace("\t", "    "))))
                elif kind == "table":
                    width = chance.randint(2, 4)
                    head = [f"{chance.choice(('Key', 'Value', 'Part', 'Sum'))} {at}" for at in range(width)]
                    body = [[chance.choice(WORDS) for _ in range(width)] for _ in range(chance.randint(2, 5))]
                    add(("table", [head, *([f"row {at}", *row[1:]] for at, row in enumerate(body))]))
                elif kind == "list":
                    add(
                        (
                            "list",
                            [
                                (chance.choice(sentences), [chance.choice(sentences)] * chance.randint(0, 1))
                                for _ in range(3)
                            ],
                        )
                    )
                else:
                    add((kind, (chance.choice(sentences), chance.choice(FORMULAS), chance.choice(sentences))))
                add(("p", prose(1, 3)))
        yield document


def text_of(document: MadeDocument) -> str:
    parts: list[str] = []
    for kind, content in document.blocks:
        if kind in ("p", "h"):
            parts.append(content)
        elif kind == "code":
            parts.append(content[1])
        elif kind == "table":
            parts += [" | ".join(row) for row in content]
        elif kind == "list":
            parts += [line for item, inner in content for line in (item, *inner)]
        else:
            parts.append(" ".join(content))
    return "\n\n".join(parts)


def markdown(document: MadeDocument, title: bool = True) -> str:
    parts = [f"# {document.title}"] if title else []
    for kind, content in document.blocks:
        if kind == "p":
            parts.append(content)
        elif kind == "h":
            parts.append(f"## {content}")
        elif kind == "code":
            parts.append(f"```{content[0]}\n{content[1]}\n```")
        elif kind == "table":
            head, *body = (["| " + " | ".join(cell or " " for cell in row) + " |"] for row in content)
            parts.append("\n".join([*head, "|" + " --- |" * len(content[0]), *(row for (row,) in body)]))
        elif kind == "list":
            parts.append(
                "\n".join(f"- {item}" + "".join(f"\n    - {each}" for each in inner) for item, inner in content)
            )
        elif kind == "inline":
            parts.append(f"{content[0]} ${content[1]}$ {content[2]}")
        else:
            parts.append(f"{content[0]}\n\n$$\n{content[1]}\n$$\n\n{content[2]}")
    return "\n\n".join(parts) + "\n"


def asciidoc(document: MadeDocument) -> str:
    parts = [f"= {document.title}\n:stem: latexmath"]
    for kind, content in document.blocks:
        if kind == "h":
            parts.append(f"== {content}")
        elif kind == "p":
            parts.append(f"pass:c[{content}]")
        elif kind == "code":
            parts.append(f"[source,{content[0]}]\n....\n{content[1]}\n....".replace("....", "-----"))
        elif kind == "table":
            rows = [" ".join(f"|{cell}" for cell in row) for row in content]
            parts.append('[options="header"]\n|===\n' + "\n".join(rows) + "\n|===")
        elif kind == "list":
            parts.append("\n".join(f"* {item}" + "".join(f"\n** {each}" for each in inner) for item, inner in content))
        elif kind == "inline":
            parts.append(f"{content[0]} latexmath:[{content[1]}] {content[2]}")
        else:
            parts.append(f"{content[0]}\n\n[latexmath]\n++++\n{content[1]}\n++++\n\n{content[2]}")
    return "\n\n".join(parts) + "\n"


# Templates: what a site puts around the content

_LINKS = "".join(f"<li><a href='/{n}'>{n}</a></li>" for n in ("Home", "News", "Shop", "About us", "Contact", "Terms"))
_POSTS = "".join(
    f"<div class='card'><h3><a href='/p{n}'>Another page of this site, number {n}</a></h3><p>What it is about.</p></div>"
    for n in range(6)
)
BOILERPLATE = (
    "We use cookies to make this site work.",
    "Another page of this site, number 3",
    "I could not agree more with this.",
)


def blog(title: str, body: str, head: str) -> str:
    return (
        f"<!DOCTYPE html><html lang='en'><head><title>{title} | A blog</title>{head}</head><body>"
        f"<div class='cookie-banner'><p>{BOILERPLATE[0]}</p><button>Accept</button></div><header><nav><ul>{_LINKS}</ul></nav></header>"
        f"<div class='wrap'><main><article class='post'><h1>{title}</h1><div class='entry-content'>{body}</div>"
        "<div class='share-buttons'><a href='/f'>Share this</a></div></article>"
        f"<section class='related-posts'><h2>Related</h2>{_POSTS}</section><section id='comments' class='comments'><h2>2 comments</h2>"
        f"<ol class='comment-list'><li class='comment'><p>{BOILERPLATE[2]}</p></li><li class='comment'><p>Thanks for writing it down.</p></li></ol>"
        "</section></main><aside class='sidebar'><h3>Newsletter</h3><p>Get one mail a week with all that is new here.</p></aside></div>"
        f"<footer><ul>{_LINKS}</ul><p>All rights reserved</p></footer></body></html>"
    )


def layout(title: str, body: str, head: str) -> str:
    return (
        f"<html><head><title>{title}</title>{head}</head><body bgcolor=white><table width='100%'><tr><td colspan=2><font size=6>My home page"
        f"</font></td></tr><tr><td width=150 valign=top><ul>{_LINKS}</ul></td><td valign=top><h1>{title}</h1>{body}</td></tr>"
        f"<tr><td colspan=2 class='footer'><small>{BOILERPLATE[0]}</small></td></tr></table></body></html>"
    )


def forum(title: str, body: str, head: str) -> str:
    post = "<div class='post'><div class='post-author'><a href='/u'>{0}</a><br>Posts: 12</div><div class='post-body'>{1}</div></div>"
    return (
        f"<html><head><title>{title} - Forum</title>{head}</head><body><div class='navbar'><ul>{_LINKS}</ul></div><div class='topic'><h1>{title}</h1>"
        f"{post.format('anna', body)}</div><div class='breadcrumbs'><a href='/'>Forum</a> &raquo; <a href='/x'>Talk</a></div>"
        f"<div class='related'>{_POSTS}</div><div id='footer'>Powered by a forum</div></body></html>"
    )


# Generators: each gives the HTML of documents, in order

Renderer = Callable[[Sequence[MadeDocument], "Generators", Path], list[str]]


@dataclass
class Generators:
    python: str
    node: Path | None

    def run(self, *arguments: str, **more: Any) -> str:
        done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=1_800, **more)
        if done.returncode:
            raise OSError(done.stderr.strip()[-400:])
        return done.stdout


def pandoc(*options: str, standalone: bool = True) -> Renderer:
    def rendered(found: Sequence[MadeDocument], tools: Generators, folder: Path) -> list[str]:
        program = tools.run(tools.python, "-c", "import pypandoc; print(pypandoc.get_pandoc_path())").strip()
        pages = []
        for document in found:
            page = tools.run(
                program, "-f", "markdown", "-t", "html5", "--preserve-tabs", *(["-s"] if standalone else []), *options,
                "-M", f"pagetitle={document.title}", input=markdown(document, standalone),
            )  # fmt: skip
            pages.append(page if standalone else blog(html.escape(document.title), page, ""))
        return pages

    return rendered


def sphinx(theme: str) -> Renderer:
    def rendered(found: Sequence[MadeDocument], tools: Generators, folder: Path) -> list[str]:
        program = tools.run(tools.python, "-c", "import pypandoc; print(pypandoc.get_pandoc_path())").strip()
        (folder / "conf.py").write_text(
            f"project='Things'\nhtml_theme={theme!r}\nextensions=['sphinx.ext.mathjax']\nsmartquotes=False\n"
        )
        names = [f"page{number}" for number in range(len(found))]
        for name, document in zip(names, found, strict=True):
            (folder / f"{name}.rst").write_text(
                tools.run(program, "-f", "markdown", "-t", "rst", "--wrap=none", input=markdown(document))
            )
        (folder / "index.rst").write_text(
            "Things\n======\n\n.. toctree::\n\n" + "".join(f"   {name}\n" for name in names)
        )
        tools.run(tools.python, "-m", "sphinx", "-q", "-b", "html", str(folder), str(folder / "out"))
        return [(folder / "out" / f"{name}.html").read_text() for name in names]

    return rendered


def mkdocs(theme: str) -> Renderer:
    def rendered(found: Sequence[MadeDocument], tools: Generators, folder: Path) -> list[str]:
        (folder / "docs").mkdir()
        extensions = "[fenced_code, tables, {pymdownx.arithmatex: {generic: true}}, {pymdownx.highlight: {linenums: true}}, pymdownx.superfences]"
        (folder / "mkdocs.yml").write_text(
            f"site_name: Things\nplugins: []\ntheme: {{name: {theme}}}\nmarkdown_extensions: {extensions}\n"
        )
        (folder / "docs" / "index.md").write_text("# Things\n")
        for number, document in enumerate(found):
            (folder / "docs" / f"page{number}.md").write_text(markdown(document))
        tools.run(
            tools.python, "-m", "mkdocs", "-q", "build", "-f", str(folder / "mkdocs.yml"), "-d", str(folder / "out")
        )
        return [(folder / "out" / f"page{number}" / "index.html").read_text() for number in range(len(found))]

    return rendered


def notebook(found: Sequence[MadeDocument], tools: Generators, folder: Path) -> list[str]:
    files = []
    for number, document in enumerate(found):
        cells = []
        for part in re.split(r"(```python\n.*?\n```)", markdown(document), flags=re.DOTALL):
            code = part.startswith("```python")
            source = part.removeprefix("```python\n").removesuffix("\n```") if code else part.strip()
            if source:
                extra = {"outputs": [], "execution_count": number + 1} if code else {}
                cells.append({"cell_type": "code" if code else "markdown", "metadata": {}, "source": source, **extra})
        file = folder / f"page{number}.ipynb"
        kernel = {"language_info": {"name": "python"}}
        file.write_text(json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 4}))
        files.append(file)
    tools.run(tools.python, "-m", "nbconvert", "--to", "html", *map(str, files))
    return [file.with_suffix(".html").read_text() for file in files]


_SCRIPT = r"""
const fs = require('fs'); const [kind, math] = process.argv.slice(2); const given = JSON.parse(fs.readFileSync(0));
const escape = text => text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');
const code = {
  hljs: (text, lang) => `<pre><code class="hljs language-${lang}">${require('highlight.js').highlight(text, {language: lang === 'html' ? 'xml' : lang}).value}</code></pre>`,
  prism: (text, lang) => { const Prism = require('prismjs'); require('prismjs/components/')([lang]);
    return `<pre class="language-${lang}"><code class="language-${lang}">${Prism.highlight(text, Prism.languages[lang], lang)}</code></pre>`; },
};
let tex;
if (math === 'katex') tex = (latex, display) => require('katex').renderToString(latex, {displayMode: display});
if (math === 'mathml') {
  const {mathjax} = require('mathjax-full/js/mathjax.js'); const {TeX} = require('mathjax-full/js/input/tex.js');
  const {liteAdaptor} = require('mathjax-full/js/adaptors/liteAdaptor.js'); const {RegisterHTMLHandler} = require('mathjax-full/js/handlers/html.js');
  const {SerializedMmlVisitor} = require('mathjax-full/js/core/MmlTree/SerializedMmlVisitor.js'); const {STATE} = require('mathjax-full/js/core/MathItem.js');
  RegisterHTMLHandler(liteAdaptor()); const doc = mathjax.document('', {InputJax: new TeX()}); const visitor = new SerializedMmlVisitor();
  tex = (latex, display) => visitor.visitTree(doc.convert(latex, {display, end: STATE.CONVERT}));
}
const row = (cells, tag) => '<tr>' + cells.map(cell => `<${tag}>${escape(cell)}</${tag}>`).join('') + '</tr>';
const block = ([name, is]) => {
  if (name === 'p') return `<p>${escape(is)}</p>`;
  if (name === 'h') return `<h2>${escape(is)}</h2>`;
  if (name === 'code') return code[kind](is[1], is[0]);
  if (name === 'table') return '<table class="table"><thead>' + row(is[0], 'th') + '</thead><tbody>' + is.slice(1).map(r => row(r, 'td')).join('\n') + '</tbody></table>';
  if (name === 'list') return '<ul>' + is.map(([item, inner]) => `<li>${escape(item)}` + (inner.length ? `<ul><li>${escape(inner[0])}</li></ul>` : '') + '</li>').join('\n') + '</ul>';
  if (name === 'inline') return `<p>${escape(is[0])} ${tex(is[1], false)} ${escape(is[2])}</p>`;
  return `<p>${escape(is[0])}</p><div class="equation">${tex(is[1], true)}</div><p>${escape(is[2])}</p>`;
};
console.log(JSON.stringify(given.map(blocks => blocks.map(block).join('\n'))));
"""
_ASCIIDOCTOR = r"""
const made = require('asciidoctor'); const Asciidoctor = made.default || made; const given = JSON.parse(require('fs').readFileSync(0));
(async () => { const processor = typeof Asciidoctor === 'function' ? Asciidoctor() : Asciidoctor; const out = [];
for (const text of given) out.push(String(await processor.convert(text, {standalone: true, safe: 'safe', attributes: {linkcss: true}})));
console.log(JSON.stringify(out)); })();
"""


def node(script: str, arguments: Sequence[str], given: Any, tools: Generators) -> list[str]:
    if tools.node is None:
        raise OSError("no --node was given")
    found: list[str] = json.loads(
        tools.run("node", "-e", script, "-", *arguments, input=json.dumps(given), cwd=tools.node)
    )
    return found


def rendered_by_node(kind: str, math: str, template: Callable[[str, str, str], str]) -> Renderer:
    def rendered(found: Sequence[MadeDocument], tools: Generators, folder: Path) -> list[str]:
        script = _SCRIPT.replace("process.argv.slice(2)", "process.argv.slice(-2)")
        bodies = node(script, [kind, math], [document.blocks for document in found], tools)
        return [template(html.escape(document.title), body, "") for document, body in zip(found, bodies, strict=True)]

    return rendered


def asciidoctor(found: Sequence[MadeDocument], tools: Generators, folder: Path) -> list[str]:
    return node(_ASCIIDOCTOR, [], [asciidoc(document) for document in found], tools)


#: By name: what renders, and whether it keeps tabs.
GENERATORS: Mapping[str, tuple[Renderer, bool]] = {
    "pandoc-mathml": (pandoc("--mathml"), True),
    "pandoc-mathjax": (pandoc("--mathjax"), True),
    "pandoc-katex-blog": (pandoc("--katex", standalone=False), True),
    "sphinx-alabaster": (sphinx("alabaster"), False),
    "sphinx-furo": (sphinx("furo"), False),
    "sphinx-rtd": (sphinx("sphinx_rtd_theme"), False),
    "sphinx-pydata": (sphinx("pydata_sphinx_theme"), False),
    "mkdocs": (mkdocs("mkdocs"), False),
    "mkdocs-material": (mkdocs("material"), False),
    "nbconvert": (notebook, True),
    "hljs-katex-blog": (rendered_by_node("hljs", "katex", blog), True),
    "prism-mathml-layout": (rendered_by_node("prism", "mathml", layout), True),
    "hljs-mathml-forum": (rendered_by_node("hljs", "mathml", forum), True),
    "asciidoctor": (asciidoctor, True),
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--texts", type=Path, required=True, help="JSONL with the column text: where prose is taken from"
    )
    parser.add_argument("--output", type=Path, required=True, help="the folder for pages.jsonl and truth.jsonl")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has the generators")
    parser.add_argument("--node", type=Path, help="the folder that holds node_modules")
    parser.add_argument("--pages", type=int, default=12, help="pages by each generator")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    sentences = sorted(
        {
            each
            for text in texts(given.texts, 3)
            for each in re.findall(r"[A-Z][a-z]+ [a-z][a-z ,]{40,160}[a-z]\.(?= )", text)
        }
    )
    given.output.mkdir(parents=True, exist_ok=True)
    tools = Generators(given.python, given.node)
    pages, truths, missing = [], [], []
    for name, (renderer, tabs) in GENERATORS.items():
        found = list(documents(sentences, f"{given.seed} {name}", given.pages, tabs))
        with tempfile.TemporaryDirectory() as folder:
            try:
                made = renderer(found, tools, Path(folder))
            except (OSError, subprocess.TimeoutExpired) as error:
                missing.append(f"{name}: {str(error)[-200:]}")
                continue
        for number, (document, page) in enumerate(zip(found, made, strict=True)):
            key = f"{name}-{number}"
            pages.append(
                {
                    "id": key,
                    "url": f"https://example.org/{key}",
                    "html": page,
                    "generator": name,
                    "kind": "documentation",
                }
            )
            code = document.of("code")
            formulas = [content[1] for kind in ("inline", "display") for content in document.of(kind)]
            truths.append(
                {
                    "id": key,
                    "text": text_of(document),
                    "title": document.title,
                    "code": [each for _, each in code],
                    "code_lang": [language for language, _ in code],
                    "tables": document.of("table"),
                    "formulas": formulas,
                    "boilerplate": list(BOILERPLATE),
                }
            )
    for file, rows in (("pages.jsonl", pages), ("truth.jsonl", truths)):
        (given.output / file).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    print(f"{len(pages)} pages by {len(GENERATORS) - len(missing)} generators")
    print("".join(f"left out: {each}\n" for each in missing), end="")


if __name__ == "__main__":
    called(main)
