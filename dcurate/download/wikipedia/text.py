"""Plain text of an article."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from dcurate.download.extract import DocumentExtractor, Skipped
from dcurate.download.wikipedia.aliases import CATEGORY_ALIASES, MEDIA_ALIASES, aliases
from dcurate.download.wikipedia.pages import CATEGORY, MEDIA, Article
from dcurate.download.wikipedia.reading import TangledError
from dcurate.download.wikipedia.render import Renderer


class WikipediaExtractor(DocumentExtractor):
    r"""Convert an article's wiki markup to plain text.

    Links become what they show; files, images, templates, tables, references and comments go; of a link to a category
    its name stays; headings stay as lines. Sections are joined by an empty line. What a namespace is called is known
    from the dump itself, and for the older names from a table by language.

    Args:
        language: language of the Wikipedia.

    Raises:
        ResourceError: the package for wiki markup is not installed.

    Examples:
        >>> markup = "'''Bonn''' lies on the [[Rhine|river]].{{fact}}\n==See==\n[[File:a.jpg]][[Category:Towns]]"
        >>> record = {"title": "Bonn", "id": "1", "url": "u", "language": "en", "source_id": "s"}
        >>> print(WikipediaExtractor("en").extract({**record, "raw_content": markup})["text"])
        Bonn lies on the river.
        <BLANKLINE>
        See
        Towns
    """

    def __init__(self, language: str = "en") -> None:
        self.language = language

    def requires(self) -> dict[str, str]:
        """Return the libraries that it needs."""
        return {"mwparserfromhell": "wiki"}

    def extract(self, record: dict[str, Any]) -> dict[str, Any] | Skipped | None:
        """The article with ``text`` in place of its markup; None if no text is left.

        It is `Skipped` where its markup would take more than a few times as long to read as that of any article.
        """
        if not record.get("raw_content"):
            return None
        namespaces = tuple(sorted(record.namespaces.items())) if isinstance(record, Article) else ()
        try:
            text = Renderer(*_prefixes(self.language, namespaces)).page(record["raw_content"])
        except TangledError as error:
            return Skipped("tangled markup", True, detail=f"{error}")
        if not text.strip():
            return None
        return {"text": text, **{name: record[name] for name in self.output_columns()[1:]}}

    def input_columns(self) -> list[str]:
        return ["title", "id", "url", "language", "source_id", "raw_content"]

    def output_columns(self) -> list[str]:
        return ["text", "title", "id", "url", "language", "source_id"]


@lru_cache(maxsize=16)
def _prefixes(language: str, namespaces: tuple[tuple[str, str], ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """The prefixes of links to files, and to categories."""
    names = dict(namespaces)
    media = ["File", "Image", "Media", *(names.get(key, "") for key in MEDIA), *aliases(MEDIA_ALIASES, language)]
    category = ["Category", *(names.get(key, "") for key in CATEGORY), *aliases(CATEGORY_ALIASES, language)]
    return _prefix(media), _prefix(category)


def _prefix(names: Iterable[str]) -> re.Pattern[str]:
    spaced = [re.escape(name).replace("_", "[ _]").replace("\\ ", "[ _]") for name in dict.fromkeys(names) if name]
    return re.compile(rf"^\s*(?:{'|'.join(spaced)})\s*:", re.IGNORECASE)
