"""Classifiers on real Dask processes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dcurate import DaskExecutor, InlineExecutor, LocalCluster, Pipeline
from dcurate.models import FastTextClassifier, QualityClassifier
from tests.models.classifiers.conftest import Published
from tests.models.classifiers.rows import TEXTS, batch, columns

pytestmark = pytest.mark.cluster

LANGUAGES = Path(__file__).parents[2] / "text" / "models" / "languages.bin"


def test_a_cluster_gives_the_rows_that_one_process_gives(published: Published, cluster: LocalCluster) -> None:
    stage = QualityClassifier(model=published.quality, score_field="p", filter_by=["High", "Low"])
    tasks = [batch(*TEXTS), batch(*reversed(TEXTS)), batch("one", "two", "three")]
    for task in tasks:
        task.key = None
    here = Pipeline("p", stages=[stage]).run(InlineExecutor(), initial_tasks=tasks)
    there = Pipeline("p", stages=[stage]).run(DaskExecutor(cluster=cluster), initial_tasks=tasks)
    for one, other in zip(here, there, strict=True):
        near, far = one.to_arrow().to_pydict(), other.to_arrow().to_pydict()  # type: ignore[attr-defined]
        assert np.allclose(near.pop("p"), far.pop("p"), atol=1e-6)
        assert near == far
    assert here.report.stages[-1].dropped == there.report.stages[-1].dropped
    assert here.report.stages[-2].scores == there.report.stages[-2].scores


def test_a_cluster_gives_the_labels_of_fasttext_that_one_process_gives(cluster: LocalCluster) -> None:
    stage = FastTextClassifier(model=LANGUAGES, filter_by=["deu_Latn", "__label__eng_Latn"])
    rows = [batch("the committee published results", "das haus", "море", "la mer")]
    here = Pipeline("p", stages=[stage]).run(InlineExecutor(), initial_tasks=rows)
    there = Pipeline("p", stages=[stage]).run(DaskExecutor(cluster=cluster), initial_tasks=rows)
    assert columns(here) == columns(there)
    assert here.report.stages[-1].dropped == {"label: fra_Latn": 1, "label: srp_Cyrl": 1}
