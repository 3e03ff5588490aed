"""`TrainNgrams` against a plain version of its formulas, and KenLM's module on its files."""

from __future__ import annotations

import importlib
import math
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import sentencepiece

from dcurate import (
    DataError,
    DocumentBatch,
    InlineExecutor,
    Pipeline,
    PipelineError,
    ScoreFilter,
)
from dcurate.frames.columns import table_of
from dcurate.frames.text import column_of
from dcurate.kernels.ngram_counts import BEGIN, END, UNKNOWN
from dcurate.learn import TrainNgrams, train_ngrams
from dcurate.learn.ngram_rows import Discounts, NgramWords, vocabulary_of
from dcurate.text import PerplexityFilter, ScoreBuckets, bucket_limits
from dcurate.text.ngram_models import NgramModel

Ngram = tuple[str, ...]
MARKS = {"<s>", "</s>", "<unk>", "<UNK>"}


def drawn(texts: int, seed: int = 1, words: int = 60) -> list[str]:
    """Texts of words whose frequencies fall as those of languages do."""
    draw = random.Random(seed)
    names = [f"w{number}" for number in range(words)]
    weights = [1 / (number + 1) for number in range(words)]
    return [
        "\n".join(" ".join(draw.choices(names, weights, k=draw.randint(1, 12))) for _ in range(3)) for _ in range(texts)
    ]


def trained(path: Path | str, texts: Sequence[str | None], **settings: Any) -> list[dict[str, Any]]:
    rows = DocumentBatch(data=table_of({"text": texts}))
    stages = [TrainNgrams(path, **settings)]
    result = Pipeline("train", stages=stages).run(InlineExecutor(), initial_tasks=[rows], observers=[])
    return result.to_pandas().to_dict("records")


def entries(path: Path) -> dict[Ngram, tuple[float, float]]:
    """Logarithms of the probability and the backoff of each n-gram of an ARPA file."""
    read = {}
    for line in path.read_text().split("\n"):
        columns = line.split("\t")
        if len(columns) > 1:
            read[tuple(columns[1].split(" "))] = float(columns[0]), float(columns[2]) if len(columns) > 2 else 0.0
    return read


def counted(texts: list[str], order: int, by_line: bool) -> Counter[Ngram]:
    """Count n-grams of all lengths."""
    counts: Counter[Ngram] = Counter()
    for text in texts:
        for sentence in text.split("\n") if by_line else [text]:
            if split := [word.decode() for word in sentence.encode().split()]:  # at ASCII whitespace
                words = ["<s>", *(word for word in split if word not in MARKS), "</s>"]
                for length in range(1, order + 1):
                    counts.update(tuple(words[at : at + length]) for at in range(len(words) - length + 1))
    return counts


def expected(texts: list[str], order: int, least: list[int], by_line: bool) -> dict[Ngram, tuple[float, float]]:
    """The n-grams of the model with probability and backoff, straight from the formulas of Heafield et al. (2013)."""
    counts = counted(texts, order, by_line)
    del counts[("<s>",)]
    befores: dict[Ngram, set[str]] = defaultdict(set)
    for ngram in counts:
        befores[ngram[1:]].add(ngram[0])
    adjusted = {
        ngram: times if len(ngram) == order or ngram[0] == "<s>" else len(befores[ngram])
        for ngram, times in counts.items()
    }
    discounts = []
    for length in range(1, order + 1):
        of_counts = Counter(times for ngram, times in adjusted.items() if len(ngram) == length)
        t = [of_counts[times] for times in (0, 1, 2, 3, 4)]
        amounts = [0.0, 0.5, 1.0, 1.5]
        if min(t[1:4]) > 0:
            k = t[1] / (t[1] + 2 * t[2])
            estimated = [0.0, *(times - (times + 1) * k * t[times + 1] / t[times] for times in (1, 2, 3))]
            if all(0 <= amount <= times for times, amount in enumerate(estimated)):
                amounts = estimated
        discounts.append(amounts)
    followers: dict[Ngram, list[Ngram]] = defaultdict(list)
    for ngram in adjusted:
        followers[ngram[:-1]].append(ngram)

    def taken(ngram: Ngram) -> float:
        if counts[ngram] < least[len(ngram) - 1]:
            return adjusted[ngram]
        return discounts[len(ngram) - 1][min(adjusted[ngram], 3)]

    sums = {context: sum(adjusted[ngram] for ngram in after) for context, after in followers.items()}
    backoffs = {context: sum(map(taken, after)) / sums[context] for context, after in followers.items()}
    vocabulary = {ngram[0] for ngram in counts if len(ngram) == 1} | {"<unk>"}
    model: dict[Ngram, tuple[float, float]] = {}
    for word in vocabulary:
        part = (adjusted[(word,)] - taken((word,))) / sums[()] if (word,) in adjusted else 0.0
        model[(word,)] = part + backoffs[()] / len(vocabulary), backoffs.get((word,), 1.0)
    model[("<s>",)] = 1.0, backoffs[("<s>",)]
    for length in range(2, order + 1):
        for ngram, times in adjusted.items():
            if len(ngram) == length and counts[ngram] >= least[length - 1]:
                part = (times - taken(ngram)) / sums[ngram[:-1]]
                chance = part + backoffs[ngram[:-1]] * model[ngram[1:]][0]
                model[ngram] = chance, backoffs.get(ngram, 1.0) if length < order else 1.0
    return model


def chance(model: dict[Ngram, tuple[float, float]], ngram: Ngram) -> float:
    """Logarithm of the probability of the last word after the others."""
    if ngram in model:
        return model[ngram][0]
    return model.get(ngram[:-1], (0.0, 0.0))[1] + chance(model, ngram[1:])


CASES = [
    (2, [1], False, drawn(40)),
    (3, [1], True, drawn(60)),
    (4, [1, 1, 2], True, drawn(60)),
    (5, [1], False, drawn(100)),
    (5, [1, 2, 2, 3], True, drawn(200, words=20)),
    (6, [1, 1, 1, 2], False, drawn(50)),
    (3, [1], False, ["a"]),
    (3, [1], False, ["a b c", "<s> a <unk> b </s> <UNK>", "x \x00 y\x00z \u00a0 \u2028 q"]),
]


@pytest.mark.parametrize(("order", "least", "by_line", "texts"), CASES)
def test_probabilities_and_backoffs_are_those_of_the_formulas(tmp_path, order, least, by_line, texts):
    path = tmp_path / "model.arpa"
    figures = trained(path, texts, order=order, min_counts=least, by_line=by_line)
    wanted = expected(texts, order, least + least[-1:] * (order - len(least)), by_line)
    model = entries(path)
    assert set(model) == set(wanted)
    for ngram, numbers in model.items():
        assert numbers == pytest.approx([math.log10(max(number, 1e-99)) for number in wanted[ngram]], abs=2e-6), ngram
    assert [figure["ngrams"] for figure in figures] == [
        sum(len(ngram) == length for ngram in wanted) for length in range(1, order + 1)
    ]
    counts = counted(texts, order, by_line)
    assert figures[-1]["pruned"] == sum(len(ngram) == order for ngram in counts) - figures[-1]["ngrams"]


@pytest.mark.parametrize(("order", "least", "by_line", "texts"), CASES)
def test_the_probabilities_of_all_words_after_any_context_sum_to_1(tmp_path, order, least, by_line, texts):
    path = tmp_path / "model.arpa"
    trained(path, texts, order=order, min_counts=least, by_line=by_line)
    model = entries(path)
    words = [ngram[0] for ngram in model if len(ngram) == 1 and ngram != ("<s>",)]
    contexts = [ngram for ngram in model if len(ngram) < order and ngram[-1] != "</s>"]
    contexts += [("unseen",), ("<s>", "unseen"), ()]
    for context in random.Random(1).sample(contexts, min(len(contexts), 60)):
        assert sum(10 ** chance(model, (*context, word)) for word in words) == pytest.approx(1, abs=1e-5), context


def test_the_order_of_many_texts_and_the_number_of_ranges_change_no_bit(tmp_path, monkeypatch):
    numbers = np.random.default_rng(0).integers(0, 3000, (3000, 100)).tolist()
    texts = [" ".join(map(str, row)) for row in numbers]
    for name, rows in (("a", texts), ("b", texts[::-1])):
        trained(tmp_path / f"{name}.arpa", rows, order=3)
        monkeypatch.setattr(train_ngrams, "_BLOCK", 2**18)
    assert (tmp_path / "a.arpa").read_bytes() == (tmp_path / "b.arpa").read_bytes()


def library(path: Path) -> Any:
    if sys.version_info >= (3, 13):
        pytest.skip("kenlm 0.3.0, which reads the model, does not build on Python 3.13 or newer; use 3.12")
    kenlm = importlib.import_module("kenlm")
    config = kenlm.Config()
    config.show_progress = False
    config.arpa_complain = kenlm.ARPALoadComplain.NONE
    return kenlm.Model(str(path), config)


@pytest.mark.parametrize(("order", "least", "by_line", "texts"), CASES)
@pytest.mark.parametrize("ending", ["arpa", "binary"])
def test_kenlm_reads_the_model_and_its_scores_of_other_texts_are_ours(tmp_path, order, least, by_line, texts, ending):
    path = tmp_path / f"model.{ending}"
    trained(path, texts, order=order, min_counts=least, by_line=by_line)
    theirs, ours = library(path), NgramModel.load(str(path))
    assert theirs.order == ours.order == order
    others = [*drawn(50, seed=2), "unseen", "", "a b", "</s>", *texts[:2]]
    found = ours.scores(*column_of(text.encode() for text in others), np.arange(len(others))).log10.tolist()
    assert found == [theirs.score(text) for text in others]


def test_discounts_are_those_of_chen_and_goodman_or_the_fallback():
    share = 400 / (400 + 2 * 100)
    wanted = (0, 1 - 2 * share * 100 / 400, 2 - 3 * share * 50 / 100, 3 - 4 * share * 30 / 50)
    assert Discounts.of([400, 100, 50, 30]).amounts == pytest.approx(wanted)
    for counts in ([400, 0, 50, 30], [10, 1, 400, 1], [0, 0, 0, 0], [1, 400, 4, 4000]):
        assert Discounts.of(counts) == ((0, 0.5, 1, 1.5), True)


def test_head_middle_and_tail_of_ccnet_are_cut_by_a_model_that_was_trained(tmp_path):
    trusted, path = drawn(300), tmp_path / "en.binary"
    trained(path, trusted, by_line=True)
    noise = [" ".join(random.Random(seed).choices(["w1", "zzz", "qqq", "w59"], k=20)) for seed in range(100)]
    rows = DocumentBatch(data=table_of({"text": [*drawn(200, seed=9), *noise]}))
    rule = PerplexityFilter(path, max_perplexity=math.inf, by_line=True)
    scored = ScoreFilter(rule, score_field="perplexity").process(rows)
    limits = bucket_limits(scored)
    buckets = ScoreBuckets(limits).process(scored).to_arrow()["bucket"].to_pylist()
    assert Counter(buckets) == {"head": 90, "middle": 90, "tail": 120}
    assert set(buckets[200:]) == {"tail"}


def test_pieces_of_a_tokenizer_are_the_words_of_the_model(tmp_path):
    texts = drawn(80)
    (tmp_path / "in.txt").write_text("\n".join(texts))
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "in.txt"), model_prefix=str(tmp_path / "sp"), vocab_size=35, minloglevel=9
    )
    trained(tmp_path / "a.arpa", texts, order=3, by_line=True, tokenizer=tmp_path / "sp.model")
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "sp.model"))
    split = ["\n".join(" ".join(pieces.encode(line, out_type=str)) for line in text.split("\n")) for text in texts]
    trained(tmp_path / "b.arpa", split, order=3, by_line=True)
    assert (tmp_path / "a.arpa").read_bytes() == (tmp_path / "b.arpa").read_bytes()


def test_texts_without_words_are_dropped_and_counted(tmp_path):
    rows = DocumentBatch(data=table_of({"text": ["a b", None, "", " \t\n\v\f\r", "b c"]}))
    stages = [TrainNgrams(tmp_path / "a.arpa", order=2)]
    result = Pipeline("train", stages=stages).run(InlineExecutor(), initial_tasks=[rows], observers=[])
    (counts,) = (stage for stage in result.report.stages if stage.name == "train_ngrams")
    assert (counts.rows_in, counts.rows_out, counts.dropped) == (5, 2, {"no_words": 3})
    trained(tmp_path / "b.arpa", ["a b", "b c"], order=2)
    assert (tmp_path / "a.arpa").read_bytes() == (tmp_path / "b.arpa").read_bytes()


@pytest.mark.parametrize("url", ["memory://models/en.arpa", "memory://en.arpa"])
def test_a_model_is_written_to_a_url_and_not_over_another(tmp_path, url):
    memory = fsspec.filesystem("memory")
    try:
        trained(url, ["a b", "b c"], order=2)
        trained(tmp_path / "a.arpa", ["a b", "b c"], order=2)
        assert memory.cat(url) == (tmp_path / "a.arpa").read_bytes()
        with pytest.raises(DataError, match="is there; use mode='overwrite'"):
            trained(url, ["a b", "b c"], order=2)
    finally:
        memory.rm("/", recursive=True)


def test_bad_input_is_refused_in_one_sentence(tmp_path):
    for texts in ([" ", None], []):
        with pytest.raises(DataError, match="no words to train on: the input has no documents, or none .* 'text'"):
            trained(tmp_path / "a.arpa", texts)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "a.arpa").write_text("there")
    with pytest.raises(DataError, match="use mode='overwrite', or another path"):
        trained(tmp_path / "a.arpa", ["a b"])
    trained(tmp_path / "a.arpa", ["a b"], mode="overwrite")
    assert ("a", "b") in entries(tmp_path / "a.arpa")
    assert [path.name for path in tmp_path.iterdir()] == ["a.arpa"]
    assert list(tmp_path.parent.glob(f"{tmp_path.name}?*")) == []
    refused: list[tuple[dict[str, Any], str]] = [
        ({"path": "a.txt"}, "must end in .arpa or .binary"),
        ({"order": 1}, "from 2 to 6"),
        ({"min_counts": [2]}, "begin with 1"),
        ({"min_counts": [1, 3, 2]}, "not descend"),
        ({"min_counts": []}, "list of 1 to 5"),
        ({"min_counts": [1] * 6}, "list of 1 to 5"),
        ({"min_counts": "1"}, "list of 1 to 5"),
        ({"min_counts": [1, 0.5]}, "whole number"),
        ({"mode": "append"}, "not one of"),
    ]
    for settings, message in refused:
        with pytest.raises(PipelineError, match=message):
            TrainNgrams(**{"path": "a.arpa"} | settings)


def test_two_words_of_one_hash_are_refused():
    hashes, word = np.array([5, 5], np.uint64), np.frombuffer(b"ab", np.uint8)
    with pytest.raises(DataError, match="'a' and 'b' have the same hash"):
        NgramWords.of(hashes, np.array([0, 1, 2]), word)
    parts = [NgramWords.of(hashes[:1], np.array([0, size]), word) for size in (1, 2)]
    with pytest.raises(DataError, match="'a' and 'ab' have the same hash"):
        vocabulary_of(parts, [(np.array([5, END], np.uint64), np.array([1, 1]))])
    assert len({int(BEGIN), int(END), int(UNKNOWN)}) == 3
