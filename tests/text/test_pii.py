"""Personal data is removed from documents and counted, without being shown."""

from __future__ import annotations

import importlib
import pickle
import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import BatchKey, DocumentBatch, Modify, PipelineError, ResourceError, ScoreFilter, StageError
from dcurate.core.fingerprint import fingerprint
from dcurate.kernels.pii.scan import KINDS
from dcurate.text import PII_EXAMPLES, CountPii, PiiFilter, PiiModifier, SpacyRecognizer
from tests.text.strategies import texts

MAIL, CARD = "jo.doe@example.org", "4111 1111 1111 1111"
TEXT = f"é {MAIL}, call +1 415-555-2671 from 8.8.8.8; {CARD}."


def batch(*documents: str | None, kind: pa.DataType | None = None) -> DocumentBatch:
    table = pa.table({"text": pa.array(documents, kind or pa.string())})
    return DocumentBatch(key=BatchKey("s"), data=table)


@pytest.mark.parametrize(
    ("modifier", "expected"),
    [
        (PiiModifier(), "é , call  from ; ."),
        (
            PiiModifier(anonymize_action="replace"),
            "é <EMAIL_ADDRESS>, call <PHONE_NUMBER> from <IP_ADDRESS>; <CREDIT_CARD>.",
        ),
        (
            PiiModifier(supported_entities=["IP_ADDRESS"], anonymize_action="replace"),
            TEXT.replace("8.8.8.8", "<IP_ADDRESS>"),
        ),
        (PiiModifier(anonymize_action="replace", new_value="X"), "é X, call X from X; X."),
        (
            PiiModifier(anonymize_action="replace", new_value={"EMAIL_ADDRESS": "me@example.com"}),
            "é me@example.com, call <PHONE_NUMBER> from <IP_ADDRESS>; <CREDIT_CARD>.",
        ),
        (
            PiiModifier(anonymize_action="mask"),
            f"é {'*' * len(MAIL)}, call {'*' * 15} from *******; {'*' * 19}.",
        ),
        (
            PiiModifier(
                supported_entities=["CREDIT_CARD"], anonymize_action="mask", masking_char="#", chars_to_mask=15
            ),
            TEXT.replace(CARD, "#" * 15 + "1111"),
        ),
    ],
)
def test_an_action_changes_what_is_found_and_nothing_else(modifier: PiiModifier, expected: str) -> None:
    assert modifier.modify_document(TEXT) == expected


def test_a_mask_has_as_many_characters_as_what_it_covers() -> None:
    assert PiiModifier(anonymize_action="mask").modify_document("jörg@müller.de!") == "*" * 14 + "!"


def test_private_addresses_go_only_when_asked() -> None:
    text = "10.0.0.1 and 8.8.8.8"
    assert PiiModifier(anonymize_action="replace", new_value="X").modify_document(text) == "10.0.0.1 and X"
    both = PiiModifier(anonymize_action="replace", new_value="X", public_ips_only=False)
    assert both.modify_document(text) == "X and X"


def test_pseudonyms_are_the_same_for_a_value_however_it_is_written_and_differ_by_secret() -> None:
    modifier = PiiModifier(anonymize_action="hash", secret="one")
    first, second, third = (
        modifier.modify_document(text) for text in ("JO@example.org", "jo@Example.org", "al@example.org")
    )
    assert re.fullmatch("<EMAIL_ADDRESS_[0-9a-f]{16}>", first)
    assert first == second != third
    assert modifier.modify_document(CARD) == modifier.modify_document(CARD.replace(" ", ""))
    assert PiiModifier(anonymize_action="hash", secret=b"two").modify_document("jo@example.org") != first


def test_the_secret_is_not_shown() -> None:
    stage = Modify(PiiModifier(anonymize_action="hash", secret="open sesame"))
    assert "sesame" not in repr(stage) + str(fingerprint([stage]))
    assert pickle.loads(pickle.dumps(stage)) == stage


def test_examples_are_put_in_by_value_and_stay_when_met_again() -> None:
    modifier = PiiModifier(anonymize_action="replace", new_value=PII_EXAMPLES, public_ips_only=False)
    once = modifier.modify_document(TEXT)
    assert MAIL not in once
    assert modifier.modify_document(TEXT) == modifier.modify_document(once) == once
    assert set(PII_EXAMPLES) == set(KINDS)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_a_column_keeps_its_type_its_nulls_and_its_other_rows(kind: pa.DataType) -> None:
    given = batch(None, MAIL, "", "none here", kind=kind)
    made = Modify(PiiModifier(anonymize_action="replace")).process(given).to_arrow()
    assert made["text"].to_pylist() == [None, "<EMAIL_ADDRESS>", "", "none here"]
    assert made.schema.field("text").type == kind


def test_a_column_is_left_and_another_made_where_asked() -> None:
    made = Modify(PiiModifier(), output_fields="clean").process(batch(f"a{MAIL[0:0]} {MAIL}")).to_arrow()
    assert made.to_pydict() == {"text": [f"a {MAIL}"], "clean": ["a "]}


def test_a_slice_of_a_table_is_its_own_rows() -> None:
    sliced = DocumentBatch(data=batch("x", MAIL, "y " + MAIL).to_arrow().slice(1))
    assert Modify(PiiModifier()).process(sliced).to_arrow()["text"].to_pylist() == ["", "y "]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.one_of(st.none(), texts, st.just(TEXT)), max_size=5))
def test_a_column_at_once_gives_what_single_texts_give(documents: list[str | None]) -> None:
    modifier = PiiModifier(anonymize_action="replace")
    made = Modify(modifier).process(batch(*documents)).to_arrow()["text"].to_pylist()
    assert made == [None if text is None else modifier.modify_document(text) for text in documents]


def test_a_lone_surrogate_passes() -> None:
    assert PiiModifier().modify_document("\ud800 " + MAIL) == "\ud800 "


def test_finds_are_counted_by_kind() -> None:
    made = CountPii(supported_entities=["EMAIL_ADDRESS", "US_SSN"]).process(batch(f"{MAIL} {MAIL}", None, CARD))
    assert made.to_arrow().drop_columns("text").to_pydict() == {"pii_email_address": [2, 0, 0], "pii_us_ssn": [0, 0, 0]}
    assert CountPii().outputs()[1] == [f"pii_{kind.lower()}" for kind in KINDS]
    assert made.rejections == ()


def test_documents_with_much_personal_data_are_dropped_for_that() -> None:
    stage = ScoreFilter(PiiFilter(max_pii=1, supported_entities=("EMAIL_ADDRESS",)), score_field="finds")
    made = stage.process(batch(f"{MAIL} {MAIL}", MAIL, CARD))
    assert made.to_arrow()["finds"].to_pylist() == [1, 0]
    assert [(gone.reason, gone.rows) for gone in made.rejections] == [("pii", 1)]


def names(text: str) -> list[tuple[int, int, str]]:
    """Words with a capital, as a stand-in that any function may be."""
    return [(match.start(), match.end(), "PERSON") for match in re.finditer(r"\b[A-ZÉ]\w+", text)]


def test_what_a_recogniser_finds_goes_with_what_rules_find() -> None:
    modifier = PiiModifier(anonymize_action="replace", recognizer=names)
    made = Modify(modifier).process(batch("né Émile Zola, Zola@example.org", None, "é")).to_arrow()
    assert made["text"].to_pylist() == ["né <PERSON> <PERSON>, <EMAIL_ADDRESS>", None, "é"]
    counts = CountPii(supported_entities=["PERSON"], recognizer=names).process(batch("né Émile Zola", "é")).to_arrow()
    assert counts["pii_person"].to_pylist() == [2, 0]


def test_only_the_labels_asked_for_are_taken_of_a_recogniser() -> None:
    modifier = PiiModifier(supported_entities=["EMAIL_ADDRESS"], anonymize_action="replace", recognizer=names)
    assert modifier.modify_document("Zola: zola@example.org") == "Zola: <EMAIL_ADDRESS>"


def raises(text: str) -> list[tuple[int, int, str]]:
    raise ValueError(f"cannot read {text}")


@pytest.mark.parametrize("recognizer", [raises, lambda text: [(0, 99, text)], lambda text: [(-1, 2, text)]])
def test_an_error_of_a_recogniser_does_not_tell_the_text(recognizer: Any) -> None:
    with pytest.raises(StageError, match="of 18 characters") as told:
        PiiModifier(recognizer=recognizer).modify_document(MAIL)
    assert MAIL not in str(told.value)
    assert told.value.__cause__ is None
    assert told.value.__suppress_context__ or told.value.__context__ is None


def test_names_are_found_by_a_spacy_pipeline(tmp_path: Any) -> None:
    spacy = importlib.import_module("spacy")
    pipeline = spacy.blank("en")
    pipeline.add_pipe("entity_ruler").add_patterns([{"label": "PERSON", "pattern": "Émile Zola"}])
    pipeline.to_disk(tmp_path / "pipeline")
    modifier = PiiModifier(anonymize_action="replace", recognizer=SpacyRecognizer(str(tmp_path / "pipeline")))
    stage = Modify(modifier)
    assert not stage.cheap_setup
    assert Modify(PiiModifier(recognizer=names)).cheap_setup
    stage.setup_on_node()
    stage.setup()
    copied = pickle.loads(pickle.dumps(stage))
    made = copied.process(batch("J'accuse, by Émile Zola (zola@example.org)")).to_arrow()
    assert made["text"].to_pylist() == ["J'accuse, by <PERSON> (<EMAIL_ADDRESS>)"]
    with pytest.raises(ResourceError, match="python -m spacy download nowhere"):
        SpacyRecognizer("nowhere").load_model()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PiiModifier(anonymize_action="hide"), "unknown anonymize_action 'hide'"),  # type: ignore[arg-type]
        (lambda: PiiModifier(anonymize_action="hash"), "needs a secret"),
        (lambda: PiiModifier(masking_char="**"), "one character"),
        (lambda: PiiModifier(chars_to_mask=-1), "not be negative"),
        (lambda: PiiModifier(supported_entities=["PERSON"]), "give a recognizer"),
        (lambda: PiiModifier(supported_entities="PERSON"), "must be a list"),
        (lambda: PiiModifier(supported_entities=["EMAIL_ADDRES"]), "did you mean 'EMAIL_ADDRESS'"),
        (lambda: PiiModifier(new_value={"EMAIL_ADDRES": "x"}), "did you mean 'EMAIL_ADDRESS'"),
        (lambda: PiiModifier(new_value={"US_SSN": ()}), "one text or several"),
        (lambda: PiiFilter(supported_entities=["US_SSN"]), "must be a tuple"),  # type: ignore[arg-type]
        (lambda: CountPii(supported_entities=["PERSON"]), "give a recognizer"),
    ],
)
def test_settings_that_do_not_fit_are_refused_at_once(make: Any, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        make()
