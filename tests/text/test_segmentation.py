from __future__ import annotations

import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import groupby
from pathlib import Path

import MeCab
import numpy as np
import pyarrow as pa
import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pythainlp.tokenize import word_tokenize

from dcurate import BatchKey, DocumentBatch, ResourceError, ScoreFilter
from dcurate.core.extras import needed
from dcurate.frames.text import column_of, encodable, text_column
from dcurate.text import (
    LongWordFilter,
    MeanWordLengthFilter,
    Needs,
    RepeatingDuplicateNGramsFilter,
    RepeatingTopNGramsFilter,
    SignalFilter,
    Signals,
    SymbolsToWordsFilter,
    WordCountFilter,
    WordsWithoutAlphabetsFilter,
)
from dcurate.text.segmentation import cut_runs, spaced, splitter, words_in
from dcurate_testing.filter_oracle import duplicate_ngrams, is_symbol, share

pytestmark = pytest.mark.program

LANGS = ("zh", "ja", "ko", "th")
NATIVE = {
    "zh": ("因此现在大会发布这一世界人权宣言", "中文分词", "我来到北京清华大学", "的", "。", "，", "T恤", "𠀀"),
    "ja": ("諸国間の友好関係の発展を促進する", "日本語の", "テスト", "です", "。", "、", "カタカナ", "々"),
    "ko": ("국제연합의 모든 사람들은", "기본적 인권", "했다", "대한민국에서", "ㅋㅋㅋ", ".", "그것은"),
    "th": ("โดยที่ประชากรแห่งสหประชาชาติ", "สวัสดี", "ประเทศไทย", "ๆ", "ก", "ฯ"),
}
ANY = st.sampled_from(
    [
        *(
            " ",
            " ",
            "\n",
            "\n\n",
            "\t",
            "\u3000",
            "\r\n",
            "\x00",
            "\x1c",
            "a",
            "word",
            "C++",
            "24-10",
            "#",
            "##",
            "...",
        ),
        *("…", "EOS", "é", "1.5%", "😀", "\ud800", "\U0010ff00", "\ufeff", "»", "-", "_"),
    ]
)
ALPHABETIC = regex.compile("[[:alpha:]]")


def texts(lang: str) -> st.SearchStrategy[str]:
    return st.lists(st.one_of(st.sampled_from(NATIVE[lang]), ANY), max_size=25).map("".join)


def words_of(text: str, lang: str) -> list[str]:
    return [word for word in splitter(lang)(encodable(text).strip()) if word]


def top_ngram(text: str, words: list[str], n: int) -> float:
    """The n-gram is removed in its first form."""
    if len(words) < n:
        return 1.0
    starts, at = [], 0
    for word in words:
        starts.append(text.index(word, at))
        at = starts[-1] + len(word)
    grams = [tuple(words[place : place + n]) for place in range(len(words) - n + 1)]
    best = grams.index(Counter(grams).most_common(1)[0][0])
    shown = text[starts[best] : starts[best + n - 1] + len(words[best + n - 1])]
    return (len(text) - len(text.replace(shown, ""))) / len(text)


def rules(lang: str) -> list[tuple[SignalFilter, Callable[[str, list[str]], float]]]:
    """Each filter, and what it must score for a text and its words."""
    symbols = lambda words: sum(bool(word.strip()) and is_symbol(word) for word in words)  # noqa: E731
    return [
        (WordCountFilter(language=lang), lambda _, words: len(words)),
        (MeanWordLengthFilter(language=lang), lambda _, words: share(sum(map(len, words)), len(words), 0.0)),
        (LongWordFilter(language=lang), lambda _, words: max(map(len, words), default=1001)),
        (SymbolsToWordsFilter(language=lang), lambda _, words: share(symbols(words), len(words), 1.0)),
        (
            WordsWithoutAlphabetsFilter(language=lang),
            lambda _, words: share(sum(map(bool, map(ALPHABETIC.search, words))), len(words), 0.0),
        ),
        *(
            (RepeatingTopNGramsFilter(n, language=lang), lambda t, words, n=n: top_ngram(t, words, n))
            for n in (1, 2, 3)
        ),
        *(
            (RepeatingDuplicateNGramsFilter(n, language=lang), lambda t, words, n=n: duplicate_ngrams(t, n, words))
            for n in (1, 2, 5)
        ),
    ]


def scored_all(lang: str) -> Needs:
    return rules(lang)[-3][0].needs | rules(lang)[-2][0].needs | rules(lang)[-1][0].needs | Needs.of("words")


@pytest.mark.parametrize("lang", LANGS)
@given(data=st.data())
@settings(max_examples=12, deadline=None)
def test_every_filter_of_words_scores_the_words_that_the_library_finds(lang: str, data: st.DataObject) -> None:
    documents = data.draw(st.lists(texts(lang), min_size=1, max_size=4))
    column = column_of(text.encode(errors="surrogatepass") for text in documents)
    signals = Signals(column, scored_all(lang))
    words = [words_of(text, lang) for text in documents]
    for rule, expected in rules(lang):
        wanted = [expected(encodable(text), found) for text, found in zip(documents, words, strict=True)]
        assert rule.score(signals).tolist() == wanted, rule


@pytest.mark.parametrize("lang", LANGS)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_spaced_texts_hold_the_words_of_the_library_and_nothing_else(lang: str, data: st.DataObject) -> None:
    text = data.draw(st.one_of(texts(lang), st.text(st.characters(exclude_categories=["Cn"]))))
    offsets, line = spaced([text], lang)
    assert words_in(line.tobytes().decode()) == words_of(text, lang)
    assert offsets.tolist() == [0, len(line)]


@pytest.mark.parametrize("lang", LANGS)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_words_stand_in_the_text_in_their_order_with_only_whitespace_between_them(
    lang: str, data: st.DataObject
) -> None:
    text = encodable(data.draw(texts(lang))).strip().replace("\0", " ")
    for word in words_of(text, lang):
        before, found, text = text.partition(word)
        assert found
        assert not before.strip()
    assert not text.strip()


#: What jieba 0.42.1 gives.
JIEBA = {
    "我来到北京清华大学": ["我", "来到", "北京", "清华大学"],
    "以 24-10 领先": ["以", " ", "24", "-", "10", " ", "领先"],
    "兼容 MPEG-2，写C++。": ["兼容", " ", "MPEG", "-", "2", "，", "写", "C++", "。"],
    "穿T恤\r\n  涨1.5%": ["穿", "T恤", "\r\n", " ", " ", "涨", "1.5%"],
    "𠀀𠀁旋转": ["𠀀", "𠀁", "旋转"],
    "降% a_b": ["降", "%", " ", "a", "_", "b"],
}


@pytest.mark.parametrize("text", JIEBA)
def test_chinese_words_are_those_of_jieba_whitespace_included(text: str) -> None:
    assert splitter("zh")(text) == JIEBA[text]
    assert WordCountFilter(language="zh").score_document(f" {text}\n") == len(JIEBA[text])


@given(texts("ja"))
@example("a b\u3000c\nd\te EOS")
@settings(max_examples=50, deadline=None)
def test_japanese_words_are_those_that_mecab_prints(text: str) -> None:
    clean = encodable(text).replace("\0", " ").strip()
    printed = MeCab.Tagger().parse(clean).strip("\n").split("\n")
    assert words_of(clean, "ja") == [line.split("\t")[0] for line in printed if line and line != "EOS"]


def test_thai_words_are_those_of_pythainlp_without_whitespace() -> None:
    text = "สวัสดี ประเทศไทย abc"
    assert words_of(text, "th") == ["สวัสดี", "ประเทศ", "ไทย", "abc"]
    assert words_of(text, "th") == word_tokenize(text, engine="newmm-safe", keep_whitespace=False)


def test_korean_words_are_morphemes_and_those_of_one_syllable_stay_together() -> None:
    assert words_of("대한민국에서 했다", "ko") == ["대한민국", "에서", "했", "다"]


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("run", ["1", "a", "ア", "ก", "가", "中", "-", "😀", "1,"])
def test_a_run_without_end_is_split_in_a_moment(lang: str, run: str) -> None:
    text = run * 4_000
    assert "".join(words_of(text, lang)) == text


def test_in_any_other_language_words_are_what_whitespace_separates() -> None:
    assert WordCountFilter(language="xx").score_document("안녕 하세요 中文") == 3


def test_whitespace_that_counts_as_a_word_is_no_symbol_and_has_no_letter() -> None:
    assert SymbolsToWordsFilter(language="zh").score_document("中文 中文\n...") == 1 / 5
    assert WordsWithoutAlphabetsFilter(language="zh").score_document("中文 中文") == 2 / 3


def test_the_top_ngram_of_words_without_spaces_between_them_is_removed_as_it_stands() -> None:
    assert RepeatingTopNGramsFilter(n=2, language="zh").score_document("中文分词，中文分词。") == 8 / 10


@pytest.mark.parametrize("lang", LANGS)
def test_signals_of_some_rows_are_those_rows_of_the_signals_of_all(lang: str) -> None:
    documents = [*NATIVE[lang], "", " ", "".join(NATIVE[lang]) * 3]
    mask = np.arange(len(documents)) % 2 == 0
    column = text_column(pa.table({"text": documents}), "text")
    before = Signals(column, scored_all(lang))
    for rule, _ in rules(lang):
        rule.score(before)
    kept, afresh = before.narrowed(mask), Signals(column, scored_all(lang), np.flatnonzero(mask))
    for rule, _ in rules(lang):
        assert rule.score(kept).tolist() == rule.score(afresh).tolist() == rule.score(before)[mask].tolist()


def test_texts_are_split_once_for_all_filters_of_a_language() -> None:
    signals = Signals(column_of([b"one two"]), Needs())
    assert signals.in_language("th") is signals.in_language("TH")
    assert signals.in_language("fr") is signals


def test_one_pass_over_several_languages_keeps_what_the_filters_keep_in_turn() -> None:
    documents = ["中文分词，中文分词。", "one two three", "日本語のテストです。日本語のテストです。", ""]
    table = pa.table({"text": documents})
    stages = [
        ScoreFilter(WordCountFilter(2, 9, language="zh"), score_field="zh"),
        ScoreFilter(RepeatingDuplicateNGramsFilter(3, 0.6, language="ja"), score_field="ja"),
        ScoreFilter(WordCountFilter(0, 9), score_field="en"),
    ]
    merged = stages[0].fuse_with(stages[1])
    assert merged is not None
    merged = merged.fuse_with(stages[2])
    assert merged is not None
    batch = DocumentBatch(key=BatchKey("s"), data=table)
    together = merged.process(batch).to_arrow()
    for stage in stages:
        batch = stage.process(batch)
    assert together.to_pylist() == batch.to_arrow().to_pylist()
    assert together["text"].to_pylist() == ["中文分词，中文分词。", "one two three"]


@pytest.mark.parametrize("lang", LANGS)
def test_a_filter_that_needs_a_dictionary_is_not_light_and_others_are(lang: str) -> None:
    assert not ScoreFilter(WordCountFilter(language=lang)).cheap_setup
    assert ScoreFilter(WordCountFilter(language="fr")).cheap_setup


def test_a_library_that_is_not_installed_is_named_with_what_brings_it() -> None:
    with pytest.raises(ResourceError, match=r"splitting Elvish: .*'no_such_module'.* pip install 'dcurate\[lang\]'"):
        needed("no_such_module", "splitting Elvish", "lang")


def test_a_host_is_made_ready_without_the_dictionary_and_a_slot_with_it() -> None:
    program = """
import sys
from dcurate.text import WordCountFilter
from dcurate import ScoreFilter
stage = ScoreFilter(WordCountFilter(language="ko"))
stage.setup_on_node()
print("kiwipiepy" in sys.modules)
stage.setup()
print("kiwipiepy" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


@pytest.mark.parametrize("lang", LANGS)
def test_threads_of_one_process_find_the_same_words(lang: str) -> None:
    documents = ["".join(NATIVE[lang][start:] + NATIVE[lang][:start]) * 20 for start in range(5)] * 8
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(splitter(lang), documents))
    assert found == [splitter(lang)(text) for text in documents]


@cache
def mecab_kinds() -> tuple[int, ...]:
    """The kinds of each character as MeCab has them, one bit each, and what else it knows of them."""
    tagger = MeCab.Tagger()  # what it says of its dictionary goes with it
    data = (Path(tagger.dictionary_info().filename).parent / "char.bin").read_bytes()
    (count,) = struct.unpack_from("<I", data)
    return struct.unpack_from("<65535I", data, 4 + 32 * count)


def kinds_of(character: str) -> int:
    numbers = mecab_kinds()
    return numbers[ord(character) if ord(character) < len(numbers) else 0] & 0x3FFFF


#: Characters of all kinds that MeCab has, whitespace and ends of sentences among them, at which it looks for unknown
#: words: hiragana and kanji that are words are not among them.
FIRST = "=1Aéアαя\u2028\u3000\x85\xa0\x1c\r。、々〇〆ゔ゛ー한ก😀|*_\u9fa6\u3040"


@pytest.mark.parametrize("first", FIRST)
def test_no_run_that_mecab_looks_at_from_each_of_its_characters_is_long(first: str) -> None:
    for second in (*FIRST, "あ", "一", "亜", " ", "\n", "\t"):
        for unit in (first + second, first * 1999 + second):
            text = (unit * (6_000 // len(unit) + 1))[:6_000]
            cut = cut_runs(text)
            assert cut.replace(" ", "") == text.replace(" ", "")
            for kinds in {kinds_of(character) for character in unit if character in FIRST}:
                joined = {character: bool(kinds_of(character) & kinds) for character in {*unit, " "}}
                runs = groupby(cut, joined.__getitem__)
                longest = max(sum(1 for _ in run) for is_run, run in runs if is_run)
                assert longest < 4_000, repr(unit[:20])


@pytest.mark.parametrize("unit", ["http://", "の", "_"])
def test_a_japanese_text_too_long_for_mecab_is_split_all_the_same(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    assert "".join(splitter("ja")(text)) == text


@pytest.mark.parametrize("separator", ["\n", " "])
def test_a_long_korean_text_has_the_words_of_its_paragraphs(separator: str) -> None:
    paragraph = "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다."
    words = splitter("ko")
    assert words(separator.join([paragraph] * 800)) == words(paragraph) * 800
