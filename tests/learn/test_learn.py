"""Students: the same bits however they are trained, folders that are not unpickled, files that fastText reads."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import fasttext
import numpy as np
import pandas as pd
import pytest

from dcurate import (
    DataError,
    DocumentBatch,
    DocumentReader,
    InlineExecutor,
    JsonlWriter,
    Pipeline,
    PipelineError,
    ScoreFilter,
    read_rejected,
)
from dcurate.frames.text import column_of
from dcurate.learn import (
    HeldBack,
    KeepByFBeta,
    LabelScoreFilter,
    Learn,
    ScoreLabels,
    Student,
    TextFeatures,
    Training,
)
from dcurate.learn.head import StudentHead, layout_of
from dcurate.learn.training import ExampleSplit, Fit
from dcurate.text import WordCountFilter, refilter

GOOD, BAD = ["proof", "theorem", "lemma", "integral", "vector"], ["casino", "pills", "bonus", "cheap", "winner"]
SMALL = TextFeatures(buckets=5000)
DAMPED = replace(SMALL, weighting="sublinear")
WHOLE = HeldBack(near_duplicates=False)


def texts(count: int) -> list[dict[str, Any]]:
    random = np.random.default_rng(5)
    rows = []
    for number in range(count):
        words = [*random.choice(GOOD if number % 2 else BAD, 6), *random.choice(["the", "of", "and", "is"], 6)]
        row = {"text": " ".join(random.permutation(words)), "label": "good" if number % 2 else "bad"}
        rows.append(
            {**row, "fine": bool(number % 2), "grade": number % 2 * 4 + 1.0, "url": f"https://{number}.example/"}
        )
    return rows


def written(path: Path, rows: Sequence[dict[str, Any]], files: int = 1) -> Path:
    path.mkdir(exist_ok=True)
    for number in range(files):
        lines = "".join(json.dumps(row) + "\n" for row in rows[number::files])
        (path / f"{number}.jsonl").write_text(lines)
    return path


def learned(folder: Path, rows: Sequence[dict[str, Any]], **settings: Any) -> Student:
    model = str(folder / "model")
    learn = Learn(model, **{"features": SMALL, "held_back": WHOLE, **settings})
    stages = [DocumentReader(str(written(folder / "labels", rows))), learn]
    Pipeline("learn", stages=stages).run(InlineExecutor(), observers=[])
    return Student.load(model)


def digest(folder: Path) -> str:
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    return hashlib.sha256(b"".join((folder / name).read_bytes() for name in names)).hexdigest()


def test_another_seed_gives_another_model_and_each_setting_has_an_effect(tmp_path):
    rows = texts(200)
    digests = []
    changes: tuple[dict[str, Any], ...] = (
        {},
        {"training": Training(seed=1)},
        {"training": Training(epochs=1)},
        {"training": Training(learning_rate=0.1)},
        {"training": Training(schedule="constant")},
        {"training": Training(schedule="cosine")},
        {"training": Training(patience=None)},
        {"training": Training(class_weights={"good": 3.0})},
        {"features": replace(SMALL, word_ngrams=1)},
        {"features": replace(SMALL, min_chars=0, max_chars=0)},
        {"features": replace(SMALL, min_count=10**6)},
        {"features": DAMPED},
        {"held_back": HeldBack(near_duplicates=False, held_fraction=0.3)},
        {"held_back": HeldBack(near_duplicates=False, validation_fraction=0.3)},
        {"licence": "CC0-1.0"},
        {"positive": {"label": "good"}},
        {"positive": {"label": "good"}, "thresholds": KeepByFBeta()},
        {"positive": {"label": "good"}, "calibration": "platt"},
        {"positive": {"label": "good"}, "calibration": "isotonic"},
    )
    for number, settings in enumerate(changes):
        folder = tmp_path / str(number)
        folder.mkdir()
        learned(folder, rows, **settings)
        digests.append(digest(folder / "model"))
    assert len(set(digests)) == len(digests)


def test_all_kinds_of_heads_learn_what_their_labels_say(tmp_path):
    student = learned(tmp_path, texts(400), head_fields=["label", "fine", "grade"])
    answers = student.predict([" ".join(GOOD), " ".join(BAD), "  \n"])
    assert answers["label"] == ["good", "bad", None]
    assert answers["fine"] == [True, False, None]
    good, bad, none = answers["grade"]
    assert good > 4
    assert bad < 2
    assert none is None
    figures = {row["head"]: row for row in student.card["figures"]}
    assert figures["label"]["auc"] == figures["fine"]["auc"] == 1.0
    assert figures["grade"]["r2"] > 0.8


def test_numbers_are_learned_from_real_texts_without_diverging(tmp_path):
    lines = (files("dcurate") / "bundled" / "sample" / "part-00.jsonl").read_text().splitlines()
    whole = "".join(json.loads(line).get("text") or "" for line in lines if line.strip())
    passages = [whole[start : start + 175] for start in range(0, min(len(whole), 200_000) - 175, 175)]
    rows = [{"text": text, "digits": sum(map(str.isdigit, text)) / len(text)} for text in passages]
    (figures,) = learned(tmp_path, rows, head_fields=["digits"], contradictions="drop").card["figures"]
    assert figures["r2"] > 0.5


def test_rows_may_lack_labels_of_some_heads_and_those_without_any_are_counted(tmp_path):
    rows = texts(200)
    for row in rows[:100]:
        row["fine"] = None
    for row in rows[100:]:
        row["label"] = None
    rows += [{"text": "nothing known", "label": None, "fine": None}, {"text": " ", "label": "good", "fine": None}]
    labels = written(tmp_path / "labels", rows)
    learn = Learn(str(tmp_path / "model"), head_fields=["label", "fine"], features=SMALL, held_back=WHOLE)
    stages: list[Any] = [DocumentReader(str(labels)), learn, JsonlWriter(str(tmp_path / "figures"))]
    result = Pipeline("learn", stages=stages).run(InlineExecutor(), observers=[], rejected=str(tmp_path / "dropped"))
    student = Student.load(str(tmp_path / "model"))
    counts = result.report.stages[1]
    assert (counts.rows_in, counts.rows_out, counts.dropped) == (202, 200, {"no_label": 1, "no_words": 1})
    rejected = read_rejected(str(tmp_path / "dropped"))
    assert sorted(rejected["text"] + rejected["_dcurate_reason"]) == [" no_words", "nothing knownno_label"]
    assert student.predict([" ".join(GOOD)]) == {"label": ["good"], "fine": [True]}
    assert sum(student.card["data"][part] for part in ("train", "validation", "held")) == 200
    (figures,) = (path.read_text() for path in (tmp_path / "figures").glob("*.jsonl"))
    assert [json.loads(line)["head"] for line in figures.splitlines()] == ["label", "fine"]


@pytest.mark.parametrize("head", ["label", "fine"])
def test_the_original_reads_what_is_written_and_scores_alike(tmp_path, head):
    rows = texts(300)
    student = learned(tmp_path, rows, head_fields=["label", "fine", "grade"])
    path = str(tmp_path / "student.bin")
    student.to_fasttext(path, head)
    model = fasttext.load_model(path)
    for text in [*(row["text"] for row in rows[:50]), "unseen words proofs", "</s> after", "__label__x theorem"]:
        encoded = text.encode()
        answers = student.score(np.array([0, len(encoded)]), np.frombuffer(encoded, np.uint8), np.array([0]))
        labels, shares = model.predict(text, k=2)
        expected = {label.removeprefix("__label__"): share for label, share in zip(labels, shares, strict=True)}
        own = dict(zip(student.head(head).labels, answers[0, student.outputs_of(head)].tolist(), strict=True))
        assert own == pytest.approx(expected, abs=2e-5)


@pytest.mark.parametrize("features", [SMALL, DAMPED, replace(DAMPED, word_ngrams=3, max_chars=0, min_count=2)])
def test_a_student_scores_texts_as_they_were_answered_when_they_were_held_back(tmp_path, features):
    rows = texts(120)
    for row in rows[100:]:
        row["text"] = f"proofs {row['text'].replace('the', 'lemma lemma')} unseen__{row['url']} </s> casino" * 3
    column = column_of([row["text"].encode() for row in rows])
    targets = np.array([[row["label"] == "good"] for row in rows], np.float32)
    heads = (StudentHead("label", "classes", ("bad", "good")),)
    split = ExampleSplit(np.arange(100), np.arange(0), np.arange(100, 120))
    fit = Fit(lambda: [column], len(rows), split, features, str(tmp_path))
    trained = fit.run(layout_of(heads), targets, np.ones_like(targets), Training(patience=None))
    student = Student(heads, trained.network, trained.counts, weighting=features.weighting)
    student.save(str(tmp_path / "model"))
    again = Student.load(str(tmp_path / "model"))
    answers = again.answers([row["text"] for row in rows[100:]])
    np.testing.assert_array_equal(answers, student.answers([row["text"] for row in rows[100:]]))
    np.testing.assert_allclose(answers, trained.held, atol=1e-6)


def test_repeated_words_count_less_than_in_fasttext_whose_file_is_then_refused(tmp_path):
    rows = texts(200)
    students = []
    for features in (DAMPED, SMALL):
        folder = tmp_path / features.weighting
        folder.mkdir()
        students.append(learned(folder, rows, features=features, training=Training(epochs=2)))
    (once, often), (few, many) = (
        student.answers([f"theorem {' '.join(BAD)}", f"theorem {' '.join(BAD * 20)}"])[:, 1] for student in students
    )
    assert once - often < few - many
    assert json.loads((tmp_path / "sublinear" / "model" / "card.json").read_text())["weighting"] == "sublinear"
    with pytest.raises(PipelineError, match=r"has the weighting 'sublinear', which fastText .*weighting='count'"):
        students[0].to_fasttext(str(tmp_path / "model.bin"))
    with pytest.raises(PipelineError, match="weighting='log' is not one of"):
        TextFeatures(weighting="log")  # type: ignore[arg-type]


def test_a_file_of_fasttext_becomes_a_student_that_can_be_saved_and_written(tmp_path):
    source = Path(__file__).parents[1] / "text" / "models" / "quality.bin"
    student = Student.from_fasttext(str(source))
    student.save(str(tmp_path / "student"))
    student = Student.load(str(tmp_path / "student"))
    student.to_fasttext(str(tmp_path / "again.bin"))
    original, again = fasttext.load_model(str(source)), fasttext.load_model(str(tmp_path / "again.bin"))
    for text in ("the committee published results", "buy cheap pills now", "rivers casino"):
        assert original.predict(text, k=2)[1] == pytest.approx(again.predict(text, k=2)[1], abs=1e-6)
        assert student.predict([text])["label"] == [original.predict(text)[0][0].removeprefix("__label__")]


def batch(rows: Sequence[dict[str, Any]]) -> DocumentBatch:
    return DocumentBatch(data=pd.DataFrame(list(rows)))


def test_scores_are_columns_that_refilter_reads_and_filters_share_a_pass(tmp_path):
    rows = texts(300)
    learned(tmp_path, rows, head_fields=["label", "grade"], positive={"label": "good"})
    model = str(tmp_path / "model")
    given = batch([{"text": row["text"], "right": row["label"]} for row in rows[:40]] + [{"text": "", "right": None}])
    stage = ScoreLabels(model=model, heads=["label", "grade"], prefix="student_")
    stage.setup()
    scored = stage.process(given).to_pandas()
    assert scored["student_label"].tolist()[:-1] == scored["right"].tolist()[:-1]
    assert pd.isna(scored["student_label"].tolist()[-1])
    assert scored["student_label_score"].tolist()[-1] == 0
    assert scored["student_grade"][scored.right == "good"].min() > scored["student_grade"][scored.right == "bad"].max()
    rule = LabelScoreFilter(model, min_label_score=0.5)
    kept = ScoreFilter([WordCountFilter(min_words=3), rule]).process(given).to_pandas()
    assert set(kept.right) == {"good"}
    named = scored.rename(columns={"student_label_score": rule.name})
    again = refilter([rule]).process(DocumentBatch(data=named)).to_pandas()
    assert again.text.tolist() == kept.text.tolist()
    assert LabelScoreFilter(model, label="bad").score_document(rows[0]["text"]) > 0.5


def test_thresholds_of_groups_decide_labels(tmp_path):
    rows = texts(60)
    learned(tmp_path, rows, positive={"label": "good"})
    student = Student.load(str(tmp_path / "model"))
    heads = (replace(student.heads[0], thresholds={"": 0.0, "strict": 1.1}),)
    Student(heads, student.network, student.counts, student.card).save(str(tmp_path / "other"))
    stage = ScoreLabels(model=str(tmp_path / "other"), group_field="group")
    stage.setup()
    given = [{"text": rows[0]["text"], "group": group} for group in ("strict", "else", None)]
    assert stage.process(batch(given)).to_pandas()["label"].tolist() == ["bad", "good", "good"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda rows: rows[:1], "too few rows with a label and words to learn from: 1; label more"),
        (
            lambda rows: [row for row in rows if row["label"] == "good"],
            "labels of head 'label' are 'good'; label texts",
        ),
        (lambda rows: [{**row, "text": " \n"} for row in rows], "words to learn from: 0; label more"),
        (lambda rows: [{**row, "label": None} for row in rows[:50]], "words to learn from: 0; label more"),
        (lambda rows: [{**row, "text": 7} for row in rows], "column 'text' holds int64, not text"),
        (
            lambda rows: [{**row, "label": (-1e308, 2.5, 1e308)[n % 3]} for n, row in enumerate(rows)],
            "cannot be scaled",
        ),
        (lambda rows: [{**row, "label": (1e-320, 2e-320)[n % 2]} for n, row in enumerate(rows)], "cannot be scaled"),
        (lambda rows: [*rows, {**rows[0], "label": "good"}], "1 texts have contradictory labels; correct them"),
    ],
)
def test_labels_that_cannot_be_learned_are_refused_in_a_sentence(tmp_path, change, sentence):
    with pytest.raises(DataError, match=sentence):
        learned(tmp_path, change(texts(100)))


def test_contradictory_labels_are_left_out_if_asked_for(tmp_path):
    rows = texts(100)
    student = learned(tmp_path, [*rows, {**rows[0], "label": "good"}], contradictions="drop")
    assert student.card["data"]["contradictory"] == 2
    assert sum(student.card["data"][part] for part in ("train", "validation", "held")) == 99


def test_a_folder_of_another_version_damaged_or_with_a_pickle_is_refused(tmp_path):
    learned(tmp_path, texts(100))
    model = tmp_path / "model"
    card = json.loads((model / "card.json").read_text())
    rows = (model / "rows.npy").read_bytes()
    for change, sentence in (
        (lambda: (model / "card.json").write_text(json.dumps({**card, "version": 99})), "version 99, and this dcurate"),
        (
            lambda: (model / "card.json").write_text(json.dumps({**card, "format": "x"})),
            "is not a model of dcurate.learn",
        ),
        (lambda: (model / "card.json").write_text("{"), "is not JSON"),
        (lambda: (model / "card.json").write_text(json.dumps({**card, "weighting": "log"})), "the weighting 'log'"),
        (lambda: np.save(model / "rows.npy", np.array([{}], object), allow_pickle=True), "is damaged"),
        (lambda: (model / "rows.npy").write_bytes(rows[: len(rows) // 2]), "is damaged"),
        (lambda: np.save(model / "pruned.npy", np.full(5000, 10**6, np.int32)), "its parts are inconsistent"),
        (lambda: (model / "extra.pkl").write_bytes(b""), "holds 'extra.pkl', which may run code"),
    ):
        (model / "card.json").write_text(json.dumps(card))
        (model / "rows.npy").write_bytes(rows)
        change()
        with pytest.raises(DataError, match=sentence):
            Student.load(str(model))
    with pytest.raises(DataError, match="no model in"):
        Student.load(str(tmp_path / "nowhere"))


def test_heads_and_classes_that_the_model_does_not_have_are_named(tmp_path):
    learned(tmp_path, texts(100))
    model = str(tmp_path / "model")
    with pytest.raises(PipelineError, match="has no head 'topic'; it has 'label'"):
        ScoreLabels(model=model, heads=["topic"]).setup()
    with pytest.raises(PipelineError, match="head 'label' has no class 'fair'; it has 'bad', 'good'"):
        LabelScoreFilter(model, label="fair").score_document("a")
    for name in ("b", "c"):
        (tmp_path / name).mkdir()
    with pytest.raises(PipelineError, match="must be one of two classes"):
        learned(tmp_path / "b", texts(100), positive={"label": "fair"})
    with pytest.raises(PipelineError, match="class_weights names 'fair'"):
        learned(tmp_path / "c", texts(100), training=Training(class_weights={"fair": 2.0}))


def test_figures_hold_no_texts_unless_asked_for_and_a_new_model_has_no_old_page(tmp_path):
    rows = texts(200)
    for row in rows[::9]:
        row["label"] = "good" if row["label"] == "bad" else "bad"
    learned(tmp_path, rows)
    (tmp_path / "model" / "report.html").write_text("old")
    wrong = json.loads((tmp_path / "model" / "figures.json").read_text())["heads"][0]["wrong"]
    assert 0 < len(wrong) <= 10
    assert {row["text"] for row in wrong} <= {row["text"] for row in rows}
    learned(tmp_path, rows, mode="overwrite", max_examples=0)
    assert json.loads((tmp_path / "model" / "figures.json").read_text())["heads"][0]["wrong"] == []
    assert not (tmp_path / "model" / "report.html").exists()


def test_columns_of_figures_change_no_bit_of_a_model(tmp_path):
    rows = [{**row, "source": str(number % 3)} for number, row in enumerate(texts(200))]
    arrays = []
    for number, settings in enumerate(({}, {"figure_fields": ["source", "url"]})):
        (tmp_path / str(number)).mkdir()
        learned(tmp_path / str(number), rows, **settings)
        model = tmp_path / str(number) / "model"
        arrays.append([(model / f"{name}.npy").read_bytes() for name in ("rows", "weights", "letters")])
        groups = json.loads((model / "figures.json").read_text())["heads"][0]["groups"]
        assert sorted(groups) == sorted(settings.get("figure_fields", []))
        assert all(sum(row["rows"] for row in listed) <= 20 for listed in groups.values())
    assert arrays[0] == arrays[1]


def test_a_model_is_not_replaced_unless_asked_for(tmp_path):
    learned(tmp_path, texts(100))
    with pytest.raises(DataError, match="there is a model in"):
        learned(tmp_path, texts(100))
    learned(tmp_path, texts(100), mode="overwrite")


def test_learned_scores_reach_a_written_corpus(tmp_path):
    learned(tmp_path, texts(200))
    stages: list[Any] = [
        DocumentReader(str(tmp_path / "labels"), fields=["text"]),
        ScoreLabels(model=str(tmp_path / "model")),
        JsonlWriter(str(tmp_path / "out")),
    ]
    Pipeline("score", stages=stages).run(InlineExecutor(), observers=[])
    rows = [json.loads(line) for path in (tmp_path / "out").glob("*.jsonl") for line in path.read_text().splitlines()]
    assert len(rows) == 200
    assert {"text", "label", "label_score"} == set(rows[0])
