"""RSL 1.0: the patterns of use of its specification (sections 1.1, 3 and 4), and hostile documents."""

import time

import pytest

from dcurate.rights.rsl import LARGEST_RSL, rsl_statements
from dcurate.rights.xml import XmlError

URL = "https://example.com/articles/one?page=2"


def document(*contents: str) -> str:
    return f'<rsl xmlns="https://rslstandard.org/rsl">{"".join(contents)}</rsl>'


def content(*terms: str, url: str = "/", more: str = "") -> str:
    return f'<content url="{url}"{more}>{"".join(f"<license>{term}</license>" for term in terms)}</content>'


def permits(words: str, kind: str = "usage") -> str:
    return f'<permits type="{kind}">{words}</permits>'


def prohibits(words: str, kind: str = "usage") -> str:
    return f'<prohibits type="{kind}">{words}</prohibits>'


def said(text: str, url: str = URL) -> tuple[bool | None, bool | None]:
    uses = {saying.use: saying.allowed for saying in rsl_statements(text, url)}
    return uses.get("train"), uses.get("search")


FOREIGN = '<x:permits xmlns:x="urn:x" type="usage">all</x:permits>'
PAID = '<payment type="{}"><amount currency="USD">0.015</amount></payment>'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (document(content(prohibits("ai-all"))), (False, True)),
        (document(content(prohibits("all"))), (False, False)),
        (document(content(permits("all"))), (True, True)),
        (document(content(permits("search"))), (False, True)),
        (document(content(permits("search ai-input") + prohibits("ai-train"))), (False, True)),
        (document(content(permits("ai-train search"))), (True, True)),
        (document(content(permits("ai-input ai-index"))), (False, False)),
        (document(content(permits("ai-all") + '<payment type="attribution"/>')), (True, False)),
        (document(content(PAID.format("crawl"))), (False, False)),
        (document(content(permits("ai-all") + PAID.format("training"), permits("search"))), (False, True)),
        (document(content(permits("ai-train") + prohibits("all"))), (False, False)),
        (document(content(permits("all") + permits("non-commercial", "user"))), (False, False)),
        (document(content(permits("all"), more=' server="https://example.com/olp"')), (False, False)),
        (document(content(permits("all") + '<reporting type="audit" profile="https://a.org"/>')), (False, False)),
        (document(content(permits("search, ai-train"))), (True, True)),
        # the words of the drafts of 2025, which templates for sites have
        (document(content(prohibits("train-ai"))), (False, True)),
        (document(content(prohibits("train-genai"))), (False, True)),
        (document(content(permits("train-ai"))), (True, False)),
        (document(content(prohibits("ai-summary-of-2031"))), (False, False)),
        (document(content(prohibits("ai-index ai-input"))), (True, True)),
        # section 3.1.2: the narrower pattern counts
        (
            document(content(permits("all")), content(prohibits("ai-train"), url="/articles/")),
            (False, True),
        ),
        (document(content(prohibits("all")), content(permits("all"), url="/articles/*")), (True, True)),
        (document(content(permits("all")), content(prohibits("all"))), (False, False)),
        (document(content(permits("all"), url="/other/")), (None, None)),
        (document(content(permits("all"), url="https://example.com/articles/")), (True, True)),
        (document(content(permits("all"), url="https://example.org/")), (None, None)),
        (document(content(permits("all"), url="")), (None, None)),
        (document("<content url='/'/>"), (None, None)),
        (document(), (None, None)),
        (
            document(content('<x:permits xmlns:x="urn:x" type="usage">all</x:permits>' + permits("search"))),
            (False, True),
        ),
    ],
)
def test_documents_say_what_the_specification_says(text: str, expected: tuple[bool | None, bool | None]) -> None:
    assert said(text) == expected


def test_order_of_contents_says_nothing() -> None:
    contents = [content(permits("all")), content(prohibits("ai-all"), url="/articles/"), content(permits("search"))]
    assert said(document(*contents)) == said(document(*reversed(contents))) == (False, True)


def test_an_empty_address_is_the_file_that_a_document_is_in() -> None:
    text = document(content(prohibits("ai-train"), url=""))
    assert [saying.allowed for saying in rsl_statements(text, URL, embedded=True)] == [False, True]
    assert rsl_statements(text, URL) == []


BOMB = '<!DOCTYPE rsl [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no XML",
        BOMB + document(content(permits("&b;"))),
        document(content(permits("&b;"))),
        '<!DOCTYPE rsl SYSTEM "file:///etc/passwd">' + document(),
        "<rsl/>",
        document() + document(),
        document()[:-3],
        document("\0"),
        "\udc80" + document(),
        " " * (LARGEST_RSL + 1),
    ],
)
def test_what_is_not_rsl_is_refused(text: str) -> None:
    with pytest.raises(XmlError):
        rsl_statements(text, URL)


def test_documents_are_read_in_linear_time() -> None:
    def seconds(count: int) -> float:
        text = document(*[content(permits("all"), url="/a*" * 4) for _ in range(count)])
        begin = time.process_time()
        rsl_statements(text, "https://example.com/" + "a" * 1000)
        return time.process_time() - begin

    small = min(seconds(1000) for _ in range(3))
    assert min(seconds(8000) for _ in range(3)) < 20 * small + 0.1
    nested = "<rsl xmlns='https://rslstandard.org/rsl'>" + "<content url='/'>" * 50_000
    with pytest.raises(XmlError):
        rsl_statements(nested, URL)
