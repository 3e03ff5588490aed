"""Pages that are no articles: lists of entries, threads, pages of services and goods."""

from __future__ import annotations

import pytest

from dcurate.text import DcurateExtractor
from dcurate.text.extract.hints import ASIDE_BY_CLASS, COMMENTS, hints_of
from tests.growth import assert_linear, repeated

STORY = "It was a bright cold day in April, and the clocks of the town were striking thirteen. " * 4
MENU = "<nav><a href=/>Home</a> <a href=/n>News</a></nav>"
ARTICLE = "<meta property='og:type' content='article'>"


def text_of(page: str) -> str:
    return "".join(DcurateExtractor().extract_text(page, frozenset(), "") or [])


def entries(count: int, entry: str) -> str:
    return "".join(entry.format(number) for number in range(count))


JOB = "<li><a href=/{0}><h3>Keeper of the clock number {0}</h3></a><span>Town {0}, full time</span></li>"


@pytest.mark.parametrize("before", ["", f"<p>{STORY[:86]}</p>"])
def test_titles_and_links_of_a_list_are_its_content(before: str) -> None:
    text = text_of(f"<body>{MENU}<h1>Jobs</h1>{before}<ul>{entries(30, JOB)}</ul><footer>Imprint</footer></body>")
    assert all(f"Keeper of the clock number {number}" in text for number in range(30))
    assert "Town 7, full time" in text
    assert "News" not in text
    assert "Imprint" not in text


def test_links_below_an_article_are_not_its_content() -> None:
    page = f"<body>{MENU}<h1>A day</h1><div><p>{STORY}</p></div><ul>{entries(30, JOB)}</ul></body>"
    assert text_of(ARTICLE + page) == STORY.strip()


def test_links_before_a_long_text_are_not_its_content() -> None:
    page = f"<body>{MENU}<ul>{entries(30, JOB)}</ul><h1>A day</h1><div>{10 * f'<p>{STORY}</p>'}</div></body>"
    assert text_of(page) == "\n\n".join(10 * [STORY.strip()])


def test_a_page_of_links_without_text_and_title_has_no_content() -> None:
    links = entries(30, "<li><a href=/{0}>The language number {0} of the world</a></li>")
    assert text_of(f"<body>{MENU}<ul>{links}</ul></body>") == ""
    assert "number 7" in text_of(f"<body>{MENU}<h1>Languages</h1><ul>{links}</ul></body>")


def test_entries_between_texts_are_content() -> None:
    card = "<div><h3><a href=/{0}>The clock number {0}</a></h3><b>$ {0}9.00</b></div>"
    texts = "".join(f"<p>Part {number}. {STORY}</p>{entries(12, card)}" for number in range(3))
    text = text_of(f"<body>{MENU}<h1>Clocks</h1>{texts}</body>")
    assert "The clock number 4" in text
    assert "$ 49.00" in text


def test_posts_of_a_thread_that_are_named_comments_are_its_text() -> None:
    posts = "".join(f"<div class=comment><p>Post {number}: {STORY}</p></div>" for number in range(5))
    text = text_of(f"<body>{MENU}<h1>A day</h1>{posts}</body>")
    assert [f"Post {number}: {STORY.strip()}" for number in range(5)] == text.split("\n\n")


def test_comments_on_an_article_are_not_its_text() -> None:
    posts = "".join(f"<div class=comment><p>Post {number}: {STORY}</p></div>" for number in range(5))
    assert text_of(f"{ARTICLE}<body><h1>A day</h1><div><p>{STORY}</p></div>{posts}</body>") == STORY.strip()


def test_a_paragraph_that_repeats_one_of_another_element_comes_once() -> None:
    first, second = f"<p>The first. {STORY}</p>", f"<p>The second. {STORY}</p>"
    page = f"<body><h1>A day</h1><div>{first}</div><div><blockquote>{first}</blockquote>{second}</div></body>"
    assert text_of(page) == f"The first. {STORY.strip()}\n\nThe second. {STORY.strip()}"


def test_refrains_and_repetitions_of_articles_and_beside_code_stay() -> None:
    refrain = f"<p>{STORY}</p>"
    assert text_of(f"<body><div>{refrain}<p>Another. {STORY}</p>{refrain}</div></body>").count(STORY.strip()) == 3
    apart = f"<body><div>{refrain}</div><div>{refrain}</div>{{}}</body>"
    assert text_of(apart.format("")).count(STORY.strip()) == 1
    assert text_of(ARTICLE + apart.format("")).count(STORY.strip()) == 2
    assert text_of(apart.format("<pre>x = 1\ny = 2</pre>")).count(STORY.strip()) == 2


@pytest.mark.parametrize("name", ["carousel", "cta-banner", "promo", "accordion-item__dropdown"])
def test_text_named_like_an_offer_is_content_unless_it_is_links_or_in_an_article(name: str) -> None:
    offer = f"<div class='{name}'><p>The offer. {STORY}</p></div>"
    page = f"<body><h1>Clocks</h1>{4 * f'<section><p>{STORY}</p></section>'}{{}}</body>"
    assert "The offer." in text_of(page.format(offer))
    assert "The offer." not in text_of(ARTICLE + page.format(offer))
    assert "The offer." not in text_of(page.format(f"<div class='{name}'><a href=/o>The offer. {STORY}</a></div>"))


@pytest.mark.parametrize(
    "name",
    [
        *(
            "elementor-element-2638ad0",
            "block_a85e873c015ad0206ffc",
            "Table_root__adK1a",
            "header--has-menu",
            "no-sidebar",
        ),
        *("top-[var(--nav-height)]", "search-results", "SearchResultList", "content-sidebar-wrap", "hs_wrapper_widget"),
    ],
)
def test_names_that_only_seem_to_be_around_the_content(name: str) -> None:
    assert not hints_of("div", {"class": name}) & ASIDE_BY_CLASS


@pytest.mark.parametrize(
    "name",
    [
        *(
            "ad",
            "ads-top",
            "ad300x250",
            "page__sidebar",
            "menu2",
            "search-box",
            "search-results-header",
            "post-signature",
        ),
        *("message-userExtras", "bbCodeBlock-expandLink", "signature"),
    ],
)
def test_names_of_what_is_around_the_content(name: str) -> None:
    assert hints_of("div", {"class": name}) & ASIDE_BY_CLASS


@pytest.mark.parametrize("name", ["product-reviews", "customerReview", "review-list", "comment-12"])
def test_reviews_of_buyers_are_comments(name: str) -> None:
    assert hints_of("div", {"class": name}) & COMMENTS
    assert not hints_of("div", {"class": "reviewed"}) & COMMENTS


def test_lists_threads_and_repetitions_take_linear_time() -> None:
    units = [
        *(
            JOB.format(1),
            f"<div class=comment><p>{STORY}</p></div>",
            f"<div><p>{STORY}</p></div>",
            "<div class=promo>x",
        ),
        *("<meta property=og:type content=article>", f"<p>{STORY[:90]}</p><a href=/a>The title of another</a>"),
        *(f"<div class='{'_' * 290}'>x</div>", f"<div class='{'-has-a' * 40}'>x</div>"),
    ]
    extractor = DcurateExtractor()
    assert_linear(lambda page: extractor.extract_text(page, frozenset(), ""), [repeated(unit) for unit in units])
