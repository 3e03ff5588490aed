"""Trees of gradual transitions, and the scores of detectors."""

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks.make_transitions import flattened, video
from benchmarks.shot_scores import ShotEvent, counts_of, scores_of
from dcurate.video.shots.gradual import probabilities_of


def test_trees_vote_as_the_model_that_they_were_made_of() -> None:
    random = np.random.default_rng(1)
    rows = random.normal(size=(600, 5)).astype(np.float32)
    labels = rows[:, 0] * rows[:, 1] + rows[:, 2] > 0.2
    model = HistGradientBoostingClassifier(max_iter=20, max_leaf_nodes=8, early_stopping=False).fit(rows, labels)
    ours = probabilities_of(rows, flattened(model))
    assert np.allclose(ours, model.predict_proba(rows)[:, 1], atol=1e-5)


def test_a_drawn_film_is_the_same_each_time_and_its_events_are_where_it_says() -> None:
    once, again = video(3), video(3)
    assert (once.frames == again.frames).all()
    assert once.events == again.events
    assert all(once.is_mixed[event.start : event.stop].all() for event in once.events)
    assert once.is_mixed.sum() == sum(event.stop - event.start for event in once.events)


def test_each_transition_is_matched_once_with_the_nearest_answer() -> None:
    truth = [ShotEvent("cut", 10, 10), ShotEvent("dissolve", 20, 30)]
    answers = [
        ShotEvent("cut", 11, 11),
        ShotEvent("cut", 12, 12),
        ShotEvent("gradual", 22, 28),
        ShotEvent("cut", 50, 50),
    ]
    scores = scores_of([counts_of(truth, answers, 2)])
    assert scores == {
        "f1": 0.6667,
        "precision": 0.5,
        "recall": 1.0,
        "by_kind": {"cut": {"found": 1, "all": 1}, "dissolve": {"found": 1, "all": 1}},
    }
