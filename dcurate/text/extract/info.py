"""The stage that adds what pages say about themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from dcurate.core.stage import ProcessingStage, Spec
from dcurate.frames.columns import optional_values, values, with_text, with_texts_each
from dcurate.frames.document import DocumentBatch
from dcurate.frames.text import encodable
from dcurate.text.extract.charset import decoded, markup
from dcurate.text.extract.page_facts import PageFacts, facts_of
from dcurate.text.extract.tags import scan_tags

_LISTS = ("authors", "types", "licenses")


@dataclass
class HtmlInfo(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Add what pages say about themselves; place it before `HtmlExtractor`.

    The columns, after ``page_``: ``title`` (its headline), ``authors`` (a list of names), ``published`` and
    ``modified`` (ISO 8601, with time and offset if the page has them), ``site`` (name of the site), ``language`` (the
    tag that the page declares, such as ``pt-BR``), ``canonical_url``, ``description``, ``types`` (a list, such as
    ``NewsArticle``: of schema.org, else of OpenGraph) and ``licenses`` (a list of addresses, from ``rel="license"`` and
    JSON-LD). Null, or an empty list, is what the page does not say: nothing is guessed from its text or address.

    JSON-LD counts before OpenGraph, and that before other names of ``<meta>``. Only some tags are looked at, so it is
    much faster than extraction; time is linear in the size of a page.

    Args:
        html_field: the column with the pages, as bytes or text.
        url_field: the column with their addresses, which relative addresses are resolved against; used if it is there.
        charset_field: the column with the charset that the server declared; used if it is there.
        prefix: comes before the name of every column.
        name: name of the stage.

    Examples:
        >>> import pandas as pd
        >>> page = b'<html lang="en"><link rel="canonical" href="/a"><meta name="author" content="A. Bee">'
        >>> rows = pd.DataFrame({"url": ["https://example.org/a?x=1"], "content": [page]})
        >>> [row] = HtmlInfo().process(DocumentBatch(data=rows)).to_arrow().to_pylist()
        >>> row["page_authors"], row["page_language"], row["page_canonical_url"], row["page_published"]
        (['A. Bee'], 'en', 'https://example.org/a', None)
    """

    html_field: str = "content"
    url_field: str = "url"
    charset_field: str = "charset"
    prefix: str = "page_"
    name: str = "html_info"

    def requires(self) -> dict[str, str]:
        return {"resiliparse": "html"}

    def inputs(self) -> Spec:
        return ["data"], [self.html_field]

    def optional_inputs(self) -> Sequence[str]:
        return [self.url_field, self.charset_field]

    def outputs(self) -> Spec:
        return ["data"], [self.prefix + name for name in PageFacts._fields]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = DocumentBatch.given(task).to_arrow()
        pages = zip(
            values(table, self.html_field),
            optional_values(table, self.url_field),
            optional_values(table, self.charset_field),
            strict=True,
        )
        facts = [_facts(*page) for page in pages]
        for name, column in zip(PageFacts._fields, _columns(facts), strict=True):
            add = with_texts_each if name in _LISTS else with_text
            table = add(table, self.prefix + name, column)
        return replace(task, data=table)


def _columns(pages: Sequence[PageFacts]) -> list[list[Any]]:
    """Return the facts of pages by columns: encodable, and None for a text that is empty."""
    return [[_stored(page[number]) for page in pages] for number in range(len(PageFacts._fields))]


def _stored(value: str | list[str]) -> str | list[str] | None:
    return (encodable(value) or None) if isinstance(value, str) else [encodable(text) for text in value]


def _facts(page: bytes | str | None, url: str | None, charset: str | None) -> PageFacts:
    source = markup(page or "") if not isinstance(page, bytes) else decoded(page, charset)
    return facts_of(scan_tags(source), url or "")
