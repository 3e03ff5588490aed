"""Translation, against a real server that answers in brackets."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import DaskExecutor, DocumentBatch, InlineExecutor, LocalCluster, Pipeline, PipelineError
from dcurate.llm import AsyncOpenAIClient, FilterByFaith, Translate
from dcurate.llm.paths import FieldPath
from dcurate.llm.segmenting import is_translatable, segments_of
from dcurate_testing.llm_server import Endpoint

pytestmark = pytest.mark.cluster

WORDS = [
    ["English: Hello.", "Here you are: 〘Hallo.〙"],
    ["English: Good day!", "〘Guten Tag!〙"],
    ["English: It rains.", "〘 Es regnet. 〙"],
    ["English: Nothing", "〘〙"],
]


def translation(endpoint: Endpoint, **settings: Any) -> Translate:
    client = AsyncOpenAIClient(base_url=endpoint.url, base_delay_s=0.01)
    plain = {"source_language": "en", "target_language": "de", "client": client, "model": "made-up"}
    return Translate(**{**plain, **settings})


def run(stage: Any, executor: Any = None, **columns: Any) -> Any:
    return Pipeline("test", stages=[stage]).run(
        executor or InlineExecutor(), initial_tasks=[DocumentBatch(data=pa.table(columns))]
    )


def rows(result: Any) -> list[dict[str, Any]]:
    return [row for batch in result for row in batch.to_arrow().to_pylist()]


TEXT = "Hello.\n\n```\nprint('Hello.')\n```\n  Good day!\n42\n<br/>\n"
GERMAN = "Hallo.\n\n```\nprint('Hello.')\n```\n  Guten Tag!\n42\n<br/>\n"


def test_lines_are_translated_and_all_else_stays(endpoint: Endpoint, cluster: LocalCluster) -> None:
    endpoint.behave(replies=WORDS)
    found = rows(run(translation(endpoint), text=[TEXT, None, "42", "Hello."]))
    assert [row["text"] for row in found] == [GERMAN, None, "42", "Hallo."]
    assert [row["translated_text"] for row in found] == [GERMAN, None, "42", "Hallo."]
    assert {row["translation_errors"] for row in found} == {""}
    assert endpoint.seen.requests == 2  # what is said twice is asked once, and the code not at all
    again = run(translation(endpoint), DaskExecutor(cluster=cluster), text=[TEXT, None, "42", "Hello."])
    assert rows(again) == found


def test_the_model_is_told_both_languages_by_name(endpoint: Endpoint) -> None:
    endpoint.behave(replies=WORDS)
    run(translation(endpoint, target_language="pt-BR"), text=["Hello."])
    prompt = endpoint.seen.bodies[0]["messages"][-1]["content"]
    assert "English text below into Portuguese" in prompt
    assert prompt.endswith("English: Hello.")


def test_sentences_are_translated_one_by_one(endpoint: Endpoint) -> None:
    endpoint.behave(replies=WORDS)
    (row,) = rows(run(translation(endpoint, segmentation_mode="fine"), text=["Hello. It rains.\nGood day!"]))
    assert row["text"] == "Hallo. Es regnet.\nGuten Tag!"


def test_a_row_is_translated_whole_or_not_at_all(endpoint: Endpoint) -> None:
    endpoint.behave(replies=WORDS)
    result = run(translation(endpoint), text=["Hello.\nNothing", "Hello."])
    assert [row["text"] for row in rows(result)] == ["Hallo."]
    assert result.report.stages[-1].faulty == {"empty answer": 1}
    first, second = rows(run(translation(endpoint, on_error="null"), text=["Hello.\nNothing", "Hello."]))
    assert (first["text"], first["translated_text"], second["text"]) == ("Hello.\nNothing", None, "Hallo.")
    assert "the translation is empty" in first["translation_errors"]


def test_the_translation_may_stand_beside_the_text_as_metadata(endpoint: Endpoint) -> None:
    endpoint.behave(replies=WORDS)
    (row,) = rows(run(translation(endpoint, output_mode="raw"), text=["Hello.\n42"]))
    assert (row["text"], set(row)) == ("Hello.\n42", {"text", "translation_metadata", "translation_errors"})
    assert json.loads(row["translation_metadata"]) == {
        "target_lang": "de",
        "translation": {"text": "Hallo.\n42"},
        "segmented_translation": {"text": [{"src": "Hello.", "tgt": "Hallo."}]},
    }
    (row,) = rows(run(translation(endpoint, output_mode="both"), text=["Hello."]))
    assert (row["text"], json.loads(row["translation_metadata"])["target_lang"]) == ("Hallo.", "de")


def test_rows_that_have_a_translation_are_left_alone(endpoint: Endpoint) -> None:
    endpoint.behave(replies=WORDS)
    stage = translation(endpoint, skip_translated=True)
    first, second = rows(run(stage, text=["Hello.", "Hello."], translated_text=["schon da", " "]))
    assert (first["text"], first["translated_text"]) == ("Hello.", "schon da")
    assert (second["text"], second["translated_text"]) == ("Hallo.", "Hallo.")


@pytest.mark.parametrize("as_json", [False, True])
def test_the_contents_of_messages_are_translated_in_their_places(endpoint: Endpoint, as_json: bool) -> None:
    endpoint.behave(replies=WORDS)
    messages = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "It rains."}]
    given = json.dumps(messages) if as_json else messages
    (row,) = rows(run(translation(endpoint, text_field="messages.*.content"), messages=[given]))
    found = json.loads(row["messages"]) if as_json else row["messages"]
    assert found == [{"role": "user", "content": "Hallo."}, {"role": "assistant", "content": "Es regnet."}]


def test_several_columns_are_translated(endpoint: Endpoint) -> None:
    endpoint.behave(replies=WORDS)
    (row,) = rows(run(translation(endpoint, text_field=["title", "text"]), title=["Hello."], text=["It rains."]))
    assert (row["title"], row["text"]) == ("Hallo.", "Es regnet.")
    assert json.loads(row["translated_text"]) == {"title": ["Hallo."], "text": ["Es regnet."]}


# Marks


def marks(value: float) -> str:
    names = ("Fluency", "Accuracy", "Idiomaticity", "Terminology", "Handling_of_Format")
    return json.dumps(dict.fromkeys(names, value))


JUDGED = [
    ["Translation (German):\nHallo.", marks(4)],
    ["Translation (German):\nGuten Tag!", marks(1)],
    ["Translation (German):\nEs regnet.", "no idea"],
    *WORDS,
]


def test_translations_of_low_marks_are_dropped_and_those_that_were_not_judged_stay(endpoint: Endpoint) -> None:
    endpoint.behave(replies=JUDGED)
    texts = ["Hello.", "Good day!", "It rains.", "42", "Hello.\nGood day!"]
    result = run(translation(endpoint, enable_faith_eval=True), text=texts)
    found = {row["text"]: row for row in rows(result)}
    assert list(found) == ["Hallo.", "Es regnet.", "42", "Hallo.\nGuten Tag!"]
    assert result.report.stages[-1].dropped == {"faith_avg": 1}
    assert (found["Hallo."]["faith_avg"], found["Hallo.\nGuten Tag!"]["faith_avg"]) == (4.0, 2.5)
    assert [row["faith_parse_failed"] for row in found.values()] == [False, True, False, False]
    assert "_translation_pairs" not in found["42"]


def test_marks_go_into_the_metadata_if_asked_to(endpoint: Endpoint) -> None:
    endpoint.behave(replies=JUDGED)
    stage = translation(endpoint, enable_faith_eval=True, merge_scores=True, output_mode="both")
    (row,) = rows(run(stage, text=["Hello."]))
    assert json.loads(row["translation_metadata"])["faith_scores"]["faith_avg"] == 4.0


def test_translations_of_others_are_judged(endpoint: Endpoint) -> None:
    endpoint.behave(replies=JUDGED)
    client = AsyncOpenAIClient(base_url=endpoint.url)
    stage = FilterByFaith(
        client=client, model="made-up", source_language="en", target_language="de", filter_enabled=False
    )
    found = rows(run(stage, text=["Hello.", "Good day!"], translated_text=["Hallo.", "Guten Tag!"]))
    assert [row["faith_avg"] for row in found] == [4.0, 1.0]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"source_language": " "}, "source_language= must name a language"),
        ({"output_mode": "row"}, "output_mode='row' is unknown; did you mean 'raw'"),
        ({"segmentation_mode": "words"}, "segmentation_mode='words' is unknown"),
        ({"backend_type": "google"}, "backend_type='google' is not supported, only 'llm'"),
        ({"merge_scores": True}, "merge_scores=True needs enable_faith_eval=True"),
        ({"client": None}, "client=None is not a client"),
        ({"translation_prompt": "To {target}: {text}"}, "the prompt has {target}; there are 'source_language', 'tar"),
    ],
)
def test_settings_that_do_not_fit_are_refused(endpoint: Endpoint, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(PipelineError, match=sentence):
        translation(endpoint, **settings)


# Pieces


@given(st.text(alphabet="aB.!?。 \n\t`{}<>1\r\u2028é", max_size=60), st.sampled_from(["coarse", "fine"]))
def test_pieces_that_are_not_changed_are_the_text(text: str, mode: str) -> None:
    segments = segments_of(text, mode)
    assert "".join(segments.pieces) == text
    assert segments.joined(segments.texts) == text


def test_a_short_text_is_one_piece() -> None:
    assert segments_of("One.\nTwo.", least=20).texts == ["One.\nTwo."]


def test_a_path_changes_only_what_it_names() -> None:
    value = {"a": [{"b": "x", "c": "y"}, {"c": 3}, "z"], "b": "w"}
    path = FieldPath("column.a.*.b")
    assert path.texts(value) == ["x"]
    assert path.replaced(value, ["X"]) == {"a": [{"b": "X", "c": "y"}, {"c": 3}, "z"], "b": "w"}
    assert value["a"][0] == {"b": "x", "c": "y"}
    assert FieldPath("column.a").texts("no json") == []


@pytest.mark.parametrize("levels", [300, 900, 5000, 100_000])
def test_deep_json_is_taken_apart_or_left_as_it_is(levels: int) -> None:
    text = '{"t": "Hi", "x": ' + "[" * levels + "]" * levels + "}"
    path = FieldPath("column.t")
    texts = path.texts(text)
    assert path.replaced(text, ["Hallo"] * len(texts)) == (text.replace("Hi", "Hallo") if texts else text)
    assert not is_translatable(text)


def test_what_is_no_json_stays_as_it_is() -> None:
    assert FieldPath("column.a").replaced("no json", []) == "no json"
