from __future__ import annotations

import bz2
import io
import json
import re
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import mwparserfromhell
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import DataError, PipelineError
from dcurate.download import Skipped, Transfer, WikipediaExtractor, WikipediaIterator, WikipediaUrlGenerator
from dcurate.download.wikipedia.pages import Article
from dcurate.download.wikipedia.streams import stretches
from tests.download.dumps import HEAD, dump_site, multistream, page
from tests.download.server import Files

QUICK = Transfer(backoff_s=0, timeout_s=60, attempts=2)
PAGES = [page(n, f"Title {n}", f"Text of {n}. " * 40) for n in range(10)]


def listing(web: Files, **settings: Any) -> WikipediaUrlGenerator:
    return WikipediaUrlGenerator("de", wikidumps_index_prefix=web.address, transfer=QUICK, **settings)


def titles(found: Any) -> list[str]:
    return [each["title"] for each in found if isinstance(each, dict)]


def skipped(found: Any) -> list[tuple[str, bool, str]]:
    return [(each.reason, each.fault, each.id) for each in found if isinstance(each, Skipped)]


def extracted(markup: str, language: str = "en", namespaces: dict[str, str] | None = None) -> str | None:
    record = Article(title="T", id="1", url="u", language=language, source_id="s", raw_content=markup)
    record.namespaces = namespaces or {}
    row = WikipediaExtractor(language).extract(record)
    assert not isinstance(row, Skipped)
    return row["text"] if row else None


def test_the_newest_dump_whose_articles_are_complete_is_listed_with_sizes_and_checksums(web: Files) -> None:
    files = {
        "dewiki-20240601-pages-articles-multistream1.xml-p1p9.bz2": b"one",
        "dewiki-20240601-pages-articles-multistream-index1.txt-p1p9.bz2": b"index",
        "dewiki-20240601-pages-articles-multistream2.xml-p10p99.bz2": b"two",
    }
    web.content = dump_site(
        "dewiki",
        {"20240620": ("in-progress", {}), "20240520": ("done", {"x.xml.bz2": b"old"}), "20240601": ("done", files)},
    )
    web.content["/dewiki/"] += b'<a href="20240701/">a dump that has no status yet</a>'
    found = listing(web).generate_files()
    assert [file.url.rpartition("/")[2] for file in found] == [name for name in files if ".xml" in name]
    assert [file.size for file in found] == [3, 3]
    assert found[0].digest == "sha1:fe05bcdcdc4928012781a5f1a2a77cbb5398e106"
    assert listing(web).edition() == "20240601"


def test_a_dump_of_a_date_is_refused_where_it_is_not_complete(web: Files) -> None:
    web.content = dump_site("dewiki", {"20240620": ("in-progress", {}), "20240601": ("done", {"a.xml.bz2": b"1"})})
    assert [file.url for file in listing(web, dump_date="20240601").generate_files()] == [
        web.url("/dewiki/20240601/a.xml.bz2")
    ]
    with pytest.raises(DataError, match=r"20240620 are not complete \(in-progress\)"):
        listing(web, dump_date="20240620").generate_files()
    with pytest.raises(DataError, match="404"):
        listing(web, dump_date="20200101").generate_files()


def test_a_wiki_without_a_complete_dump_is_refused_with_the_dates_looked_at(web: Files) -> None:
    web.content = dump_site("dewiki", {"20240620": ("waiting", {})})
    with pytest.raises(DataError, match="no dump whose articles are complete .*'20240620'.*waiting"):
        listing(web).generate_urls()


def test_languages_with_a_hyphen_are_found_under_the_name_of_their_database(web: Files) -> None:
    web.content = dump_site("zh_min_nanwiki", {"20240601": ("done", {"a.xml.bz2": b"1"})})
    generator = WikipediaUrlGenerator("zh-min-nan", wikidumps_index_prefix=web.address + "/", transfer=QUICK)
    assert generator.generate_urls() == [web.url("/zh_min_nanwiki/20240601/a.xml.bz2")]


def test_a_language_or_date_that_cannot_be_one_is_refused() -> None:
    for settings_ in ({"language": "en/../x"}, {"dump_date": "latest"}):
        with pytest.raises(PipelineError, match=next(iter(settings_))):
            WikipediaUrlGenerator(**settings_)  # type: ignore[arg-type]


def test_articles_come_out_and_all_other_pages_are_counted_by_reason(tmp_path: Path) -> None:
    pages = [
        page(12, "Über & unter", "Text <br>"),
        page(13, "Talk:X", "talk", namespace=1),
        page(14, "X", "#REDIRECT [[Y]]", redirect="Y"),
        page(15, "Empty", " "),
    ]
    (tmp_path / "a.xml.bz2").write_bytes(multistream(pages))
    found = list(WikipediaIterator("de").iterate(str(tmp_path / "a.xml.bz2")))
    assert found[0] == {
        "title": "Über & unter",
        "id": "12",
        "url": "https://de.wikipedia.org/wiki/%C3%9Cber%20%26%20unter",
        "language": "de",
        "source_id": "a.xml.bz2",
        "raw_content": "Text <br>",
    }
    assert isinstance(found[0], Article)
    assert found[0].namespaces["14"] == "Sippe"
    assert skipped(found) == [
        ("other namespace", False, "Talk:X"),
        ("redirect", False, "X"),
        ("empty page", False, "Empty"),
    ]


def test_a_dump_of_one_stream_is_read_as_one_of_many_is(tmp_path: Path) -> None:
    (tmp_path / "a.bz2").write_bytes(bz2.compress((HEAD + "".join(PAGES) + "</mediawiki>").encode()))
    assert titles(WikipediaIterator().iterate(str(tmp_path / "a.bz2"))) == [f"Title {n}" for n in range(10)]


@given(cuts=st.lists(st.integers(0, 3000), max_size=6), each=st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_ranges_that_meet_give_every_article_once(tmp_path_factory: Any, cuts: list[int], each: int) -> None:
    path = tmp_path_factory.getbasetemp() / f"ranges-{each}.bz2"
    data = multistream(PAGES, each)
    path.write_bytes(data)
    bounds = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    found = [
        one for start, stop in pairwise(bounds) for one in WikipediaIterator().iterate_range(str(path), start, stop)
    ]
    assert titles(found) == [f"Title {n}" for n in range(10)]
    assert skipped(found) == []
    assert all(article.namespaces["6"] == "Ablage" for article in found)


def test_a_damaged_stream_costs_its_own_pages_only_and_is_reported(tmp_path: Path) -> None:
    data = bytearray(multistream(PAGES))
    begins = [match.start() for match in re.finditer(rb"BZh91AY&SY", data)]
    data[begins[2] + 40] ^= 0xFF
    (tmp_path / "a.bz2").write_bytes(data)
    found = list(WikipediaIterator().iterate(str(tmp_path / "a.bz2")))
    assert titles(found) == [f"Title {n}" for n in range(10) if n not in (2, 3)]
    assert skipped(found) == [("damaged", True, f"byte {begins[2]}")]


def test_a_dump_that_is_cut_short_gives_what_is_there_and_says_so(tmp_path: Path) -> None:
    data = multistream(PAGES)
    last = [match.start() for match in re.finditer(rb"BZh91AY&SY", data)][5]
    (tmp_path / "a.bz2").write_bytes(data[: last + 60])
    found = list(WikipediaIterator().iterate(str(tmp_path / "a.bz2")))
    assert titles(found) == [f"Title {n}" for n in range(8)]
    assert skipped(found) == [("damaged", True, f"byte {last}")]


def test_streams_that_are_no_xml_are_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    streams = [HEAD, PAGES[0], PAGES[1] + "<page><title>broken", "</oops>", PAGES[2], "</mediawiki>"]
    (tmp_path / "a.bz2").write_bytes(b"".join(bz2.compress(text.encode()) for text in streams))
    found = list(WikipediaIterator().iterate(str(tmp_path / "a.bz2")))
    assert titles(found) == ["Title 0", "Title 1", "Title 2"]
    assert [reason for reason, _, _ in skipped(found)] == ["damaged"]


def test_something_else_than_a_dump_is_reported_as_damage(tmp_path: Path) -> None:
    (tmp_path / "a.bz2").write_bytes(b"<html>not found</html>")
    assert skipped(WikipediaIterator().iterate(str(tmp_path / "a.bz2"))) == [("damaged", True, "byte 0")]


def test_entities_that_grow_without_bound_are_refused(tmp_path: Path) -> None:
    bomb = '<!DOCTYPE m [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><mediawiki>&b;</mediawiki>'
    (tmp_path / "a.bz2").write_bytes(bz2.compress(bomb.encode()))
    (found,) = list(WikipediaIterator().iterate(str(tmp_path / "a.bz2")))
    assert isinstance(found, Skipped)
    assert "document type declaration" in found.detail


def test_a_range_in_which_no_stream_begins_is_not_searched_beyond_its_end() -> None:
    file = io.BytesIO(b"BZ" * 1_000_000 + bz2.compress(b"x"))
    assert list(stretches(file, 1000, 5000)) == []
    assert file.tell() < 600_000


def test_memory_holds_pieces_of_a_stream_that_is_large(tmp_path: Path) -> None:
    path = tmp_path / "a.bz2"
    path.write_bytes(bz2.compress(b"\0" * 90_000_000))
    with path.open("rb") as file:
        sizes = [len(piece.data) for piece in stretches(file)]
    assert sum(sizes) == 90_000_000
    assert max(sizes) <= 72_000_000


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("'''Bold''' and ''italic'' &amp; more", "Bold and italic & more"),
        ("[[Link]] and [[Target|shown]]", "Link and shown"),
        ("a [https://x.org site] b https://y.org c [https://z.org]", "a site b https://y.org c"),
        ("before {{Infobox|a=[[File:x.jpg]]}} after", "before  after"),
        ("one<ref name=a>cited</ref> two<ref name=a />", "one two"),
        ("x\n{| class=wikitable\n| cell\n|}\ny", "x\n\ny"),
        ("x [[File:a.jpg|thumb|A [[cat]] sits]] y [[image:b.png]] z", "x  y  z"),
        ("[[Category:Towns]] [[category:Rivers|sort key]][[Category:Seas|*]]", "Towns sort key"),
        ("__NOTOC__start__TOC__", "start"),
        ("lead\n== First ==\none\n=== Sub ===\ntwo", "lead\n\nFirst \none\n\nSub \ntwo"),
        ("== Only ==", "Only"),
        ("a<!-- hidden -->b", "ab"),
        ("* one\n* two", "one\n two"),
        ("{{only a template}}", None),
        ("", None),
    ],
)
def test_markup_becomes_the_text_that_it_shows(markup: str, text: str | None) -> None:
    assert extracted(markup) == text


def test_entities_that_mean_no_character_do_not_cost_the_article() -> None:
    assert extracted("a &#xD800; b &#65; c &Sigma; d &#x3A3;") == "a \ufffd b A c Σ d Σ"


def test_markup_that_is_nested_without_end_is_read() -> None:
    for opened, closed in (("[[a|", "]]"), ("<b>", "</b>"), ("{{a|", "}}"), ("[http://x ", "]"), ("{|\n|", "\n|}\n")):
        assert "core" in (extracted(opened * 300 + "core" + closed * 300 + " core") or "")


def test_files_and_categories_are_known_by_the_names_of_their_language_and_of_the_dump() -> None:
    markup = "x [[Datei:a.jpg]] [[Bild:b.jpg]] [[Ablage:c.jpg]] [[Kategorie:Ort]] [[Sippe:Art]] [[Imagen:d.jpg]]"
    assert extracted(markup, "de", {"6": "Ablage", "14": "Sippe"}) == "x    Ort Art Imagen:d.jpg"
    assert extracted("[[Imagen:d.jpg]] [[Categoría:Pueblo]]", "es") == "Pueblo"
    assert extracted("[[Fichier:d.jpg]] [[Catégorie:Ville]]", "xx") == "Fichier:d.jpg Catégorie:Ville"


def _by_the_original(markup: str) -> str:
    """The rule of NeMo Curator: remove nodes, section by section, then strip; here none is missed."""
    sections = []
    for section in mwparserfromhell.parse(markup).get_sections(flat=True, include_lead=True, include_headings=True):
        for link in section.filter_wikilinks(recursive=True):
            with suppress(ValueError):
                if re.match("^(?:File|Image|Media):", str(link.title), re.I):
                    section.remove(link)
                elif re.match("^(?:Category):", str(link.title), re.I):
                    link.text = re.sub("^(?:Category):", "", link.__strip__(), flags=re.I)  # type: ignore[arg-type]
        for tag in section.filter_tags(matches=lambda tag: str(tag.tag) in {"ref", "table"}, recursive=True):
            with suppress(ValueError):
                section.remove(tag)
        sections.append(re.sub("__[A-Z]*__", "", section.strip_code().strip()))
    return "\n\n".join(text for text in sections if text)


_ATOMS = [
    "word ", "== H ==\n", "\n", "\n\n\n", "[[", "]]", "[[File:a|", "[[Category:C", "|", "'''", "''", "{{t|", "}}",
    "<ref>", "</ref>", "<ref/>", "<b>", "</b>", "\n{|\n|", "\n|}\n", "&lt;", "&#65;", "<!--", "-->", "[http://a.b ",
    "]", "__TOC__", "\n* ", "<math>x</math>", "<gallery>", "</gallery>", "{{{p|d}}}", "ü",
]  # fmt: skip


@given(st.lists(st.sampled_from(_ATOMS), max_size=25).map("".join))
@settings(max_examples=400, deadline=None)
def test_any_markup_gives_what_the_rule_of_nemo_curator_gives(markup: str) -> None:
    assert (extracted(markup) or "").strip() == _by_the_original(markup).strip()


def test_the_status_of_a_dump_that_makes_no_sense_is_refused_in_a_sentence(web: Files) -> None:
    for nonsense in (b"no json", b"[]", json.dumps({"jobs": {}}).encode()):
        web.content = {"/dewiki/20240601/dumpstatus.json": nonsense}
        with pytest.raises(DataError, match="does not list articlesmultistreamdump"):
            listing(web, dump_date="20240601").generate_files()
