"""Hints of the tags, classes and ids of elements: at the main content, or at what is around it."""

from __future__ import annotations

import re
from collections.abc import Mapping

#: Bits of hints: around the content, by tag or role; around it, by class or id; comments of readers; an article, by
#: tag; content, by class; perhaps content; hidden from readers; left out wholly; a formula between delimiters; around
#: code of a language; caption of a picture; a form; around the content in articles, perhaps content elsewhere.
ASIDE, ASIDE_BY_CLASS, COMMENTS, ARTICLE, CONTENT, WEAK_CONTENT, HIDDEN, OUT, MATH, CODED, CAPTION, FORM, PROMOTED = (
    1 << bit for bit in range(13)
)

TAGS = {
    "nav": ASIDE,
    "footer": ASIDE,
    "aside": ASIDE,
    "menu": ASIDE,
    "dialog": ASIDE,
    "article": ARTICLE,
    "main": CONTENT,
    "noscript": ASIDE,
    "figcaption": CAPTION,
    "form": FORM,
}
_ROLES = {
    "navigation": ASIDE,
    "banner": ASIDE,
    "complementary": ASIDE,
    "contentinfo": ASIDE,
    "search": ASIDE,
    "dialog": ASIDE,
    "alertdialog": ASIDE,
    "menu": ASIDE,
    "menubar": ASIDE,
    "toolbar": ASIDE,
    "article": ARTICLE,
    "main": CONTENT,
}
_OUT = re.compile(
    r"^-(?:linenos?|linenodiv|line-?numbers?(?:-rows)?|gutter|hljs-ln-numbers|rouge-gutter|katex-html|headerlink|"
    r"header-?anchor|anchorjs-link|anchor-link|mw-editsection|copybtn|copy-?button|btn-clipboard|clipboard-copy|"
    r"math-?jax(?:-(?:preview|display|chtml|svg|svg-display))?|mjx-chtml|jp-(?:input|output)-?prompt|"
    r"(?:input|output)-prompt|sr-only|visually-?hidden|screen-reader-text|"
    r"screen-reader-only|noprint|no-print|printfooter|skip-link|skiplink|hash-link|toc-anchor|skip-to-content)$"
)
_ASIDE = re.compile(
    r"-(?:nav(?!y|el|ig?ate)|menu|sub-?nav|breadcrumb|crumbs|(?<!content-)side-?bar|foot(?!ball|age|note|wear|-?print)|"
    r"masthead|cookie|consent|gdpr|"
    r"newsletter|subscri|sign-?up|log-?in|regist(?:er|ration)|share(?!-?point)|sharing|social|sharedaddy|addthis|"
    r"related|relacionad|recommend|recirc|advert|ads?(?![a-z]|\d+[a-wyz])|adsense|sponsor|"
    r"(?<!elementor-)(?<!wrapper-)(?<!ck-)widget(?!-(?:wrap|container|span|type))|toolbar|pagination(?!-(?:container|collection))|pager|paging|popup|modal|overlay|lightbox|outbrain|taboola|tag-?cloud|tag-?list|tags(?![a-z])|"
    r"byline|author-?(?:bio|box|info|card)|about-?(?:the-)?author|post-?meta|meta(?:data)?(?![a-z-])|entry-?meta|"
    r"rating|copyright|disclaimer|search(?!-?(?:results?+(?!-header)|page|grid))|read-?(?:more|next)|more-?(?:from|news|stories|articles)|most-?(?:read|popular)|"
    r"popular|trending|jp-relatedposts|prev-?next|next-?prev|post-?nav|"
    r"infobox-?ad|language-?(?:switch|select)|lang-?(?:switch|select)|user-?info|profile-card|"
    r"page-?tools|vcard|catlinks|navbox|jump-?links|edit-?(?:link|page)|rellinks|sphinxsidebar|wy-nav|"
    r"toctree-wrapper|md-(?:sidebar|header|footer|source)|bd-(?:sidebar|header|footer)|reflist-?nav|kontakt-?form|"
    r"contact-?form|donat|spenden|hero-?nav|sitemap|site-?(?:header|footer|info|nav)|page-?(?:header|footer)|top-?bar|"
    r"bottom-?bar|header-?(?:top|bar|nav)|utility|countdown|"
    r"(?<=^-)signature$|(?:post|user|message|forum)-?signature|user-?extras|last-?edit|(?:expand|shrink)-?link|actions(?![a-z])|poll(?![a-z])|survey|quiz-?promo)"
)
_COMMENTS = re.compile(
    r"-(?:comment(?!ary|-?ed)|respond(?![a-z])|reply-?(?:form|link|title)?(?![a-z])|disqus|replies|"
    r"discuss(?:ion)?(?![a-z])|(?:customer|product|user|guest)-?reviews?(?![a-z])|review-?(?:list|item|text|body|card)s?(?![a-z])|"
    r"kommentar|trackback|pingback|livefyre|fb-comments|guestbook|gaestebuch)"
)
_PROMOTED = re.compile(r"-(?:promo|drop-?down|carousel|cta(?![a-z])|call-?to-?action)")
_CONTENT = re.compile(
    r"-(?:article-?(?:body|content|text|copy|main)|post-?(?:body|content|text|entry)|entry-?(?:content|text|body)?(?![a-z-])|"
    r"story-?(?:body|content|text)|body-?(?:content|text|copy)|main-?(?:content|text)|page-?content|content-?(?:body|main|text|article)|"
    r"rich-?text|news-?(?:body|text|content|detail)|blog-?(?:post|content|entry)|single-?(?:post|content)|field-?name-?body|"
    r"mw-parser-output|mw-content-text|markdown-body|article__(?:body|content)|td-post-content|theme-doc-markdown|"
    r"text-?content|detail-?(?:content|text|body)|artikel-?(?:text|body|inhalt)?(?![a-z])|articulo|articolo|recipe-?(?:content|body))"
)
_WEAK = re.compile(
    r"-(?:article|post|entry|content|story|text|body|main|inhalt|hentry|document|contenido|contenu|blog)(?![a-z])"
)
_MATH = re.compile(r"^-(?:math|arithmatex|tex|latex|mwe-math-element)$")
_CODED = re.compile(r"^-(?:highlight-|language-|lang-|brush|source-?code$)")
_CAPTION = re.compile(
    r"-(?:(?:fig|image-?|photo-?|media-?|picture-?|bild-?)?caption(?!s)|bildunterschrift|"
    r"(?:image|photo|media|img)-?(?:credit|source)|bildnachweis|credits?(?![a-z]))"
)
#: Where a word of a name begins; what a build tool adds to a name to make it unique; words that say what an element
#: has, not what it is.
_PLACE = re.compile(r"(?<=[a-z])(?=[A-Z])|[^A-Za-z0-9]+")
_UNIQUE = re.compile(r"__(?=\w{0,4}(?:\d|[a-z][A-Z]|[A-Z]{2}))\w{5}$")
_STATE = re.compile(r"-(?:has|with|without|no|hide|show)-[a-z0-9]+")
#: Elements that hold the content with all that is around it, whatever their class says.
_WHOLE = frozenset(("html", "body", "main", "article"))
_OF_WHOLE = ~(ASIDE_BY_CLASS | PROMOTED | COMMENTS | OUT | HIDDEN)
#: Attributes besides class and id that give hints.
_OTHERS = frozenset(("role", "hidden", "style", "data-lang", "data-language", "itemprop"))
_KNOWN: dict[str, int] = {}
_KNOWN_WORDS: dict[str, int] = {}
_PATTERNS = (
    (_OUT, OUT),
    (_ASIDE, ASIDE_BY_CLASS),
    (_COMMENTS, COMMENTS),
    (_PROMOTED, PROMOTED),
    (_CONTENT, CONTENT),
    (_WEAK, WEAK_CONTENT),
    (_CODED, CODED),
    (_CAPTION, CAPTION),
    (_MATH, MATH),
)
#: Matches where any of the patterns does, so that most names need one search only.
_ANY = re.compile(
    "-(?:" + "|".join(pattern.pattern.removeprefix("^").removeprefix("-") for pattern, _ in _PATTERNS) + ")"
)
_MOST_KNOWN = 50_000
_LONGEST = 300


def hints_of(tag: str, attributes: Mapping[str, str]) -> int:
    """Return the hints of an element by its tag, role, class and id.

    Examples:
        >>> hints_of("div", {"class": "siteFooter"}) == ASIDE_BY_CLASS
        True
        >>> hints_of("div", {"class": "football"})
        0
    """
    if type(attributes) is not dict:  # lxml gives another empty mapping where there are none
        return TAGS.get(tag, 0)
    hints = TAGS.get(tag, 0)
    if names := attributes.get("class"):
        by_names = _KNOWN.get(names)
        hints |= _learned(names) if by_names is None else by_names
    if not names or len(attributes) > 1:
        if identifier := attributes.get("id"):
            by_name = _KNOWN_WORDS.get(identifier)
            hints |= _learned_word(identifier) if by_name is None else by_name
        if not _OTHERS.isdisjoint(attributes):
            hints |= _of_others(attributes)
    return hints & _OF_WHOLE if hints and tag in _WHOLE else hints


def _learned(names: str) -> int:
    """Return the hints of the value of a class attribute, and remember them."""
    hints = 0
    for name in names[:_LONGEST].split():
        by_name = _KNOWN_WORDS.get(name)
        hints |= _learned_word(name) if by_name is None else by_name
    if len(_KNOWN) >= _MOST_KNOWN:
        _KNOWN.clear()
    if len(names) <= _LONGEST:
        _KNOWN[names] = hints
    return hints


def _learned_word(name: str) -> int:
    if len(_KNOWN_WORDS) >= _MOST_KNOWN:
        _KNOWN_WORDS.clear()
    hints = _of_name(name[:_LONGEST])
    if len(name) <= _LONGEST:
        _KNOWN_WORDS[name] = hints
    return hints


def _words_of(name: str) -> str:
    """Return the words of a name with a hyphen before each, without those that say nothing of what an element is.

    Examples:
        >>> _words_of("siteFooter"), _words_of("Text_root__adK1a"), _words_of("header--has-menu")
        ('-site-footer', '-text-root', '-header')
        >>> _words_of("top-[var(--nav-height)]")
        ''
    """
    return "" if "[" in name else _STATE.sub("", _divided(_UNIQUE.sub("", name)))


def _divided(name: str) -> str:
    return "-" + _PLACE.sub("-", name).lower()


def _of_name(name: str) -> int:
    if not _ANY.search(_divided(name)):
        return 0
    words = _words_of(name)
    hints = 0
    for pattern, hint in _PATTERNS:
        if pattern.search(words):
            hints |= hint
    return hints


def _of_others(attributes: Mapping[str, str]) -> int:
    hints = _ROLES.get(attributes["role"], 0) if "role" in attributes else 0
    if "hidden" in attributes and attributes["hidden"] != "until-found":
        hints |= HIDDEN
    style = attributes.get("style")
    if style and ("none" in style or "hidden" in style) and _UNSEEN.search(style):
        hints |= HIDDEN
    if "data-lang" in attributes or "data-language" in attributes:
        hints |= CODED
    if "itemprop" in attributes and attributes["itemprop"].lower() in ("articlebody", "text", "mainentity"):
        hints |= CONTENT
    return hints


_UNSEEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
