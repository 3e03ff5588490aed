import importlib
import re
import struct
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import sentencepiece
from hypothesis import example, given
from hypothesis import strategies as st

from dcurate import DataError, DocumentBatch, PipelineError, ScoreFilter
from dcurate.frames.text import column_of
from dcurate.text import DocumentFilter, PerplexityFilter, WordCountFilter
from dcurate.text.ngram_models import NgramModel
from dcurate_testing.ngram_counts import write_arpa

TEXTS = [
    "the fox jumps over the dog\nthe dog sleeps\nthe fox sleeps over the dog",
    "a fox jumps over a fence and the dog jumps after the fox",
    "bread needs flour and water\nwater needs no flour\nthe dog needs water",
    "one two three four five six seven\ntwo three four five six\nthree four five",
]
WORDS = sorted({word for text in TEXTS for word in text.split()})


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("ngrams")
    made = [write_arpa(TEXTS, root / f"{order}.arpa", order) for order in (2, 3, 5)]
    return [*made, write_arpa(TEXTS, root / "pruned.arpa", 4, least=2)]


def library(path: Path | str) -> Any:
    if sys.version_info >= (3, 13):
        pytest.skip("kenlm 0.3.0, which scores are compared with, does not build on Python 3.13 or newer; use 3.12")
    kenlm = importlib.import_module("kenlm")
    config = kenlm.Config()
    config.show_progress = False
    config.arpa_complain = kenlm.ARPALoadComplain.NONE
    return kenlm.Model(str(path), config)


def logs(model: NgramModel, texts: list[str], by_line: bool = False) -> list[float]:
    column = column_of(text.encode() for text in texts)
    return model.scores(*column, np.arange(len(texts)), by_line).log10.tolist()


SENTENCES = [
    *TEXTS,
    "",
    " \t\v\f ",
    "unseen words only",
    "the <unk> fox <UNK> </s> <s> the",
    "süß 中文 the fox",
    "the " * 700,
]


def test_scores_are_those_of_kenlm_to_the_bit(models: list[Path], tmp_path: Path) -> None:
    for number, path in enumerate(models):
        theirs, ours = library(path), NgramModel.load(str(path))
        assert ours.order == theirs.order
        wanted = [theirs.score(text) for text in SENTENCES]
        assert logs(ours, SENTENCES) == wanted
        ours.save(str(tmp_path / f"{number}.binary"))
        assert [library(tmp_path / f"{number}.binary").score(text) for text in SENTENCES] == wanted
        assert logs(NgramModel.load(str(tmp_path / f"{number}.binary")), SENTENCES) == wanted


@pytest.fixture(scope="module")
def pairs(models: list[Path]) -> list[tuple[NgramModel, Any]]:
    return [(NgramModel.load(str(path)), library(path)) for path in models]


@given(texts=st.lists(st.lists(st.sampled_from([*WORDS, "\n", "x", "<s>"]), max_size=40).map(" ".join), max_size=4))
@example(texts=["the fox jumps over the dog sleeps over the fox", "three four five six seven two three"])
def test_any_words_have_the_score_of_kenlm(pairs: list[tuple[NgramModel, Any]], texts: list[str]) -> None:
    for ours, theirs in pairs:
        assert logs(ours, texts) == [theirs.score(text) for text in texts]


ARPA = """\\data\\
ngram 1=8
ngram 2=8
ngram 3=2

\\1-grams:
-1\t<unk>
-99\t<s>\t-0.5
-1.5\t</s>
-2\ta\t-0.25
-3\tb\t-0.125
-3\tc
-3\td
-3\te

\\2-grams:
-0.5\t<s> a\t-0.0625
-0.75\ta a
-0.25\tb a\t-1
-0.5\tc d
-0.5\td c
-0.5\tc c
-0.5\td d
-0.5\te e

\\3-grams:
-0.1\t<s> a b
-0.2\tb a </s>

\\end\\
"""


def test_ngrams_whose_ends_were_pruned_are_scored_as_kenlm_does(tmp_path: Path) -> None:
    (tmp_path / "a.arpa").write_text(ARPA)  # there is no "a b" and no "a </s>"
    theirs, ours = library(tmp_path / "a.arpa"), NgramModel.load(str(tmp_path / "a.arpa"))
    texts = ["a b", "b a", "a", "b b a", "a a b a", "a b a b", "c a b", "b a c"]
    assert logs(ours, texts) == [theirs.score(text) for text in texts]


def test_perplexity_is_that_of_kenlm_and_lines_are_sentences_if_asked(models: list[Path]) -> None:
    theirs = library(models[1])
    rule = PerplexityFilter(models[1])
    for text in SENTENCES:
        assert rule.score_document(text) == pytest.approx(theirs.perplexity(text), rel=1e-12)
    by_line = PerplexityFilter(models[1], by_line=True)
    lines = ["the fox", "bread needs", "dog"]
    total, words = sum(theirs.score(line) for line in lines), sum(len(line.split()) + 1 for line in lines)
    assert by_line.score_document("the fox\n\n bread needs \r\n\ndog\n") == pytest.approx(
        10 ** (-total / words), rel=1e-12
    )
    assert by_line.score_document("\n \n") == by_line.score_document("") == rule.score_document("")


def test_a_null_text_is_scored_as_an_empty_one_and_rows_are_kept_in_the_range(models: list[Path]) -> None:
    texts = ["the fox jumps over the dog", None, "", "zzz yyy"]
    rule = PerplexityFilter(models[2], max_perplexity=1e9)
    rule.load_model()
    table = ScoreFilter(rule, score_field="p").process(DocumentBatch(data=pa.table({"text": texts}))).to_arrow()
    scores = table.column("p").to_pylist()
    assert scores == [rule.score_document(text or "") for text in texts]
    edge = PerplexityFilter(models[2], min_perplexity=scores[0], max_perplexity=scores[0])
    kept = ScoreFilter(edge).process(DocumentBatch(data=pa.table({"text": texts}))).to_arrow()
    assert kept.column("text").to_pylist() == texts[:1]


def test_rows_that_a_filter_before_it_dropped_are_not_scored(models: list[Path]) -> None:
    texts = ["fox", "the fox jumps over the dog", "dog", "zzz yyy xxx", None]
    rule = PerplexityFilter(models[1], max_perplexity=1e9)
    rules: list[DocumentFilter] = [WordCountFilter(min_words=2), rule]
    table = ScoreFilter(rules, score_field=["w", "p"]).process(DocumentBatch(data=pa.table({"text": texts}))).to_arrow()
    assert table.column("text").to_pylist() == texts[1::2]
    assert table.column("p").to_pylist() == [rule.score_document(text or "") for text in texts[1::2]]


def test_a_tokenizer_makes_the_words_of_the_model(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("\n".join(TEXTS))
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "in.txt"), model_prefix=str(tmp_path / "sp"), vocab_size=40, minloglevel=9
    )
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "sp.model"))
    split = [" ".join(pieces.encode(text, out_type=str)) for text in TEXTS]
    path = write_arpa(split, tmp_path / "sp.arpa", 3)
    rule = PerplexityFilter(path, tokenizer=tmp_path / "sp.model")
    assert rule.score_document("the fox sleeps") == pytest.approx(
        library(path).perplexity(" ".join(pieces.encode("the fox sleeps", out_type=str))), rel=1e-12
    )


def test_wrong_arguments_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="no model"):
        PerplexityFilter()
    with pytest.raises(PipelineError, match="is above"):
        PerplexityFilter("a", min_perplexity=2, max_perplexity=1)
    with pytest.raises(DataError, match="no n-gram model at"):
        PerplexityFilter(tmp_path / "missing").load_model()


def refusal(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        NgramModel.load(str(path))
    return str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\\data\\", "\\dat\\", "not with"),
        ("ngram 2=8", "ngram 2=999999999999", "its header counts"),
        ("ngram 2=8", "ngram 2=9", "not an n-gram|cannot be"),
        ("ngram 2=8", "ngram 3=8", "where counts of n-grams belong"),
        ("-0.75\ta a", "0.75\ta a", "log probability"),
        ("-0.75\ta a", "nan\ta a", "log probability"),
        ("-0.75\ta a", "-0.75\ta x", "not among the 1-grams"),
        ("-0.75\ta a", "-0.75\ta", "not an n-gram"),
        ("-0.2\tb a </s>", "-0.2\tb b a", "whose first words"),
        ("-3\tb", "-3\ta", "a word twice"),
        ("\\3-grams:", "\\4-grams:", "belongs"),
    ],
)
def test_a_damaged_arpa_file_is_refused_in_one_sentence(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert re.search(message, refusal(tmp_path / "a", ARPA.replace(old, new, 1).encode()))


def test_a_file_that_ends_anywhere_is_refused_or_read_and_never_crashes(models: list[Path], tmp_path: Path) -> None:
    whole = ARPA.encode()
    for stop in range(whole.index(b"-0.2\tb a")):
        refusal(tmp_path / "a", whole[:stop])
    NgramModel.load(str(models[1])).save(str(tmp_path / "binary"))
    whole = (tmp_path / "binary").read_bytes()
    for stop in range(0, len(whole), 97):
        assert "is not an n-gram model" in refusal(tmp_path / "a", whole[:stop])


@given(places=st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), min_size=1, max_size=30))
def test_a_binary_file_with_any_bytes_is_refused_or_scores(
    models: list[Path], tmp_path_factory: pytest.TempPathFactory, places: list[tuple[int, int]]
) -> None:
    root = tmp_path_factory.mktemp("hostile")
    NgramModel.load(str(models[1])).save(str(root / "binary"))
    content = bytearray((root / "binary").read_bytes())
    for place, byte in places:
        content[place % len(content)] = byte
    (root / "hostile").write_bytes(content)
    try:
        model = NgramModel.load(str(root / "hostile"))
    except DataError:
        return
    logs(model, TEXTS)


def test_a_table_without_a_free_entry_ends_every_search(models: list[Path], tmp_path: Path) -> None:
    NgramModel.load(str(models[0])).save(str(tmp_path / "binary"))
    content = bytearray((tmp_path / "binary").read_bytes())
    content[136:] = b"\x07" * (len(content) - 136)
    (tmp_path / "full").write_bytes(content)
    begin = time.monotonic()
    logs(NgramModel.load(str(tmp_path / "full")), TEXTS)
    assert time.monotonic() - begin < 60


def test_other_kinds_of_binary_files_are_named(models: list[Path], tmp_path: Path) -> None:
    NgramModel.load(str(models[0])).save(str(tmp_path / "binary"))
    content = (tmp_path / "binary").read_bytes()
    trie = content[:96] + struct.pack("<i", 2) + content[100:]
    assert "a trie model, not probing tables; build it again" in refusal(tmp_path / "a", trie)
    assert "of another version" in refusal(tmp_path / "a", content.replace(b"version 5", b"version 4", 1))
    assert "it is empty" in refusal(tmp_path / "a", b"")
