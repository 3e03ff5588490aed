"""Threads and kinds of pages: posts that come back from forums, and kinds by structure alone.

``python -m benchmarks.html_threads --texts FILE --input FILE [--structure DIR] [--pages 20] [--json FILE]``

Threads are made of sentences of the texts in the markup of programs for forums: of those that the rules were made with
(tuned), of others whose results corrected the rules once (corrected), and of those that were written last (unseen). Kinds are compared with what is known of a page: threads are forums, the pages with ``truth_text`` of the
input are articles, those of ``benchmarks.make_html_pages`` documentation, and products, listings and other pages are
made here, and were seen as rules were made.
JSON-LD, OpenGraph and ``<meta name=generator>`` are left out of what the rule sees.
"""

# ruff: noqa: E501 - markup is read best on a line

from __future__ import annotations

import argparse
import html
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import called, machine, save, table, versions
from benchmarks.rows import read_rows, texts
from dcurate.text import DcurateExtractor
from dcurate.text.extract.algorithms import ThreadTurn
from dcurate.text.extract.page_kind import KINDS, kind_by_structure
from dcurate.text.extract.structure_reader import StructureReader
from dcurate.text.extract.threads import posts_of
from dcurate_testing.made_threads import OTHERS, TUNED, UNSEEN, MadePost, Template, made_posts

_MENU = "<nav><ul><li><a href='/'>Home</a></li><li><a href='/shop'>Shop</a></li></ul></nav>"
_END = "<footer><p>All rights reserved.</p></footer>"


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def judged(posts: Sequence[MadePost], turns: Sequence[ThreadTurn]) -> Counter[str]:
    """Count the posts of a thread, and the turns in which the author, the date or the text is right."""
    counts = Counter(posts=len(posts), turns=len(turns))
    by_text = {" ".join(words(turn.text)): turn for turn in turns}
    for post in posts:
        turn = by_text.get(" ".join(words(post.text)))
        counts["text"] += turn is not None
        counts["author"] += turn is not None and turn.author == post.author
        counts["date"] += turn is not None and words(post.date) == words(turn.date)
    order = [turn.text for turn in turns]
    counts["threads in order"] += len(turns) == len(posts) and [words(text) for text in order] == [
        words(post.text) for post in posts
    ]
    return counts


def measured(template: Template, sentences: Sequence[str], pages: int) -> tuple[Counter[str], list[str]]:
    chance = random.Random(template.__name__)
    extractor = DcurateExtractor()
    counts: Counter[str] = Counter()
    made = []
    for number in range(pages):
        posts = made_posts(sentences, chance)
        page = template(f"On matter {number}", posts)
        counts += judged(posts, extractor.extract_with_structure(page, frozenset(), "").turns)
        made.append(page)
    return counts, made


def products(sentences: Sequence[str], pages: int) -> Iterator[str]:
    """Yield pages of products in four layouts of shops."""
    chance = random.Random("products")
    for number in range(pages):
        prose = html.escape(" ".join(chance.choices(sentences, k=chance.randint(1, 8))))
        price = f"{chance.randint(1, 900)}.{chance.randint(10, 99)}"
        others = "".join(
            f"<li class='product'><a href='/p{n}'><h3>Another product number {n}</h3><span class='price'>$ {n}.00</span></a></li>"
            for n in range(chance.randint(0, 4))
        )
        yield (
            f"<body>{_MENU}<div class='product'><h1>Thing {number}</h1><p class='price'><bdi>${price}</bdi></p><div>{prose}</div><form class='cart' method='post'><button type='submit' class='single_add_to_cart_button button'>Add to cart</button></form></div><ul>{others}</ul>{_END}",
            f"<body>{_MENU}<h1>Thing {number}</h1><span class='current-price'>{price} EUR</span><p>{prose}</p><button id='b' class='btn add-to-cart' data-button-action='add-to-cart'>In den Warenkorb</button>{_END}",
            f"<body>{_MENU}<product-info><h1>Thing {number}</h1><div class='price__regular'><span class='price-item'>${price}</span></div><form action='/cart/add' method='post'><button name='add'>Add</button></form><div>{prose}</div></product-info>{_END}",
            f"<body>{_MENU}<div itemscope itemtype='https://schema.org/Product'><h1 itemprop='name'>Thing {number}</h1><span itemprop='price' content='{price}'>{price}</span><p itemprop='description'>{prose}</p><a class='buy' href='/basket?add={number}'>Buy now</a></div>{_END}",
        )[number % 4]


def listings(sentences: Sequence[str], pages: int) -> Iterator[str]:
    """Yield pages that list others: news, products, topics of a forum, results of a search."""
    chance = random.Random("listings")
    for number in range(pages):
        entries = [(n, html.escape(chance.choice(sentences))) for n in range(chance.randint(6, 30))]
        forms = (
            ("<article class='teaser'><h2><a href='/{0}'>The title of article number {0}</a></h2><p>{1}</p></article>", "<h1>News</h1>{}"),
            ("<li class='product'><a href='/{0}'><h3>Product with the number {0}</h3><span class='price'>$ {0}.99</span></a><a class='add_to_cart_button add-to-cart'>Add to cart</a></li>", "<h1>Shop</h1><ul>{}</ul>"),
            ("<tr><td><a href='/t{0}'>Topic of the forum, number {0}</a></td><td>by <a href='/u/1'>anna</a></td><td>12</td><td>Jan 3, 2020</td></tr>", "<h1>Forum</h1><table>{}</table>"),
            ("<div class='g'><a href='/r{0}'><h3>Result of the search, number {0}</h3></a><cite>example.org</cite><p>{1}</p></div>", "<h1>Search</h1>{}"),
        )  # fmt: skip
        entry, around = forms[number % 4]
        yield f"<body>{_MENU}{around.format(''.join(entry.format(*values) for values in entries))}{_END}"


def others(sentences: Sequence[str], pages: int) -> Iterator[str]:
    """Yield pages of no such kind: a form, a login, an error, a contact."""
    chance = random.Random("others")
    for number in range(pages):
        line = html.escape(chance.choice(sentences))
        yield (
            f"<body>{_MENU}<h1>Log in</h1><form><label>Name<input name=n></label><button>Go</button></form>{_END}",
            f"<body>{_MENU}<h1>404</h1><p>The page is not there.</p><p>{line}</p>{_END}",
            f"<body>{_MENU}<h1>Contact</h1><address>Street {number}, Town</address><p>Call us: 555 0123</p>{_END}",
            f"<body>{_MENU}<h1>Welcome</h1><p>{line}</p><a href='/start'>Start</a>{_END}",
        )[number % 4]


def kind_of_page(extractor: DcurateExtractor, page: str) -> str:
    """Return the kind by structure alone."""
    structure = extractor.read_by(StructureReader, page).structure
    signals = extractor.extract_parts(page, frozenset(), "").signals
    assert signals is not None
    return kind_by_structure(structure, posts_of(structure), signals)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--texts", type=Path, required=True, help="JSONL with the column text: where prose is taken from"
    )
    parser.add_argument("--input", type=Path, required=True, help="JSONL with the column html: articles")
    parser.add_argument("--structure", type=Path, help="a folder of benchmarks.make_html_pages: documentation")
    parser.add_argument("--pages", type=int, default=20, help="pages of each template")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args(arguments)
    pattern = r"[A-Z][a-z]+ [a-z][a-z ,]{40,160}[a-z]\.(?= )"
    sentences = sorted({sentence for text in texts(options.texts, 3) for sentence in re.findall(pattern, text)})
    before = machine()
    names = ("text", "author", "date")
    rows: list[list[Any]] = []
    pages: dict[str, list[str]] = defaultdict(list)
    figures: dict[str, Any] = {}
    for group, templates in (("tuned", TUNED), ("corrected", OTHERS), ("unseen", UNSEEN)):
        total: Counter[str] = Counter()
        for template in templates:
            counts, made = measured(template, sentences, options.pages)
            pages["forum"] += made
            total += counts
            figures[template.__name__] = {"group": group, **counts}
            rows.append([group, template.__name__, *_row(counts, names, options.pages)])
        figures[group] = dict(total)
        rows.append([group, "all", *_row(total, names, options.pages * len(templates))])
    pages["article"] = [row["html"] for row in read_rows(options.input, {"html": str}).rows]
    if options.structure:
        pages["documentation"] = [
            row["html"] for row in read_rows(options.structure / "pages.jsonl", {"html": str}).rows
        ]
    for name, make in (("product", products), ("listing", listings), ("other", others)):
        pages[name] = list(make(sentences, 2 * options.pages))
    extractor = DcurateExtractor()
    extractor.load()
    begin = time.process_time()
    kinds = {name: Counter(kind_of_page(extractor, page) for page in made) for name, made in pages.items()}
    structured_s = time.process_time() - begin
    begin = time.process_time()
    for made in pages.values():
        for page in made:
            extractor.extract_parts(page, frozenset(), "")
    parts_s = time.process_time() - begin
    print("Part of posts whose text, author and date come back, turns for each post, threads whole and in order\n")
    print(table(["group", "template", *names, "turns/post", "whole"], rows))
    print("\nKinds by structure alone: rows are what pages are, columns what was said\n")
    print(
        table(
            ["kind", "pages", *KINDS], [[n, len(pages[n]), *(kinds[n][k] for k in KINDS)] for n in KINDS if n in kinds]
        )
    )
    print(f"\nWith kinds and turns, a page takes {structured_s / parts_s:.1f} times the CPU time")
    save(
        options.json,
        {
            "machine": before,
            "versions": versions("dcurate", "lxml"),
            "threads": figures,
            "kinds": {name: dict(counts) for name, counts in kinds.items()},
            "cpu_ratio": structured_s / parts_s,
        },
    )


def _row(counts: Counter[str], names: Sequence[str], threads: int) -> list[str]:
    shares = [f"{counts[name] / counts['posts']:.3f}" for name in names]
    return [*shares, f"{counts['turns'] / counts['posts']:.2f}", f"{counts['threads in order'] / threads:.2f}"]


if __name__ == "__main__":
    called(main)
