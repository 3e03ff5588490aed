"""Wiki markup to text, straight from the tokens that mwparserfromhell makes of it.

Its tree of nodes is never built: that takes six times as long as the tokens. The text is that of its ``strip_code``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from html.entities import name2codepoint
from typing import Any

from dcurate.core.extras import needed
from dcurate.download.wikipedia.reading import tokens

_MAGIC = re.compile("__[A-Z]*__")
#: What begins an item of a list; as a sort key in a category it means nothing.
_LIST_SIGNS = "*#:;"
_DROPPED_TAGS = ("ref", "table")


class Renderer:
    """Render pages.

    Args:
        media: matches the beginning of the target of a link that shows a file.
        category: matches that of a link to a category.

    Raises:
        ResourceError: mwparserfromhell is not installed.

    Examples:
        >>> Renderer(re.compile("File:"), re.compile("Category:")).page("A [[b|c]] [[File:d]]''e''{{f}}")
        'A c e'
    """

    def __init__(self, media: re.Pattern[str], category: re.Pattern[str]) -> None:
        self.media, self.category = media, category
        self.tokens = needed("mwparserfromhell.parser.tokens", "WikipediaExtractor", "wiki")
        self.is_visible = needed("mwparserfromhell.definitions", "WikipediaExtractor", "wiki").is_visible

    def page(self, markup: str) -> str:
        """The text of a page: its non-empty sections, with an empty line between them.

        Raises:
            TangledError: reading it would take too many steps.
        """
        reading = _Reading(self, iter(tokens(markup)))
        texts = (_MAGIC.sub("", section.strip()) for section in reading.sections())
        return "\n\n".join(text for text in texts if text)


class _Frame:
    """An open element: a page, a link, a tag.

    Attributes:
        parts: the texts of the part that is being read.
        lead: the plain-text prefix of a link's target, once known; the name of a tag.
        shown: the displayed text, if it is not the part being read.
    """

    __slots__ = ("lead", "parts", "shown")

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.lead: str | None = None
        self.shown: str | None = None

    def text(self) -> str:
        """The parts as one text, joined as in ``strip_code``."""
        text = "".join(self.parts).strip("\n")
        while "\n\n\n" in text:
            text = text.replace("\n\n\n", "\n\n")
        return text


class _Reading:
    """One page, read token by token."""

    def __init__(self, renderer: Renderer, tokens: Iterator[Any]) -> None:
        self.renderer, self.tokens = renderer, tokens
        self.stack: list[_Frame] = [_Frame()]
        self.attributes: list[_Frame] = []
        self.done: list[str] = []
        kinds = renderer.tokens
        self.handlers: Mapping[type, Callable[[Any], object]] = {
            kinds.TemplateOpen: self._template,
            kinds.CommentStart: self._comment,
            kinds.HTMLEntityStart: self._entity,
            kinds.WikilinkOpen: self._open,
            kinds.WikilinkSeparator: self._link_target,
            kinds.WikilinkClose: self._link_end,
            kinds.ExternalLinkOpen: self._external,
            kinds.ExternalLinkSeparator: self._external_title,
            kinds.ExternalLinkClose: self._shown_end,
            kinds.ArgumentOpen: self._argument,
            kinds.ArgumentSeparator: self._argument_default,
            kinds.ArgumentClose: self._shown_end,
            kinds.HeadingStart: self._heading,
            kinds.HeadingEnd: self._heading_end,
            kinds.TagOpenOpen: self._open,
            kinds.TagAttrStart: self._attribute,
            kinds.TagAttrEquals: _nothing,
            kinds.TagAttrQuote: _nothing,
            kinds.TagCloseOpen: self._tag_name,
            kinds.TagCloseSelfclose: self._tag_alone,
            kinds.TagOpenClose: self._tag_contents,
            kinds.TagCloseClose: self._tag_end,
        }

    def sections(self) -> list[str]:
        """The texts of the sections; the first is the text before all headings."""
        text, handlers, stack = self.renderer.tokens.Text, self.handlers, self.stack
        for token in self.tokens:
            if type(token) is text:
                stack[-1].parts.append(token["text"])
            else:
                handlers[type(token)](token)
        return [*self.done, stack[-1].text()]

    def _open(self, _: Any = None) -> _Frame:
        frame = _Frame()
        self._begin_child()
        self.stack.append(frame)
        return frame

    def _begin_child(self) -> None:
        """The link target read so far is its plain-text prefix."""
        top = self.stack[-1]
        if top.lead is None:
            top.lead = "".join(top.parts)

    def _close(self, text: str) -> None:
        self.stack[-1].parts.append(text)

    def _template(self, token: Any) -> None:
        self._begin_child()
        opens, closes = type(token), self.renderer.tokens.TemplateClose
        depth = 1
        while depth:
            kind = type(next(self.tokens))
            depth += (kind is opens) - (kind is closes)

    def _comment(self, _: Any) -> None:
        self._begin_child()
        end = self.renderer.tokens.CommentEnd
        while type(next(self.tokens)) is not end:
            pass

    def _entity(self, _: Any) -> None:
        self._begin_child()
        kinds, token = self.renderer.tokens, next(self.tokens)
        base = 0
        if type(token) is kinds.HTMLEntityNumeric:
            token, base = next(self.tokens), 10
            if type(token) is kinds.HTMLEntityHex:
                token, base = next(self.tokens), 16
        next(self.tokens)
        number = int(token["text"], base) if base else name2codepoint[token["text"]]
        self._close("\ufffd" if 0xD800 <= number < 0xE000 else chr(number))

    def _link_target(self, _: Any) -> None:
        self._begin_child()
        self.stack[-1].parts = []

    def _link_end(self, _: Any) -> None:
        self._begin_child()
        frame = self.stack.pop()
        target, text = frame.lead or "", frame.text()
        if self.renderer.media.match(target):
            text = ""
        elif self.renderer.category.match(target):
            text = self.renderer.category.sub("", text).lstrip(_LIST_SIGNS)
        self._close(text)

    def _external(self, token: Any) -> None:
        self._open().shown = "" if token.brackets else None

    def _external_title(self, _: Any) -> None:
        frame = self.stack[-1]
        if frame.shown is not None:
            frame.parts, frame.shown = [], None

    def _argument(self, _: Any) -> None:
        self._open().shown = ""

    def _argument_default(self, _: Any) -> None:
        self.stack[-1].parts, self.stack[-1].shown = [], None

    def _shown_end(self, _: Any) -> None:
        frame = self.stack.pop()
        self._close(frame.text() if frame.shown is None else frame.shown)

    def _heading(self, _: Any) -> None:
        if len(self.stack) == 1:
            self.done.append(self.stack[0].text())
            self.stack[0].parts = []
        self._open()

    def _heading_end(self, _: Any) -> None:
        self._close(self.stack.pop().text())

    def _attribute(self, _: Any) -> None:
        self._end_attribute()
        self.attributes.append(self._open())

    def _end_attribute(self) -> None:
        """The text read is an attribute of a tag, and not shown."""
        if self.attributes and self.attributes[-1] is self.stack[-1]:
            self.attributes.pop()
            self.stack.pop()

    def _tag_name(self, _: Any) -> None:
        self._end_attribute()
        tag = self.stack[-1]
        tag.lead, tag.parts = "".join(tag.parts), []

    def _tag_alone(self, _: Any) -> None:
        self._end_attribute()
        self.stack.pop()

    def _tag_contents(self, _: Any) -> None:
        tag = self.stack[-1]
        tag.shown, tag.parts = tag.text(), []

    def _tag_end(self, _: Any) -> None:
        tag = self.stack.pop()
        name = (tag.lead or "").strip().lower()
        if name not in _DROPPED_TAGS and self.renderer.is_visible(name):
            self._close(tag.shown or "")


def _nothing(_: Any) -> None:
    """Signs within a tag that are not shown."""
