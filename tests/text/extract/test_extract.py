"""Pages to text."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import justext.core
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import DocumentBatch, InlineExecutor, JsonlReader, JsonlWriter, Pipeline, PipelineError
from dcurate.rows import adapt_rows
from dcurate.text import (
    HtmlExtractor,
    HTMLExtractorAlgorithm,
    JusTextExtractor,
    ResiliparseExtractor,
    TrafilaturaExtractor,
)
from dcurate.text.extract.charset import decoded, in_utf8
from dcurate.text.extract.justext_context import judge_by_neighbours
from dcurate.text.extract.language import shown_text
from dcurate.text.extract.named import extractor
from dcurate.text.extract.stop_words import StopLists
from tests.growth import assert_linear

NAMES = ("trafilatura", "dcurate", "resiliparse", "justext")
SENTENCE = (
    "It was a bright cold day in April, and the clocks of the town were striking thirteen while he was on his way. "
)
STORY = "".join(f"<p>{number}. {SENTENCE * 3}</p>" for number in range(5))
PAGE = (
    f"<html><head><title>A cold &amp; bright day</title></head><body><nav><ul><li><a href='/'>Home</a></li>"
    f"<li><a href='/news'>News</a></li></ul></nav><article><h1>The day</h1>{STORY}</article>"
    f"<footer><a href='/x'>Imprint</a></footer></body></html>"
)


def run(stage: HtmlExtractor, pages: list, **columns: list) -> DocumentBatch:
    stage.setup()
    return stage.process(
        DocumentBatch(data=pd.DataFrame({"url": range(len(pages)), stage.html_field: pages, **columns}))
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_main_text_is_taken_and_the_navigation_left(name):
    (row,) = run(HtmlExtractor(name), [PAGE.encode()]).to_pandas().to_dict("records")
    assert row["title"] == "A cold & bright day"
    assert row["text"].count(SENTENCE.strip()) == 15
    assert not any(word in row["text"] for word in ("Home", "Imprint"))
    assert "content" not in row


@pytest.mark.parametrize("name", NAMES)
def test_a_page_need_not_say_that_it_is_html(name):
    assert SENTENCE.strip() in run(HtmlExtractor(name), [f"<article>{STORY}</article>"]).to_pandas()["text"][0]


@pytest.mark.parametrize("name", NAMES)
def test_pages_without_text_are_counted_as_dropped(name):
    pages = [b"", b" \n", None, b"<html></html>", b"\0\0", PAGE.encode()]
    result = run(HtmlExtractor(name), pages)
    assert result.to_pandas()["url"].tolist() == [5]
    assert [(each.reason, each.rows, each.fault) for each in result.rejections] == [("no text", 5, False)]
    assert result.rejections[0].data["url"].to_pylist() == [0, 1, 2, 3, 4]


def test_a_page_that_the_library_fails_on_goes_to_quarantine_alone():
    class Fails(HTMLExtractorAlgorithm):
        def extract_text(self, html, stop_words, language):
            if "bad" in html:
                raise RecursionError("too deep")
            return [html]

    result = run(HtmlExtractor(Fails()), ["<p>one</p>", "<p>bad</p>", "<p>two</p>"])
    assert result.to_pandas()["url"].tolist() == [0, 2]
    (fault,) = result.rejections
    assert (fault.fault, fault.reason) == (True, "page cannot be extracted")
    assert fault.data.select(["url", "error"]).to_pylist() == [{"url": 1, "error": "RecursionError: too deep"}]


def test_a_page_that_is_too_large_goes_to_quarantine():
    (fault,) = run(HtmlExtractor("resiliparse", largest_page=100), ["x" * 101, "<p>" + "y" * 90]).rejections
    assert fault.fault
    assert "101" in fault.data["error"][0].as_py()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "page",
    [
        b"<div>" * 100_000 + b"text",
        b"<ul><li>" * 20_000 + b"text",
        b"<p>a short line</p>" * 5_000,
        b"<p " + b" ".join(b"a%d=1" % n for n in range(3_000)) + b">text</p>",
        b"<title>" * 20_000,
        b"<" * 50_000,
        b"&" * 50_000,
        b"<![CDATA[" * 5_000,
        bytes(range(256)) * 100,
        b"<p>&#xD800; &#x110000; &#0; text</p>",
        b"<?xml version='1.0' encoding='utf-8'?><html><body><p>text</p></body></html>",
        b"<p>a\0b</p>" * 50,
        b"\xff\xfe<\0p\0>\0",
    ],
    ids=range(13),
)
def test_no_strange_page_raises_or_takes_forever(name, page):
    result = run(HtmlExtractor(name), [page, PAGE.encode()])
    assert 1 in result.to_pandas()["url"].tolist()
    assert result.num_items + sum(each.rows for each in result.rejections) == 2
    result.to_arrow().validate(full=True)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(["<p>", "</p>", "<div>", "<b>", "<table><td>", "<!--", "<script>", "&", "\0"]),
            st.text(max_size=20),
        ),
        max_size=30,
    ).map("".join)
)
@pytest.mark.parametrize("name", NAMES)
def test_no_text_raises(name, page):
    result = run(HtmlExtractor(name), [page, page.encode(errors="replace")])
    assert result.num_items + sum(each.rows for each in result.rejections) == 2


def test_title_and_page_are_kept_as_asked():
    result = run(HtmlExtractor("resiliparse", title_field=None, keep_html=True, text_field="body"), [PAGE])
    assert result.get_columns() == ["url", "content", "body"]
    result = run(HtmlExtractor("resiliparse", html_field="text", title_field=None), [PAGE])
    assert result.get_columns() == ["url", "text"]
    assert "<p>" not in result.to_pandas()["text"][0]


def test_the_charset_declared_by_the_server_is_used_where_there_is_a_column():
    page = "<p>Ærøskøbing Ærøskøbing</p>".encode("cp1252")
    assert "Ærøskøbing" in run(HtmlExtractor("resiliparse"), [page], charset=["ISO-8859-1"]).to_pandas()["text"][0]
    assert (
        "Жрш"
        in run(HtmlExtractor("resiliparse"), ["<p>Жрш</p>".encode("koi8-r")], charset=["KOI8-R"]).to_pandas()["text"][0]
    )


@pytest.mark.parametrize(
    ("text", "encoding", "declared", "meta"),
    [
        ("naïve café", "utf-8", None, None),
        ("naïve café", "utf-8", "iso-8859-1", None),
        ("naïve “café”", "cp1252", "latin1", None),
        ("naïve “café”", "cp1252", None, "<meta charset=windows-1252>"),
        ("Привет, мир", "cp1251", None, '<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">'),
        ("Привет, мир", "koi8-r", "koi8-r", "<meta charset=utf-8>"),
        ("こんにちは世界", "shift_jis", None, "<META CHARSET='Shift_JIS'>"),
        ("こんにちは世界", "iso2022_jp", None, "<meta charset=iso-2022-jp>"),
        ("こんにちは世界", "euc_jp", None, "<?xml version='1.0' encoding='EUC-JP'?>"),
        ("你好，世界", "gb18030", "gb2312", None),
        ("你好，世界", "big5", "Big5", None),
        ("안녕하세요", "cp949", "euc-kr", None),
        ("위원회는 그해 봄에 다시 모였지만 아무것도 결정되지 않았다.", "euc_kr", None, None),
        ("위원회는 그해 봄에 다시 모였지만 아무것도 결정되지 않았다.", "euc_kr", None, "<meta charset=utf-8>"),
        ("委員会はその年の春に再び集まりました", "iso2022_jp", None, None),
        ("委員会はその年の春に再び集まりました", "iso2022_jp", "utf-8", "<meta charset=iso-8859-1>"),
        ("委员会在那年春天再次开会，但什么也没有决定。", "gbk", None, None),
        ("nous étions là-bas, où « naïve » était écrit", "cp1252", None, None),
        ("naïve café", "utf-16", None, None),
        ("naïve café", "utf-8-sig", "cp1252", None),
        ("plain", "ascii", "no-such-charset", "<meta charset=nonsense>"),
        ("Привет, мир! Как дела? Сегодня хорошая погода, и мы идём гулять в парк.", "cp1251", None, None),
        ("Привет, мир! Как дела? Сегодня хорошая погода, и мы идём гулять в парк.", "cp1251", "rot13", None),
    ],
)
def test_a_page_is_decoded_as_it_was_meant(text, encoding, declared, meta):
    page = f"{meta or ''}<p>{text}</p>".encode(encoding)
    assert f"<p>{text}</p>" in decoded(page, declared)


@settings(max_examples=300, deadline=None)
@given(
    st.binary(max_size=300),
    st.one_of(st.none(), st.text(max_size=20), st.sampled_from(["utf-8", "gbk", "hz", "utf-16", "shift_jis"])),
)
def test_no_bytes_and_no_declaration_fail_to_decode(page, declared):
    text = decoded(page, declared)
    assert "\0" not in text
    text.encode()


@settings(max_examples=100, deadline=None)
@given(
    st.text(st.characters(codec="utf-8", exclude_characters="\0\ufeff"), max_size=200),
    st.sampled_from([None, "utf-8", "latin-1", "shift_jis"]),
)
def test_utf8_is_read_as_such_whatever_is_declared(text, declared):
    page = f"<p>{text}é"
    assert decoded(page.encode(), declared) == page


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=20),
            st.text(max_size=20).map(lambda text: text.encode(errors="replace")),
            st.sampled_from(
                [
                    b"<?xml version='1.0'?>",
                    b"\xef\xbb\xbf",
                    b"\0",
                    b" ",
                    "\u3000".encode(),
                    b"<meta charset=hz>",
                    b"\x1b$B!!\x1b(B",
                ]
            ),
        ),
        max_size=6,
    ).map(b"".join),
    st.sampled_from([None, "utf-8", "latin-1", "iso-2022-jp"]),
)
def test_a_page_is_the_same_in_utf8_as_decoded(page, declared):
    assert in_utf8(page, declared).decode() == decoded(page, declared)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 40), st.sampled_from(["x", "é", "漢", "😀"]), st.sampled_from([2**14, 2**16, 2**17]))
def test_a_title_is_found_in_bytes_where_it_is_found_in_text(less, filling, size):
    page = f"<!--{filling * ((size - less) // len(filling.encode()))}--><title>A dày</title><p>It was cold."
    stage = HtmlExtractor("dcurate")
    stage.setup()
    assert stage.extract(page.encode()) == stage.extract(page)


CLASSES = st.sampled_from(["good", "bad", "short", "neargood"])


@settings(max_examples=500, deadline=None)
@given(st.lists(st.tuples(CLASSES, st.booleans(), st.integers(1, 150)), max_size=40), st.integers(0, 300))
def test_paragraphs_are_judged_by_their_neighbours_as_justext_does(paragraphs, distance):
    ours, theirs = (
        [
            SimpleNamespace(cf_class=class_, class_type=class_, heading=heading, text="x" * length)
            for class_, heading, length in paragraphs
        ]
        for _ in range(2)
    )
    judge_by_neighbours(ours, distance)
    justext.core.revise_paragraph_classification(theirs, distance)
    assert [each.class_type for each in ours] == [each.class_type for each in theirs]


def test_justext_gives_what_the_library_gives():
    ours = JusTextExtractor()
    ours.load()
    words = justext.get_stoplist("English")
    theirs = justext.justext(PAGE, words, 70, 200, 0.30, 0.32, 0.2, 200, False)
    assert ours.extract_text(PAGE, words, "ENGLISH") == [each.text for each in theirs if not each.is_boilerplate]


def test_the_language_chooses_the_stop_words():
    german = (
        "Es war ein klarer, kalter Tag im April, und die Uhren der Stadt schlugen dreizehn, als er nach Hause kam. "
    )
    page = f"<body><p>{german * 3}</p></body>"
    stage = HtmlExtractor("justext", language_field="lang")
    assert run(stage, [page] * 4, lang=["de", "deu", "GERMAN", "en"]).to_pandas()["url"].tolist() == [0, 1, 2]


def test_a_language_without_a_list_is_judged_by_length_and_links():
    page = f"<body><p>{SENTENCE * 3}</p><p><a href='/'>{SENTENCE * 3}</a></p></body>"
    result = run(HtmlExtractor("justext", language_field="lang"), [page, page], lang=["xx", None])
    assert result.to_pandas()["text"].tolist() == [(SENTENCE * 3).strip()] * 2


#: The same paragraph in languages of several scripts; Aymara has no list of stop words.
IN_MANY = {
    "de": "Alle Menschen sind frei und gleich an Würde und Rechten geboren, sie sind mit Vernunft und Gewissen begabt.",
    "fr": "Tous les êtres humains naissent libres et égaux en dignité et en droits, ils sont doués de raison.",
    "pl": "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw, są oni obdarzeni rozumem.",
    "ru": "Все люди рождаются свободными и равными в своем достоинстве и правах, они наделены разумом и совестью.",
    "el": "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα, είναι προικισμένοι.",
    "hi": "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।",
    "tr": "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar, akıl ve vicdana sahiptirler.",
    "ay": "Taqpach jaqejh khuskat uñjatatäpjhewa munañapansa, lurañapansa, amuyasiñapataki ch'amanipjhewa.",
    "zh": "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。",
}


@pytest.mark.parametrize("extractor_", ["justext", JusTextExtractor(length_low=50), ResiliparseExtractor()])
def test_pages_of_all_languages_have_text_without_a_column_that_says_which(extractor_):
    pages = [
        f"<html><head><title>a</title></head><body><nav><a href='/'>Home</a> <a href='/n'>News</a></nav><article>"
        f"{f'<p>{text} {text} {text}</p>' * 3}</article></body></html>"
        for text in IN_MANY.values()
    ]
    result = run(HtmlExtractor(extractor_), pages)
    assert {name for name, text in zip(IN_MANY, result.to_pandas()["text"], strict=False) if not text} == set()
    assert result.to_pandas()["url"].tolist() == list(range(len(pages)))
    assert [text.count(own) for own, text in zip(IN_MANY.values(), result.to_pandas()["text"], strict=True)] == [9] * 9
    assert (
        run(HtmlExtractor(extractor_), pages, language=[None] * 9)
        .to_pandas()["text"]
        .equals(result.to_pandas()["text"])
    )


def test_the_language_of_a_page_is_that_of_its_text_and_not_of_its_scripts_and_tags():
    lists = StopLists()
    for code, text in IN_MANY.items():
        page = f"<script>{'the of and is to a in ' * 500}</script><p title='the of and is to'>{text}</p>"
        known = {"ay": "", "zh": "CHINESE"}
        assert lists.of_page(page).language == known.get(code, lists.of(code).language)
    assert lists.of_page("<p>12:30</p>") == (frozenset(), "")
    assert lists.of_page("") == (frozenset(), "")


def test_lists_of_ones_own_are_the_languages_that_pages_may_be_in():
    own = StopLists({"ENGLISH": frozenset(["the", "of"]), "KLINGON": frozenset(["tlh"])})
    assert own.of_page(f"<p>{IN_MANY['de']}</p>").language == ""
    assert own.of_page("<p>tlh a b c</p>").language == "KLINGON"


@pytest.mark.parametrize("piece", ["<", "<a", "<a ", "<script>", "</script", "<!--", "&", "&#9", "<p>", "a ", "<b><"])
def test_the_text_that_tells_the_language_is_found_in_linear_time(piece):
    assert_linear(shown_text, [lambda count: piece * count], (20_000, 200_000), bytes_each=len(piece))


def test_a_reference_to_no_character_does_not_cost_the_page():
    page = f"<title>a&#{'9' * 5000};b</title>{PAGE}&#{'9' * 5000};"
    result = run(HtmlExtractor("resiliparse"), [page])
    assert result.rejections == ()
    assert result.to_pandas()["title"][0] == "a b"


def test_text_without_spaces_is_not_taken_for_boilerplate():
    page = f"<body><p>{'今日は天気がいい。' * 40}</p><p>短い</p></body>"
    result = run(HtmlExtractor("justext", language_field="lang"), [page], lang=["ja"])
    assert "短い" in result.to_pandas()["text"][0]


def test_nemo_curators_rule_of_stop_words_is_kept_in_its_classes():
    page = f"<body><article><p>{SENTENCE * 3}</p><p>Blue Green Yellow Orange Crimson Azure</p></article></body>"
    dense = run(HtmlExtractor(ResiliparseExtractor()), [page]).to_pandas()["text"][0]
    whole = run(HtmlExtractor("resiliparse"), [page]).to_pandas()["text"][0]
    assert ["Crimson" in text for text in (dense, whole)] == [False, True]
    assert SENTENCE.strip() in dense


def test_settings_of_a_named_extractor_can_be_changed():
    assert extractor("trafilatura", {"favor_precision": True}).extract_kwargs["favor_precision"]  # type: ignore[attr-defined]
    assert extractor("justext").stopwords_high == 0.2  # type: ignore[attr-defined]
    assert JusTextExtractor().stopwords_high == 0.32
    assert TrafilaturaExtractor(include_tables=False) == TrafilaturaExtractor(include_tables=False)
    assert TrafilaturaExtractor() != TrafilaturaExtractor(include_tables=False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"algorithm": "trafilatur"}, "did you mean 'trafilatura'"),
        ({"algorithm": "justext", "algorithm_kwargs": {"length": 3}}, "length"),
        ({"algorithm": JusTextExtractor(), "algorithm_kwargs": {"length_low": 3}}, "length_low"),
        ({"largest_page": 0}, "largest_page"),
    ],
)
def test_settings_that_mean_nothing_are_refused(arguments, said):
    with pytest.raises(PipelineError, match=said):
        HtmlExtractor(**arguments)


def test_an_argument_that_trafilatura_does_not_take_is_refused_before_any_page():
    with pytest.raises(PipelineError, match="include_smells"):
        HtmlExtractor(TrafilaturaExtractor(include_smells=True)).setup()


def test_an_extractor_leaves_columns_that_it_does_not_name_in_their_lines_and_reads_the_charset(tmp_path):
    line = rb'{"id":1.50, "content":"<p>It was a bright cold day.</p>", "charset":"latin-1", "meta":{"a":[1,"b"]}}'
    (tmp_path / "in.jsonl").write_bytes(line + b"\n")
    pages = HtmlExtractor("resiliparse")
    stages: list[Any] = [JsonlReader(str(tmp_path / "in.jsonl")), pages, JsonlWriter(str(tmp_path / "out"))]
    reader: Any = adapt_rows(stages)[0]
    assert reader._read_only == ("content", "charset", "text", "title")
    files: Any
    [files] = Pipeline("pages", stages=stages).run(InlineExecutor(), observers=[])
    kept, added = Path(files.data[0]).read_bytes().split(b',"text"')
    assert kept == rb'{"id":1.50, "charset":"latin-1", "meta":{"a":[1,"b"]}'
    assert added == b':"It was a bright cold day.","title":null}\n'
