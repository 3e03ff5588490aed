from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import BatchKey, DataError, DocumentBatch, Filter, PipelineError, ScoreFilter
from dcurate.text import FastTextLanguageFilter, FastTextQualityFilter

#: See their README.
MODELS = Path(__file__).parent / "models"
QUALITY, LANGUAGES = MODELS / "quality.bin", MODELS / "languages.bin"

#: What NeMo Curator's filters score with these models and fastText 0.9.2.
SCORES = {
    "the committee published results": (0.9999192953109741, "[0.996849775314331, 'eng_Latn']"),
    "buy cheap pills\nnow": (0.0009962916374206543, "[0.44144997000694275, 'fra_Latn']"),
    "": (0.9883870482444763, "[0.44144997000694275, 'fra_Latn']"),
    "rivers casino": (0.8129674196243286, "[0.44144997000694275, 'fra_Latn']"),
    "__label__hq free bonus": (0.0010830163955688477, "[0.44144997000694275, 'fra_Latn']"),
    "the sea\x00 house": (0.9999576807022095, "[0.9990623593330383, 'eng_Latn']"),
    "  das haus\n": (0.9883870482444763, "[0.9989789724349976, 'deu_Latn']"),
    "море је": (0.9883870482444763, "[0.9975458383560181, 'srp_Cyrl']"),
}


def batch(*documents: str | None) -> DocumentBatch:
    return DocumentBatch(key=BatchKey("s"), data=pa.table({"text": pa.array(documents, pa.string())}))


@pytest.mark.parametrize("text", SCORES)
def test_scores_are_those_of_nemo_curator(text: str) -> None:
    assert FastTextQualityFilter(QUALITY).score_document(text) == SCORES[text][0]
    assert FastTextLanguageFilter(str(LANGUAGES)).score_document(text) == SCORES[text][1]


@given(st.text())
@settings(max_examples=100, deadline=None)
def test_any_text_has_a_score(text: str) -> None:
    assert 0 <= FastTextQualityFilter(QUALITY).score_document(text) <= 1.0001
    FastTextLanguageFilter(LANGUAGES).keep_document(FastTextLanguageFilter(LANGUAGES).score_document(text))


def test_documents_scored_together_have_the_scores_that_they_have_alone() -> None:
    texts = [*SCORES, " \u3000la mer\u00a0", "\ud800"]
    rule = FastTextLanguageFilter(LANGUAGES)
    assert rule.score_documents(texts) == [rule.score_document(text) for text in texts]
    scored = ScoreFilter(FastTextQualityFilter(QUALITY, alpha=1e-9), score_field="score").process(batch(*SCORES))
    assert scored.to_arrow()["score"].to_pylist() == [score for score, _ in SCORES.values()]


def test_the_score_is_the_probability_of_the_label_asked_for() -> None:
    text = "the patient work on rivers"
    good, bad = (FastTextQualityFilter(QUALITY, f"__label__{label}").score_document(text) for label in ("hq", "lq"))
    assert good + bad == 1.0
    among_four = FastTextQualityFilter(LANGUAGES, "__label__deu_Latn").score_document("das haus und la mer")
    assert 0 < among_four < 1


def test_a_label_that_the_model_does_not_have_is_refused() -> None:
    with pytest.raises(PipelineError, match="no label 'hq'; it has '__label__hq', '__label__lq'"):
        FastTextQualityFilter(QUALITY, label="hq").score_document("a")


def test_the_share_kept_of_texts_with_a_score_follows_the_pareto_distribution() -> None:
    for alpha, score in ((3, 0.1), (9, 0.5), (1, 0.9)):
        rule = FastTextQualityFilter(QUALITY, alpha=alpha)
        kept = sum(rule.keep_document(score + step * 1e-9) for step in range(20_000)) / 20_000
        assert abs(kept - (2 - score) ** -alpha) < 0.01


def test_a_text_has_the_same_fate_each_time_and_another_seed_gives_others() -> None:
    scores = [step / 100 for step in range(100)]
    fates = {seed: [FastTextQualityFilter(QUALITY, seed=seed).keep_document(s) for s in scores] for seed in (42, 43)}
    assert fates[42] == [FastTextQualityFilter(QUALITY).keep_document(score) for score in scores]
    assert fates[42] != fates[43]


def test_a_text_that_the_model_is_certain_of_always_stays() -> None:
    assert all(FastTextQualityFilter(QUALITY, seed=seed).keep_document(1.0) for seed in range(200))


@pytest.mark.parametrize(
    ("score", "lang", "kept"),
    [
        ("[0.9, 'eng_Latn']", None, True),
        ("[0.9, 'eng_Latn']", "ENG", True),
        ("[0.9, 'eng_Latn']", "eng_latn", True),
        ("[0.9, 'eng_Latn']", "eng_Cyrl", False),
        ("[0.9, 'EN']", "en", True),
        ("[0.9, 'en']", "fr", False),
        ("[0.3, 'en']", "en", True),
        ("[0.29, 'en']", "en", False),
        ("[0.29, 'en']", None, False),
    ],
)
def test_a_language_matches_in_any_case_and_with_any_script_unless_one_is_named(
    score: str, lang: str | None, kept: bool
) -> None:
    assert FastTextLanguageFilter(LANGUAGES, language=lang).keep_document(score) is kept


@pytest.mark.parametrize("score", [0.9, None, "__import__('os').getpid()", "[1]", "['a', 'b']", "(", "\x00"])
def test_what_is_not_a_score_is_refused_and_never_run(score: object) -> None:
    with pytest.raises(DataError, match="is not a score such as"):
        FastTextLanguageFilter(LANGUAGES).keep_document(score)


@pytest.mark.parametrize("rule", [FastTextQualityFilter, FastTextLanguageFilter])
def test_a_model_that_is_not_there_is_named_before_any_document_is_scored(
    rule: type[FastTextLanguageFilter], tmp_path: Path
) -> None:
    with pytest.raises(PipelineError, match=f"{rule.__name__}: no model"):
        rule()
    with pytest.raises(DataError, match=r"no fastText model at '.*gone.bin'; put it there on every host"):
        ScoreFilter(rule(tmp_path / "gone.bin")).setup_on_node()
    (tmp_path / "other.bin").write_bytes(b"no model")
    with pytest.raises(DataError, match=r"other.bin' is not a fastText classifier: it has no fastText header"):
        ScoreFilter(rule(tmp_path / "other.bin")).setup()


def test_an_alpha_that_is_no_shape_is_refused() -> None:
    with pytest.raises(PipelineError, match="alpha=0 must be above 0"):
        FastTextQualityFilter(QUALITY, alpha=0)


def test_a_filter_travels_without_its_model() -> None:
    for rule in (FastTextQualityFilter(QUALITY), FastTextLanguageFilter(LANGUAGES)):
        stage = ScoreFilter(rule)
        stage.setup()
        assert not stage.cheap_setup
        assert len(pickle.dumps(rule)) < 500
        assert pickle.loads(pickle.dumps(rule)) == rule


def test_scores_that_were_kept_can_be_filtered_again_without_the_text() -> None:
    scored = ScoreFilter(FastTextLanguageFilter(LANGUAGES), score_field="lang").process(
        batch("the sea", "la mer", None)
    )
    assert scored.num_items == 3
    french = Filter(FastTextLanguageFilter(LANGUAGES, 0.5, "fra"), "lang").process(scored)
    assert french.to_arrow()["text"].to_pylist() == ["la mer"]
