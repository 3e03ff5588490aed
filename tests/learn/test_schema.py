"""A label schema says what labels there are, and each slip in one is one sentence."""

import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import PipelineError
from dcurate.endpoints.structured import AnswerSchema
from dcurate.learn import Label, LabelSchema

FLAG = {"type": "flag", "description": "It sells."}
SCALE = {"type": "scale", "description": "How good.", "min": 1, "max": 3}
CHOICE = {"type": "enumeration", "description": "What.", "values": ["a", "b"]}


def schema_of(tmp_path: Path, text: str) -> LabelSchema:
    path = tmp_path / "labels.yaml"
    path.write_text(text)
    return LabelSchema.load(path)


def test_the_presets_have_the_labels_that_their_names_promise():
    loaded = {name: LabelSchema.load(name) for name in LabelSchema.presets()}
    assert set(loaded) == {"quality", "educational-value", "topic-format", "properties"}
    topic, form = loaded["topic-format"].labels
    assert (len(topic.values), len(form.values)) == (24, 24)
    assert len(loaded["properties"].labels) == 18
    for schema in loaded.values():
        for label in schema.labels:
            assert label.examples
            assert all(label.problem(value) == "" for _, value in label.examples)
            assert all(description for description in label.values.values())


@pytest.mark.parametrize("name", LabelSchema.presets())
def test_the_json_schema_of_an_answer_is_one_and_the_ground_reads_it(name):
    schema = LabelSchema.load(name)
    answer = {label.name: label.examples[0][1] for label in schema.labels}
    jsonschema.Draft202012Validator.check_schema(schema.json_schema())
    jsonschema.validate(answer, schema.json_schema())
    assert AnswerSchema(schema.json_schema()).parsed(json.dumps(answer)) == answer


LABELS = st.one_of(
    st.builds(
        lambda low, span: Label("x", "scale", "d", min=low, max=low + span), st.integers(-50, 50), st.integers(1, 100)
    ),
    st.builds(
        lambda names: Label("x", "enumeration", "d", values=dict.fromkeys(names, "")),
        st.lists(st.text("abc é", min_size=1, max_size=5).filter(str.strip), min_size=2, max_size=6, unique=True),
    ),
    st.just(Label("x", "flag", "d")),
)
VALUES = st.one_of(
    st.integers(-60, 160),
    st.booleans(),
    st.none(),
    st.floats(),
    st.text("abc é", max_size=5),
    st.lists(st.integers(), max_size=1),
)


@given(LABELS, VALUES)
def test_a_value_is_refused_exactly_if_the_json_schema_refuses_it(label, value):
    valid = jsonschema.Draft202012Validator(label.json_property).is_valid(value)
    if isinstance(value, float) and value.is_integer():  # JSON Schema takes 1.0 for a whole number; a column does not
        valid = False
    assert (label.problem(value) == "") == valid


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[1, 2]", "give a mapping labels: from the name of each label to its type and description"),
        ("labels: {}", "has 0 labels; give 1 to 200"),
        ("labels: {ad: flag}", "label 'ad' must be a mapping with type: and description:, not 'flag'"),
        ("labels: {ad: {type: flg, description: d}}", "label 'ad': unknown type 'flg'"),
        ("labels: {ad: {type: flag}}", "label 'ad' has no description"),
        ("labels: {text: {type: flag, description: d}}", "label 'text': a label needs a name of letters"),
        ("labels: {a b: {type: flag, description: d}}", "label 'a b': a label needs a name of letters"),
        ("labels: {1: {type: flag, description: d}}", "label 1: a label needs a name of letters"),
        ("labels: {q: {type: scale, description: d, min: 1}}", "label 'q': a scale needs 'max'"),
        ("labels: {q: {type: scale, description: d, min: 3, max: 1}}", "label 'q': min=3 and max=1 must differ by 1"),
        ("labels: {q: {type: scale, description: d, min: 1.5, max: 2}}", "label 'q': min=1.5 must be a whole number"),
        ("labels: {q: {type: scale, description: d, min: 1, max: 2, levels: {7: x}}}", "the level 7 is 7, not a whole"),
        ("labels: {t: {type: enumeration, description: d, values: [a]}}", "label 't' has 1 values"),
        ("labels: {t: {type: enumeration, description: d, values: [a, a]}}", "label 't' has the value 'a' twice"),
        ("labels: {t: {type: enumeration, description: d, values: [yes, no]}}", "the value True is not a text"),
        ("labels: {t: {type: enumeration, description: d, value: [a, b]}}", "label 't' has no setting 'value'"),
        (
            "labels: {ad: {type: flag, description: d, examples: [x]}}",
            "label 'ad': examples must be a list of mappings",
        ),
        ("labels: {ad: {type: flag, description: d, examples: [{text: x, value: 1}]}}", "is 1, neither true nor false"),
        ("labels: {ad: {type: flag, description: d}}\nname: [x]", "name: must be text"),
        ("label: {}\nlabels: {ad: {type: flag, description: d}}", "has no setting 'label'; did you mean 'labels'?"),
        ("labels: {a: {type: flag, description: d}, a: {type: flag, description: d}}", "'a' is a duplicate key"),
        ("labels: [", "is not valid YAML: line 1"),
        ("!!python/object/apply:os.system ['true']", "is not valid YAML"),
    ],
)
def test_each_slip_in_a_schema_is_one_sentence(tmp_path, text, sentence):
    with pytest.raises(PipelineError) as error:
        schema_of(tmp_path, text)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_a_schema_that_there_is_not_is_one_sentence(tmp_path):
    with pytest.raises(PipelineError, match="unknown label schema 'qualty'; did you mean 'quality'"):
        LabelSchema.load("qualty")
    with pytest.raises(PipelineError, match="cannot be read"):
        LabelSchema.load(tmp_path / "none.yaml")


def test_what_a_judge_reads_names_every_label_value_and_example():
    schema = LabelSchema.of(
        {
            "labels": {
                "ad": FLAG,
                "quality": {**SCALE, "levels": {1: "bad"}},
                "kind": {**CHOICE, "examples": [{"text": "T", "value": "b"}]},
            }
        }
    )
    for part in (
        "ad (true or false): It sells.",
        "quality (a whole number from 1 to 3)",
        "- 1: bad",
        "- a",
        "'T' -> 'b'",
        "ad, quality, kind",
    ):
        assert part in schema.instructions
