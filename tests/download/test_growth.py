"""The time of extractors grows with the length of what is downloaded, of hostile markup too."""

from __future__ import annotations

import gzip
import io
import itertools
import re
import string
import tarfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from mwparserfromhell.parser import CTokenizer, tokens  # type: ignore[attr-defined]

from dcurate.download import ArxivExtractor, ArxivIterator, CommonCrawlHTMLExtractor, Skipped, WikipediaExtractor
from dcurate.download.wikipedia import reading
from dcurate.rights.robots import Robots
from tests.growth import SHORT, assert_linear, assert_quick, pairs, patterns, singles

WIKI = [
    *(
        "{{",
        "{{a|",
        "}}",
        "{|",
        "|}",
        "{{{a|",
        "}}}",
        "[[",
        "[[a|",
        "]]",
        "[[File:a|",
        "[[http://a ",
        "[http://a ",
        "]",
    ),
    *("<ref>", "<ref", "<ref name=a>", "</ref>", "<!--", "-->", "<nowiki>", "</nowiki>", "''", "'''", "\n==", "=", "&"),
    *(
        "&#",
        "\n*",
        "\n:",
        "|",
        "\n|-",
        "\n!",
        "||",
        "<b>",
        "<div ",
        "<div a='",
        "__",
        "a",
        " ",
        "\n",
        "http://",
        "----",
    ),
    *("<table>", "<li>", "{{a|<li>x}}", "{{a|[[b}}]]", "\n{|\n|", "=a", "<b></i>", "{{a|b="),
]
LATEX = [
    *("\\def\\a{", "\\def\\a", "\\newcommand", "\\newcommand{\\a}{", "\\newcommand{", "\\section{", "\\section[", "]"),
    *("\\section ", "\\a", "{", "}", "\\", "%", "\n", " ", "[", "\\begin{", "a", "\\\\", "\\appendix", "\\def\\a{x}"),
]

#: What the pages of Common Crawl hold beside what the tests of extractors of pages have.
PAGES = [
    "<title ",
    "<title>",
    "<meta ",
    "<meta charset=",
    "charset",
    "<?xml ",
    "\x1b$B",
    "\x01",
    "é",
    "\xa0",
    "中",
    "x ",
    "\n",
]
EXTRACTORS = (ArxivExtractor, CommonCrawlHTMLExtractor, WikipediaExtractor)


def wiki_text(markup: str) -> dict[str, str] | Skipped | None:
    record = {"title": "T", "id": "1", "url": "u", "language": "en", "source_id": "s", "raw_content": markup}
    return WikipediaExtractor("en").extract(record)


def latex_text(tex: str) -> dict[str, str] | Skipped | None:
    return ArxivExtractor().extract({"id": "1", "source_id": "s", "content": ["\\section{A} " + tex]})


def names() -> itertools.chain[str]:
    return itertools.chain.from_iterable(
        map("".join, itertools.product(string.ascii_lowercase, repeat=size)) for size in itertools.count(3)
    )


def macros(definition: str, call: str = "") -> Callable[[int], str]:
    """Macros of other names, each of which may expand to the next, and calls of them."""

    def made(length: int) -> str:
        one, other = itertools.tee(names())
        next(other)
        parts, size = [], 0
        for name, following in zip(one, other, strict=False):
            parts.append(definition.replace("NAME", name).replace("NEXT", following) + call.replace("NAME", name))
            size += len(parts[-1])
            if size >= length:
                return "".join(parts)
        raise AssertionError

    return made


MACROS = [
    macros("\\def\\NAME{x}", " \\NAME"),
    macros("\\newcommand{\\NAME}{x}", " \\NAME"),
    macros("\\def\\NAME{\\NEXT}"),
    macros("\\def\\NEXT{\\NAME}"),
    macros("\\def\\NAME{\\NEXT\\NEXT}"),
    lambda length: "\\def\\a{" + "x" * 9_000 + "}" + "\\a" * (length // 2),
    lambda length: "\\section[" * (length // 18) + "]" + " " * (length // 2),
]


def test_wiki_markup_that_goes_to_the_reader_in_c_takes_linear_time() -> None:
    def read(markup: str) -> None:
        if reading.is_plain(markup):
            wiki_text(markup)

    assert_linear(read, singles(WIKI), SHORT)
    assert_linear(read, pairs(WIKI[:6]), (4_000, 16_000))


def test_long_wiki_markup_takes_linear_time() -> None:
    assert_linear(wiki_text, singles(["{{a|", "[[a|", "<ref>", "<!--", "a"]), (30_000, 300_000))


def test_wiki_markup_of_any_pattern_is_read_or_set_aside_within_the_steps_it_may_take() -> None:
    for pattern in patterns(WIKI, []):
        for length in (500, 2_000):
            found = wiki_text(pattern(length))
            assert not isinstance(found, Skipped) or found.reason == "tangled markup"


@pytest.mark.parametrize("levels", [5, 12, 40])
def test_tables_within_tables_are_not_read_twice_at_each_level(levels: int) -> None:
    markup = "x"
    for _ in range(levels):
        markup = "{{a|\n{|\n|" + markup + "|x\n|}\n}}"
    assert_quick(partial(wiki_text, markup), 5)  # 40 levels took weeks


def test_a_page_whose_openings_nothing_closes_is_set_aside_with_the_reason() -> None:
    found = wiki_text("A town. " + "{{a|" * 2_000)
    assert isinstance(found, Skipped)
    assert (found.reason, found.fault) == ("tangled markup", True)
    assert "unclosed" in found.detail


def test_a_line_of_signs_of_a_heading_neither_crashes_nor_hangs() -> None:
    for end in ("", "\n", "{{"):  # so many calls within each other crashed the reader in C
        assert isinstance(wiki_text("=a" * 300_000 + end), Skipped)


#: A tag whose name ends its line, which the reader in C takes for text.
NAME_ENDS_LINE = re.compile(r"<[a-z]+\n")
MARKS = st.sampled_from([*WIKI, "{{b}}", "[[c]]", "<br/>", "text ", "\n", "''i''", "'''''", "<ref name='x'/>"])


@settings(max_examples=300, deadline=None)
@given(st.lists(MARKS, max_size=12).map("".join))
@example("'''''a''b'''")
@example("{{a|[[b}}]]")
@example("http://{{b}} ")
def test_both_readers_of_wiki_markup_give_the_same_tokens(markup: str) -> None:
    assume(not NAME_ENDS_LINE.search(markup))
    assert reading._counting()(markup).tokenize(markup, 0, False) == CTokenizer().tokenize(markup, 0, False)


def test_only_the_reader_in_python_finds_a_tag_whose_name_ends_its_line() -> None:
    markup = "<ref\nname=a>b</ref>"
    assert [type(token) for token in CTokenizer().tokenize(markup, 0, False)] == [tokens.Text]
    assert type(reading._counting()(markup).tokenize(markup, 0, False)[0]) is tokens.TagOpenOpen


def test_latex_takes_linear_time() -> None:
    assert_linear(latex_text, singles(LATEX))
    assert_linear(latex_text, pairs(LATEX[:6]), SHORT)
    assert_linear(latex_text, MACROS, (8_000, 64_000, 1_000_000))


def test_pages_of_common_crawl_take_linear_time() -> None:
    extractor = CommonCrawlHTMLExtractor("resiliparse")

    def extract(page: str) -> object:
        return extractor.extract({"url": "u", "warc_id": "w", "source_id": "s", "content": page.encode()})

    assert_linear(extract, singles(PAGES))


def test_rules_of_a_site_are_read_in_linear_time_and_memory() -> None:
    tokens = [
        *("User-agent: dcurate\n", "User-agent: *\n", "Disallow: /a\n", "Allow: *\n", ":", "#", " ", "\t", "\v", "\n")
    ]

    def agents(length: int) -> str:
        """Agents, each by another name, and then rules for all of them."""
        names = "".join(f"User-agent: a{number}\n" for number in range(length // 40))
        rules = "".join(f"Disallow: /{number}\n" for number in range(length // 24))
        return f"{names}User-agent: dcurate\n{rules}"

    def read(text: str) -> None:
        Robots.of(text, "dcurate")

    assert_linear(read, [*patterns(tokens), agents], SHORT)
    assert not Robots.of(agents(95_000), "dcurate").allows(f"/{95_000 // 24 - 1}")


def test_macros_within_each_other_are_expanded_however_many_there_are() -> None:
    tex = "".join(f"\\def\\m{n}{{\\m{n + 1}}}" for n in range(3_000)) + "\\def\\m3000{deep}\\section{A} \\m0"
    row = ArxivExtractor().extract({"id": "1", "source_id": "s", "content": [tex]})
    assert isinstance(row, dict)
    assert row["text"] == "\\section{A} deep"


def test_a_paper_whose_macros_make_very_much_of_it_is_set_aside_with_the_reason() -> None:
    found = latex_text("\\def\\a{" + "x" * 9_000 + "}" + "\\a" * 1_000)
    assert isinstance(found, Skipped)
    assert (found.reason, found.fault) == ("macros too large", True)
    assert "would become 9,000" in found.detail


def archive(papers: int) -> bytes:
    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w") as files:
        info = tarfile.TarInfo("a.tex")
        info.size = 20
        files.addfile(info, io.BytesIO(b"\\section{One} words."))
    packed = gzip.compress(inner.getvalue(), mtime=0)
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as outer:
        for number in range(papers):
            info = tarfile.TarInfo(f"2101/2101.{number:05}.gz")
            info.size = len(packed)
            outer.addfile(info, io.BytesIO(packed))
    return made.getvalue()


def test_archives_of_many_papers_are_read_in_linear_time(tmp_path: Path) -> None:
    def made(papers: int) -> str:
        path = tmp_path / f"{papers}.tar"
        path.write_bytes(archive(papers))
        return str(path)

    def read(path: str) -> None:
        papers = sum(isinstance(found, dict) for found in ArxivIterator().iterate(path))
        assert papers == int(Path(path).stem)

    assert_linear(read, [made], (500, 2_000), bytes_each=500)


def test_a_paper_of_many_packed_members_is_read_in_linear_time(tmp_path: Path) -> None:
    """What follows a member was copied for each of them."""

    def made(members: int) -> str:
        packed = gzip.compress(b"\\section{One} words. ", mtime=0) * members
        path = tmp_path / f"{members}.tar"
        with tarfile.open(path, mode="w") as outer:
            info = tarfile.TarInfo("2101/2101.00001.gz")
            info.size = len(packed)
            outer.addfile(info, io.BytesIO(packed))
        return str(path)

    def read(path: str) -> None:
        (paper,) = ArxivIterator().iterate(path)
        assert isinstance(paper, dict)
        assert len(paper["content"][0]) == 21 * int(Path(path).stem)

    assert_linear(read, [made], (16_000, 64_000), bytes_each=41)
