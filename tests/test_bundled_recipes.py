"""The recipes that follow NeMo Curator's own configurations."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

import dcurate
import dcurate.text
from dcurate import PipelineError
from dcurate.learn import Student
from dcurate.recipe import load_recipe
from dcurate.text import (
    NumberOfLinesOfCodeFilter,
    PerplexityFilter,
    PythonCommentToCodeFilter,
    TokenizerFertilityFilter,
)

SPANISH = (
    "En un lugar de la Mancha, de cuyo nombre no quiero acordarme, no ha mucho tiempo que vivía un hidalgo de los de "
    "lanza en astillero, adarga antigua, rocín flaco y galgo corredor. Una olla de algo más vaca que carnero, salpicón "
    "las más noches, duelos y quebrantos los sábados, lentejas los viernes, algún palomino de añadidura los domingos, "
    "consumían las tres partes de su hacienda."
)
RUSSIAN = (
    "Все счастливые семьи похожи друг на друга, каждая несчастливая семья несчастлива по-своему. Все смешалось в доме "
    "Облонских. Жена узнала, что муж был в связи с бывшею в их доме француженкою-гувернанткой, и объявила мужу, что не "
    "может жить с ним в одном доме. Положение это продолжалось уже третий день и мучительно чувствовалось и самими "
    "супругами, и всеми членами семьи, и домочадцами."
)
PYTHON = (
    'def twice(number):\n    """Two times a number."""\n    total = number + number\n\n    return total  # the sum\n'
)


def written(folder: Path, texts: Iterable[str]) -> str:
    lines = [json.dumps({"text": text}) + "\n" for text in texts]
    (folder / "in.jsonl").write_text("".join(lines), "utf-8")
    return str(folder / "in.jsonl")


def kept(name: str, folder: Path, texts: Iterable[str], **params: Any) -> list[str]:
    """The texts that a recipe leaves."""
    given = {"input": written(folder, texts), "output": str(folder / "out"), **params}
    load_recipe(name, given).pipeline.run(executor=dcurate.InlineExecutor())
    files = sorted(Path(given["output"]).glob("*.jsonl"))
    return [json.loads(line)["text"] for path in files for line in path.read_text("utf-8").splitlines()]


def test_nemo_non_english_has_the_25_filters_of_the_original_in_its_order() -> None:
    recipe = load_recipe("nemo-non-english", {"input": "in"})
    filters = [stage.filter_obj for stage in recipe.pipeline.stages if isinstance(stage, dcurate.ScoreFilter)]
    assert filters == [
        dcurate.text.SymbolsToWordsFilter(0.1),
        dcurate.text.NumbersFilter(0.15),
        dcurate.text.UrlsFilter(0.2),
        dcurate.text.WhiteSpaceFilter(0.25),
        dcurate.text.ParenthesesFilter(0.1),
        dcurate.text.BoilerPlateStringFilter(True, 0.4),
        dcurate.text.RepeatedLinesFilter(0.7),
        dcurate.text.RepeatedParagraphsFilter(0.7),
        dcurate.text.RepeatedLinesByCharFilter(0.8),
        dcurate.text.RepeatedParagraphsByCharFilter(0.8),
        dcurate.text.WordCountFilter(50, 100000),
        dcurate.text.PunctuationFilter(0.85),
        dcurate.text.MeanWordLengthFilter(3, 10),
        dcurate.text.LongWordFilter(1000),
        dcurate.text.EllipsisFilter(0.3),
        *(dcurate.text.RepeatingTopNGramsFilter(n, most) for n, most in ((2, 0.2), (3, 0.18), (4, 0.16))),
        *(
            dcurate.text.RepeatingDuplicateNGramsFilter(n, most)
            for n, most in ((5, 0.15), (6, 0.14), (7, 0.13), (8, 0.12), (9, 0.11), (10, 0.10))
        ),
        dcurate.text.BulletsFilter(0.9),
    ]
    assert len(filters) == 25


def test_nemo_non_english_keeps_prose_of_other_scripts_and_drops_what_repeats_or_is_short(tmp_path: Path) -> None:
    texts = [SPANISH, RUSSIAN, "Demasiado corto.", "sí no " * 60]
    assert kept("nemo-non-english", tmp_path, texts) == [SPANISH, RUSSIAN]
    assert kept("nemo-english", tmp_path, texts, output=str(tmp_path / "english")) == []


def test_nemo_code_has_the_filters_of_the_original_in_its_order() -> None:
    recipe = load_recipe("nemo-code", {"input": "in", "tokenizer": "code.model"})
    filters = [stage.filter_obj for stage in recipe.pipeline.stages if isinstance(stage, dcurate.ScoreFilter)]
    assert filters == [
        PythonCommentToCodeFilter(0.001, 0.85),
        NumberOfLinesOfCodeFilter(5, 20000),
        TokenizerFertilityFilter("code.model", 2),
    ]


def test_nemo_code_keeps_commented_python_that_its_tokenizer_knows(tmp_path: Path) -> None:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(PYTHON.split()),
        model_writer=model,
        vocab_size=60,
        hard_vocab_limit=False,
        user_defined_symbols=["number", "return", "total", "twice", "Two", "times", "the", "sum"],
        minloglevel=2,
    )
    (tmp_path / "code.model").write_bytes(model.getvalue())
    strange = "x = '\u4e2d'  # \u6587\n" * 5
    texts = [
        PYTHON,
        "x = 1  # too short\n",
        PYTHON.replace("  # the sum", "").replace('"""Two times a number."""', "pass"),
        strange,
    ]
    assert kept("nemo-code", tmp_path, texts, tokenizer=str(tmp_path / "code.model")) == [PYTHON]


def test_nemo_code_asks_for_a_tokenizer() -> None:
    with pytest.raises(PipelineError, match="param 'tokenizer' has no default; give it with --set tokenizer=VALUE"):
        load_recipe("nemo-code", {"input": "in"})


def test_dedup_leaves_one_of_each_text_and_of_texts_that_are_nearly_the_same(tmp_path: Path) -> None:
    texts = [SPANISH, RUSSIAN, SPANISH, RUSSIAN + " Fin.", PYTHON]
    assert kept("dedup", tmp_path, texts) == [SPANISH, RUSSIAN, PYTHON]
    assert list((tmp_path / "out-groups").glob("*.parquet"))
    assert kept("dedup", tmp_path, texts, keep="longest", mode="overwrite") == [SPANISH, RUSSIAN + " Fin.", PYTHON]


def test_learn_trains_on_labels_and_learn_filter_keeps_what_the_model_scores_high(tmp_path: Path) -> None:
    words = {"good": ["proof", "theorem", "lemma", "integral"], "bad": ["casino", "pills", "bonus", "winner"]}
    rows = [
        {"text": f"{words[label][number % 4]} {words[label][number % 3]} the of {number}", "quality": label}
        for number in range(200)
        for label in words
    ]
    (tmp_path / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    params = {"input": str(tmp_path / "labels.jsonl"), "output": str(tmp_path / "figures"), "head": "quality"}
    params |= {"model": str(tmp_path / "model")}
    learn = load_recipe("learn", {**params, "positive": {"quality": "good"}, "keep_fraction": 0.5})
    learn.pipeline.run(executor=dcurate.InlineExecutor())
    (figures,) = (path.read_text() for path in (tmp_path / "figures").glob("*.jsonl"))
    assert json.loads(figures)["auc"] == 1.0
    corpus = ["a new theorem and its proof", "casino bonus for a winner", "the lemma of an integral"]
    trained = {"model": str(tmp_path / "model"), "head": "quality"}
    assert kept("learn-filter", tmp_path, corpus, min_score=0.5, **trained) == [corpus[0], corpus[2]]
    assert kept("learn-filter", tmp_path, corpus, min_score=0, mode="overwrite", **trained) == corpus
    lines = "".join(path.read_text() for path in (tmp_path / "out").glob("*.jsonl")).splitlines()
    (limit,) = Student.load(str(tmp_path / "model")).head("quality").thresholds.values()
    high = [row["text"] for row in map(json.loads, lines) if row["student_score"] >= limit]
    assert kept("learn-filter", tmp_path, corpus, mode="overwrite", **trained) == high


def test_learn_asks_for_the_column_of_labels_and_learn_filter_for_a_model() -> None:
    for name, param in (("learn", "head"), ("learn-filter", "model")):
        with pytest.raises(PipelineError, match=f"param {param!r} has no default"):
            load_recipe(name, {"input": "in"})


def test_learn_ngrams_trains_a_model_that_ranks_texts_like_those_it_trusts_first(tmp_path: Path) -> None:
    trusted = [f"the proof of theorem {number} needs lemma {number % 7}" for number in range(100)]
    lines = "".join(json.dumps({"text": text}) + "\n" for text in trusted)
    (tmp_path / "trusted.jsonl").write_text(lines)
    params = {"input": str(tmp_path / "trusted.jsonl"), "output": str(tmp_path / "figures"), "order": 3}
    load_recipe("learn-ngrams", params).pipeline.run(executor=dcurate.InlineExecutor())
    (figures,) = (path.read_text() for path in (tmp_path / "figures").glob("*.jsonl"))
    assert [json.loads(line)["order"] for line in figures.splitlines()] == [1, 2, 3]
    rule = PerplexityFilter(tmp_path / "figures.arpa")
    like, unlike = (rule.score_document(text) for text in ("the proof needs lemma 3", "casino lemma the bonus"))
    assert like < unlike / 3
