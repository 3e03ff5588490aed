"""Students of columns: as good as logistic regression, the same bits, and refusals in a sentence."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from dcurate import DataError, DocumentBatch, DocumentReader, InlineExecutor, Pipeline, PipelineError
from dcurate.learn import ColumnStudent, HeldBack, LabelScoreFilter, Learn, ScoreLabels, Student, TextFeatures
from dcurate.learn.columns import ColumnFit, load_model
from dcurate.learn.head import StudentHead
from dcurate.learn.training import ExampleSplit, Training
from dcurate.models import StaticEmbedder
from dcurate.ui import write_student_page
from tests.learn.test_learn import digest, written
from tests.models.embedders.test_static import minilm

FIELDS = ["words", "embedding"]


def rows_of(count: int, seed: int = 0) -> list[dict[str, Any]]:
    random = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        good = bool(random.random() < 0.5)
        vector = (random.normal(size=6) + good * np.array([1, -1, 0.5, 0, 0, 0])).tolist()
        rows.append(
            {
                "text": f"text number {number} {random.random()}",
                "words": int(random.poisson(80 + 30 * good)),
                "embedding": vector,
                "label": "good" if good else "bad",
                "grade": vector[0] * 2 + random.normal() / 10,
            }
        )
    return rows


def learned(folder: Path, rows: list[dict[str, Any]], **settings: Any) -> tuple[ColumnStudent, Any]:
    model = str(folder / "model")
    settings = {"feature_fields": FIELDS, "held_back": HeldBack(near_duplicates=False), **settings}
    stages = [DocumentReader(str(written(folder / "labels", rows))), Learn(model, **settings)]
    report = Pipeline("learn", stages=stages).run(InlineExecutor(), observers=[]).report
    return ColumnStudent.load(model), report


@pytest.mark.parametrize("size", [3, 64])
def test_it_ranks_as_well_as_logistic_regression(size):
    random = np.random.default_rng(size)
    numbers = random.normal(size=(4000, size)) * np.exp(random.normal(size=size)) + random.normal(size=size)
    logits = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0) @ random.normal(size=size) / np.sqrt(size)
    truth = random.random(4000) < 1 / (1 + np.exp(-2 * logits))
    parts = ExampleSplit(*np.split(np.arange(4000), [2800, 3200]))
    scaler = StandardScaler().fit(numbers[parts.train])
    model = LogisticRegression().fit(scaler.transform(numbers[parts.train]), truth[parts.train])
    expected = roc_auc_score(truth[parts.held], model.predict_proba(scaler.transform(numbers[parts.held]))[:, 1])
    targets, weights = truth[:, None].astype(np.float32), np.ones((4000, 1), np.float32)
    heads = [StudentHead("label", "flag", ("false", "true"))]
    held = ColumnFit(numbers, parts).run(heads, targets, weights, Training())[3]
    assert roc_auc_score(truth[parts.held], held[:, 1]) > expected - 0.005


def test_heads_learn_from_columns_and_scores_are_new_columns(tmp_path):
    student, _ = learned(tmp_path, rows_of(1000), head_fields=["label", "grade"], positive={"label": "good"})
    figures = {row["head"]: row for row in student.card["figures"]}
    assert figures["label"]["auc"] > 0.85
    assert figures["grade"]["r2"] > 0.9
    rows = rows_of(50, seed=1)
    stage = ScoreLabels(
        model=str(tmp_path / "model"), heads=["label", "grade"], prefix="student_", feature_fields=["n", "v"]
    )
    assert stage.inputs()[1] == ["n", "v"]
    stage.setup()
    blank = {"n": [None, 80], "v": [rows[0]["embedding"], None], "label": ["x", "y"], "grade": [0.0, 0.0]}
    frame = pd.DataFrame(rows).rename(columns={"words": "n", "embedding": "v"}).drop(columns="text")
    scored = stage.process(DocumentBatch(data=pd.concat([frame, pd.DataFrame(blank)]))).to_pandas()
    assert (scored.student_label == scored.label)[:50].mean() > 0.7
    assert abs(scored.student_grade - scored.grade)[:50].mean() < 0.7
    assert scored.student_label[50:].isna().all()
    assert scored.student_label_score[50:].tolist() == [0, 0]


def test_texts_are_needed_only_to_find_near_duplicates(tmp_path):
    rows = [{name: value for name, value in row.items() if name != "text"} for row in rows_of(200)]
    rows += [{**rows[0], "words": None}, {**rows[0], "embedding": None}, {**rows[0], "label": None}]
    student, report = learned(tmp_path, rows)
    assert sum(student.card["data"][part] for part in ("train", "validation", "held")) == 200
    learn = report.stages[-1]
    assert (learn.rows_in, learn.rows_out) == (203, 200)
    assert learn.dropped == {"no_label": 1, "no_features": 2}
    with pytest.raises(PipelineError, match="text"):
        learned(tmp_path, rows, held_back=HeldBack(), mode="overwrite")


def test_rows_with_equal_numbers_and_other_labels_are_not_contradictory_but_equal_texts_are(tmp_path):
    rows = [{"text": f"text {n}", "words": n % 3, "label": "good" if n % 2 else "bad"} for n in range(100)]
    for row, name in ((rows, "a"), ([{**row, "text": "same"} for row in rows], "b")):
        (tmp_path / name).mkdir()
        settings: dict[str, Any] = {"feature_fields": ["words"], "held_back": HeldBack()}
        if name == "a":
            assert learned(tmp_path / name, row, **settings)[0].card["data"]["contradictory"] == 0
        else:
            with pytest.raises(DataError, match="contradictory labels"):
                learned(tmp_path / name, row, **settings)


def test_the_order_of_rows_and_files_changes_no_bit(tmp_path):
    rows = rows_of(300)
    rows += [{**rows[0], "words": 1}, {**rows[0], "words": 2}]  # one text with one label, and other numbers
    digests = set()
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        order = np.random.default_rng(number).permutation(len(rows))
        learned(folder, [rows[place] for place in order], held_back=HeldBack(), head_fields=["label"])
        digests.add(digest(folder / "model"))
    assert len(digests) == 1


def test_the_order_of_rows_with_equal_numbers_changes_no_figure(tmp_path):
    rows = [{"words": n % 4, "label": "good" if n % 8 < 5 else "bad", "source": f"source {n % 7}"} for n in range(400)]
    figures = set()
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        order = np.random.default_rng(number).permutation(len(rows))
        shuffled = [rows[place] for place in order]
        learned(folder, shuffled, feature_fields=["words"], head_fields=["label"], figure_fields=["source"])
        figures.add((folder / "model" / "figures.json").read_bytes())
    assert len(figures) == 1


def test_static_embeddings_are_learned_through_their_column(tmp_path):
    lines = [
        line
        for part in ("part-00.jsonl", "part-01.jsonl")
        for line in (files("dcurate") / "bundled" / "sample" / part).read_text().splitlines()
        if line.strip()
    ]
    rows = []
    for document in map(json.loads, lines):
        text, label = document.get("text") or "", "prose" if document.get("source") == "gutenberg" else "other"
        rows += [{"text": text[start : start + 300], "label": label} for start in range(0, min(len(text), 9000), 300)]
    embed = StaticEmbedder(str(minilm(tmp_path / "static")))
    model = str(tmp_path / "model")
    learn = Learn(model, feature_fields=["embeddings"], contradictions="drop")
    labels = DocumentReader(str(written(tmp_path / "labels", rows)))
    Pipeline("learn", stages=[labels, embed, learn]).run(InlineExecutor(), observers=[])
    assert ColumnStudent.load(model).card["figures"][0]["auc"] > 0.9
    stages: list[Any] = [labels, embed, ScoreLabels(model=model, feature_fields=["embeddings"], overwrite=True)]
    scored = Pipeline("score", stages=stages).run(InlineExecutor(), observers=[]).to_pandas()
    assert len(scored) == len(rows)
    assert set(scored.label.dropna()) == {"prose", "other"}


def test_a_page_says_which_columns_moved_an_answer(tmp_path):
    learned(tmp_path, rows_of(400), head_fields=["label", "grade"])
    head = json.loads((tmp_path / "model" / "figures.json").read_text())["heads"][0]
    assert {column for column, _ in head["wrong"][0]["moved"]} == set(FIELDS)
    assert head["wrong"][0]["text"].startswith("words ")
    assert "ROC" in Path(write_student_page(str(tmp_path / "model"))).read_text()


@pytest.mark.parametrize("unit", [1, 1000, 0.001])
def test_labels_of_the_most_wrong_examples_are_as_they_were(tmp_path, unit):
    rows = [{**row, "grade": (number * 7 % 13) * unit} for number, row in enumerate(rows_of(300))]
    learned(tmp_path, rows, head_fields=["grade"])
    head = json.loads((tmp_path / "model" / "figures.json").read_text())["heads"][0]
    assert head["wrong"]
    assert {example["truth"] for example in head["wrong"]} <= {round(number * unit, 3) for number in range(13)}


def test_columns_that_a_model_cannot_read_are_refused_in_a_sentence(tmp_path):
    rows = rows_of(60)
    learned(tmp_path, rows)
    model = str(tmp_path / "model")
    with pytest.raises(PipelineError, match=r"reads columns; give feature_fields=\['words', 'embedding'\]"):
        ScoreLabels(model=model).setup()
    with pytest.raises(PipelineError, match="reads columns; use ScoreLabels"):
        LabelScoreFilter(model).score_document("a text")
    with pytest.raises(DataError, match="reads columns, not texts"):
        Student.load(model)
    stage = ScoreLabels(model=model, feature_fields=FIELDS, overwrite=True)
    stage.setup()
    for change, sentence in (
        ({"embedding": [1.0, 2.0]}, "column 'embedding' holds 2 numbers in a row, and 6 were trained on"),
        ({"words": "many"}, "column 'words' holds .*string"),
    ):
        with pytest.raises(DataError, match=sentence):
            stage.process(DocumentBatch(data=pd.DataFrame([{**rows[0], **change}])))
    lists = [{**row, "embedding": [1.0] * (1 + number % 2)} for number, row in enumerate(rows)]
    (tmp_path / "lists").mkdir()
    with pytest.raises(DataError, match="holds lists of 1 numbers and of 2; make all alike"):
        learned(tmp_path / "lists", lists)
    for settings, sentence in (
        ({"feature_fields": "words"}, "must be a list of different columns"),
        ({"feature_fields": ["label"]}, "no column predicts itself"),
        ({"feature_fields": ["words"], "features": TextFeatures(word_ngrams=1)}, "give one of them"),
    ):
        with pytest.raises(PipelineError, match=sentence):
            Learn("m", **settings)


def test_folders_are_of_one_kind_and_damage_is_refused(tmp_path):
    learned(tmp_path, rows_of(60))
    model = tmp_path / "model"
    assert isinstance(load_model(str(model)), ColumnStudent)
    assert json.loads((model / "card.json").read_text())["version"] == 1  # only folders of models of texts changed
    np.save(model / "rows.npy", np.zeros((3, 1), np.float32))
    with pytest.raises(DataError, match="its parts are inconsistent"):
        ColumnStudent.load(str(model))
    np.save(model / "rows.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(DataError, match="is damaged"):
        load_model(str(model))


@pytest.mark.parametrize("empty", [None, "", " \n"])
def test_rows_without_words_are_neither_contradictory_nor_near_duplicates(tmp_path, empty):
    student, _ = learned(tmp_path, [{**row, "text": empty} for row in rows_of(200)], held_back=HeldBack())
    data = student.card["data"]
    assert (data["train"], data["validation"], data["held"], data["contradictory"]) == (160, 20, 20, 0)


def test_numbers_too_large_to_scale_are_refused_by_the_name_of_their_column(tmp_path):
    rows = [{"n": n, "pair": [1.0, 1e300 * n], "label": n % 2 == 0} for n in range(60)]
    with pytest.raises(DataError, match="column 'pair' has numbers that are too large"):
        learned(tmp_path, rows, feature_fields=["n", "pair"], head_fields=["label"])


def test_a_row_of_large_numbers_has_all_features(tmp_path):
    rows = [{"pair": [1e308, 1e308], "words": n, "label": n % 2 == 0} for n in range(60)]
    rows[0]["pair"] = [1e308, float("inf")]
    with pytest.raises(DataError, match="column 'pair' has numbers that are too large"):
        learned(tmp_path, rows, feature_fields=["pair", "words"], head_fields=["label"])


def test_too_few_rows_with_features_are_named_as_such(tmp_path):
    rows = [{"words": None, "label": n % 2 == 0} for n in range(60)] + [{"words": 1, "label": True}]
    with pytest.raises(DataError, match="too few rows with a label and all features to learn from: 1"):
        learned(tmp_path, rows, feature_fields=["words"], head_fields=["label"])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("figures.json", b"[1]"),
        ("figures.json", b"{}"),
        ("figures.json", b'{"heads": [{"name": "a"}]}'),
        ("card.json", b"{}"),
        ("card.json", b"7"),
    ],
)
def test_damaged_figures_make_no_page(tmp_path, name, content):
    learned(tmp_path, rows_of(60), head_fields=["label"])
    (tmp_path / "model" / name).write_bytes(content)
    with pytest.raises(DataError, match="is damaged"):
        write_student_page(str(tmp_path / "model"))


def test_a_card_whose_heads_are_not_objects_is_damaged(tmp_path):
    learned(tmp_path, rows_of(60), head_fields=["label"])
    card = tmp_path / "model" / "card.json"
    card.write_text(json.dumps({**json.loads(card.read_bytes()), "heads": ["label"]}))
    with pytest.raises(DataError, match="is damaged"):
        load_model(str(tmp_path / "model"))
