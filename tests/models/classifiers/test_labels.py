from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from dcurate import BatchKey, DataError, DocumentBatch, InlineExecutor, Pipeline, PipelineError
from dcurate.models import FilterByLabel
from dcurate.models.classifiers.labels import check_wanted, config_in, labels_of, wanted_labels


def labelled(labels: list[object], kind: pa.DataType | None = None) -> DocumentBatch:
    return DocumentBatch(
        key=BatchKey("s"), data=pa.table({"n": list(range(len(labels))), "label": pa.array(labels, kind)})
    )


def test_rows_with_other_labels_are_dropped_and_counted_label_by_label() -> None:
    kept = FilterByLabel("label", ("High",), "n").process(labelled(["Low", "High", None, "Low", "Medium"]))
    assert kept.to_arrow()["n"].to_pylist() == [1]
    assert [(gone.reason, gone.data["n"].to_pylist(), gone.scores, gone.column) for gone in kept.rejections] == [
        ("label: Low", [0, 3], ["Low", "Low"], "n"),
        ("label: Medium", [4], ["Medium"], "n"),
        ("label: no label", [2], [None], "n"),
    ]


def test_of_a_list_of_labels_one_that_is_wanted_is_enough() -> None:
    rows = labelled([["a", "b"], ["c"], [], None], pa.list_(pa.string()))
    kept = FilterByLabel("label", ("b",)).process(rows)
    assert kept.to_arrow()["n"].to_pylist() == [0]
    assert [(gone.reason, gone.rows) for gone in kept.rejections] == [
        ("label: no label", 1),
        ("label: none of those wanted", 2),
    ]


def test_truth_values_are_labels_too() -> None:
    kept = FilterByLabel("label", (False,)).process(labelled([True, False, True]))
    assert kept.to_arrow()["n"].to_pylist() == [1]
    assert [(gone.reason, gone.rows) for gone in kept.rejections] == [("label: True", 2)]


def test_a_batch_of_which_all_rows_stay_is_passed_on_as_it_is() -> None:
    rows = labelled(["High", "High"])
    kept = FilterByLabel("label", ("High",)).process(rows)
    assert kept.data is rows.data
    assert not kept.rejections
    assert FilterByLabel("label", ("High",)).process(labelled([], pa.string())).num_items == 0


def test_a_filter_for_no_label_and_a_column_that_is_not_there_are_refused() -> None:
    with pytest.raises(PipelineError, match="filter_by is empty, so no row would be kept; name a label"):
        FilterByLabel("label", ())
    with pytest.raises(DataError, match="no column 'mood'; the rows have 'n', 'label'"):
        FilterByLabel("mood", ("glad",)).process(labelled(["x"]))


def test_one_label_may_be_given_without_a_list() -> None:
    assert (wanted_labels("High"), wanted_labels(False), wanted_labels(["a"]), wanted_labels(None)) == (
        ("High",),
        (False,),
        ("a",),
        (),
    )


def test_a_label_that_the_model_never_says_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(PipelineError, match="filter_by has an unknown label 'high'; did you mean 'High'"):
        check_wanted("quality", ["high"], ["High", "Low"])
    with pytest.raises(PipelineError, match="filter_by has an unknown label True; there are 'High', 'Low'"):
        check_wanted("quality", [True], ["High", "Low"])
    check_wanted("quality", ["whatever"], None)


@pytest.mark.parametrize(
    ("config", "labels"),
    [
        ({"id2label": {"10": "k", **{str(n): chr(97 + n) for n in range(10)}}}, list("abcdefghijk")),
        ({"label2id": {"b": 1, "a": 0}}, ["a", "b"]),
        ({}, None),
    ],
)
def test_labels_come_in_the_order_of_the_outputs(config: dict[str, object], labels: list[str] | None) -> None:
    assert labels_of(config, "a model") == labels


def test_labels_with_a_gap_are_refused() -> None:
    with pytest.raises(DataError, match=r"a model: id2label numbers its labels \[0, 2\]; they must be 0 to 1"):
        labels_of({"id2label": {"0": "a", "2": "b"}}, "a model")


@pytest.mark.parametrize("labels", [["no", "yes"], {"zero": "no", "one": "yes"}, {"0": "no", "x": "yes"}, 7])
def test_labels_that_are_no_table_of_numbers_are_refused(labels: object) -> None:
    with pytest.raises(DataError, match='a model: id2label must be a table of numbers and labels, such as {"0": "no"'):
        labels_of({"id2label": labels}, "a model")


@pytest.mark.parametrize("content", ["{half", "[1, 2]", '[["a", 1]]', "7"])
def test_a_configuration_that_is_no_object_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(DataError, match=r"config.json' cannot be read as a model's configuration: .*; copy it from"):
        config_in(str(tmp_path))


def test_the_report_says_how_many_rows_each_label_cost() -> None:
    stage = FilterByLabel("label", ("High",))
    report = (
        Pipeline("p", stages=[stage]).run(InlineExecutor(), initial_tasks=[labelled(["Low", "High", "Low"])]).report
    )
    assert report.stages[-1].dropped == {"label: Low": 2}
