"""Cues that elements give: a post of a thread, its author, date and text; a price, a cart, documentation."""

from __future__ import annotations

import re
from collections.abc import Mapping

#: Bits of cues: a post; its author, date and text; by schema.org; a price; a cart; documentation; an author or a date
#: that is not shown; a date that no element marks; a thread by schema.org; comments or reviews.
POST, AUTHOR, DATE, BODY, BY_SCHEMA, PRICE, CART, MANUAL, UNSEEN, IN_TEXT, THREAD, COMMENT = (
    1 << bit for bit in range(12)
)

_NAMES = (
    (
        POST,
        r"(?:forum-?|thread-?|topic-?|crawler-?)?(?:post|message|reply|comment)(?:-?(?:container|item|row|wrapper|entry))?"
        r"|postbit(?:legacy)?|answer|question",
    ),
    (
        AUTHOR,
        r"(?:post-?|comment-?|message-?|topic-?)?(?:author|user-?name|user|poster|nick-?name|nick|creator|name)"
        r"|big-?username|member-?name|commenter|display-?name|byline|profile-?link|user-?details|fn|hnuser",
    ),
    (
        DATE,
        r"(?:post-?|comment-?|message-?|relative-?|topic-?)?(?:date|time|date-?time|timestamp)"
        r"|posted(?:-?(?:on|at))?|published|when|age|created(?:-?at)?",
    ),
    (
        BODY,
        r"(?:post-?|comment-?|message-?|reply-?|entry-?|answer-?|user-?)?(?:body|content|text|copy)|cooked|bb-?wrapper"
        r"|s-prose|post-?message|usertext-?body|postbody",
    ),
    (
        PRICE,
        r"(?:product-?|sale-?|current-?|regular-?|final-?)?price(?:-+(?:box|tag|value|current|amount|regular|item))?",
    ),
    (
        CART,
        r"(?:btn-?|button-?|single-?)?add-?to-?(?:cart|basket|bag)(?:-?(?:button|btn|form))?|product-?form|buy-?box",
    ),
    (
        MANUAL,
        r"header-?link|toctree.*|admonition|theme-?doc.*|sphinx.*|md-nav|rst-content|docs?-?(?:content|sidebar|nav)",
    ),
)
_PATTERNS = tuple((bit, re.compile(f"(?:{pattern})")) for bit, pattern in _NAMES)
_NUMBERED = re.compile(r"(post|comment|answer|msg|message|reply)-?(message-?)?\d+")
_SCHEMA = {
    **dict.fromkeys(("discussionforumposting", "comment", "answer", "question", "usercomments"), POST),
    **dict.fromkeys(("suggestedanswer", "acceptedanswer"), POST),
    **dict.fromkeys(("author", "creator"), AUTHOR),
    **dict.fromkeys(("datepublished", "datecreated", "commenttime"), DATE),
    **dict.fromkeys(("text", "articlebody", "commenttext"), BODY),
    "price": PRICE,
}
_THREAD = re.compile(r"/(?:DiscussionForumPosting|QAPage)\b", re.IGNORECASE)
_COMMENT = re.compile(r"comment|kommentar|(?<!p)review", re.IGNORECASE)
_PROFILE = re.compile(
    r"(?:^|[/?&=.])(?:users?|members?|profile?s?|u|people|viewprofile|author)(?:\.php)?[/?=&;]", re.IGNORECASE
)
_BASKET = re.compile(r"(?:/cart|/basket|/bag)(?:/add|\?add)|[?&]add-to-(?:cart|basket)", re.IGNORECASE)
_SOCIAL = re.compile(
    r"(?:facebook|twitter|instagram|linkedin|youtube|pinterest|whatsapp)\.com|[/.]x\.com", re.IGNORECASE
)
_LONGEST = 200
_MOST_KNOWN = 50_000
_KNOWN: dict[str, int] = {}


def cues_of(tag: str, attributes: Mapping[str, str]) -> int:
    """Return the cues that an element gives by its tag, class, id, and attributes of microdata.

    Examples:
        >>> cues_of("div", {"class": "post bg1", "id": "p12"}) == POST
        True
        >>> cues_of("a", {"href": "./memberlist.php?mode=viewprofile&u=2"}) == AUTHOR
        True
    """
    cues = DATE if tag == "time" else 0
    if names := attributes.get("class"):
        cues |= _of_names(names)
    if identifier := attributes.get("id"):
        cues |= _of_id(identifier)
    for name in ("itemprop", "itemtype"):
        if values := attributes.get(name):
            for value in values[:_LONGEST].lower().split():
                cue = _SCHEMA.get(value.rpartition("/")[2], 0)
                cues |= cue and cue | BY_SCHEMA
            if name == "itemtype" and _THREAD.search(values[:_LONGEST]):
                cues |= THREAD
    if tag in ("html", "body"):
        cues &= ~COMMENT
    if tag in ("a", "form") and _BASKET.search(attributes.get("action" if tag == "form" else "href", "")[:_LONGEST]):
        cues |= CART
    if tag == "a":
        address = attributes.get("href", "")[:_LONGEST]
        if attributes.get("rel", "").lower() == "author" or (_PROFILE.search(address) and not _SOCIAL.search(address)):
            cues |= AUTHOR
    return cues


def _of_names(names: str) -> int:
    known = _KNOWN.get(names)
    if known is None:
        known = COMMENT if _COMMENT.search(names[:_LONGEST]) else 0
        for name in names[:_LONGEST].lower().replace("_", "-").split():
            for bit, pattern in _PATTERNS:
                if pattern.fullmatch(name):
                    known |= bit
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        if len(names) <= _LONGEST:
            _KNOWN[names] = known
    return known


def _of_id(identifier: str) -> int:
    name = identifier[:_LONGEST].lower().replace("_", "-")
    match = _NUMBERED.fullmatch(name)
    cues = 0 if match is None else BODY if match[2] else POST
    return cues | COMMENT if "comment" in name else cues
