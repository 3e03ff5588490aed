from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from dcurate import BatchKey, DataError, DocumentBatch, Modify, PipelineError
from dcurate.text import (
    AddId,
    BoilerPlateStringModifier,
    DocumentModifier,
    FastTextLabelModifier,
    LineRemover,
    MarkdownRemover,
    NewlineNormalizer,
    PiiModifier,
    QuotationRemover,
    Slicer,
    UnicodeReformatter,
    UrlRemover,
)


def batch(*documents: str | None, **columns: list[Any]) -> DocumentBatch:
    return DocumentBatch(key=BatchKey("s"), data=pa.table({"text": list(documents), **columns}))


@pytest.mark.parametrize(
    ("modifier", "text", "expected"),
    [
        (NewlineNormalizer(), "a\n\nb\n\n\nc\r\n\r\n\r\n\r\nd", "a\n\nb\n\nc\r\n\r\nd"),
        (UrlRemover(), "go HTTPS://a.b/c?d or WWW.e.f, now", "go  or  now"),
        (MarkdownRemover(), "**b** *i* _u_ __u__ snake_case_x\n[t](http://u)", "b i u u snake_case_x\nhttp://u"),
        (QuotationRemover(), '"a\nb"', "a\nb"),
        (QuotationRemover(), '"a"\nb"', '"a"\nb"'),
        (QuotationRemover(), '""', '""'),
        (Slicer(2, 4), "abcdef", "cd"),
        (Slicer("b", "d", include_left=False), "abcdbde", "cdbd"),
        (Slicer("z"), "abc", ""),
        (Slicer(strip=False), " a ", " a "),
        (BoilerPlateStringModifier(), "Terms of Use\n\na\n\nb", "a\n\nb"),
        (BoilerPlateStringModifier(), "a\n\nwe use cookies\n\nour Privacy Policy", "a"),
        (BoilerPlateStringModifier(), "a\n\nwe use cookies\n\nb", "a\n\nwe use cookies\n\nb"),
        (BoilerPlateStringModifier(), "use cookies\n\na\n\nuse cookies", "use cookies\n\na\n\nuse cookies"),
        (BoilerPlateStringModifier(), "we use cookies", "we use cookies"),
        (BoilerPlateStringModifier(), "a\n\nLorem Ipsum dolor", ""),
        (BoilerPlateStringModifier(remove_if_at_top_or_bottom=False), "a\n\nuse cookies\n\nb", ""),
        (BoilerPlateStringModifier(), "", ""),
        (FastTextLabelModifier("__label__a"), "b\nc __label__d", "__label__a b c  d"),
        (LineRemover(["x", ""]), "x\na\n\nx y", "a\nx y"),
    ],
)
def test_a_modifier_changes_a_text(modifier: Any, text: str, expected: str) -> None:
    assert modifier.modify_document(text) == expected


def test_a_modifier_leaves_null_and_a_function_sees_it() -> None:
    assert Modify(UrlRemover()).process(batch(None, "www.a b")).to_arrow()["text"].to_pylist() == [None, " b"]
    assert Modify(lambda text: text or "none").process(batch(None)).to_arrow()["text"].to_pylist() == ["none"]


def test_several_columns_are_given_by_name_and_written_to_another() -> None:
    stage = Modify(lambda text, title: f"{title}: {text}", [["text", "title"]], "whole")
    assert stage.process(batch("b", title=["a"])).to_arrow().to_pydict() == {
        "text": ["b"],
        "title": ["a"],
        "whole": ["a: b"],
    }
    assert (stage.inputs()[1], stage.outputs()[1]) == (["text", "title"], ["whole"])


def test_modifiers_apply_in_turn_and_read_what_was_made() -> None:
    stage = Modify([str.strip, len], ["text", "short"], ["short", "size"])
    assert stage.process(batch(" a ")).to_arrow().to_pydict() == {"text": [" a "], "short": ["a"], "size": [1]}
    assert (stage.inputs()[1], stage.name) == (["text"], "modifier_chain_of_strip_len")


def test_a_text_column_keeps_its_type() -> None:
    table = pa.table({"text": pa.array(["a"], pa.large_string())})
    assert Modify(UrlRemover()).process(DocumentBatch(data=table)).to_arrow().schema == table.schema


@pytest.mark.parametrize("modifier", [NewlineNormalizer(), UrlRemover(), UnicodeReformatter(), PiiModifier()])
def test_a_built_in_modifier_refuses_a_column_that_holds_no_text(modifier: DocumentModifier) -> None:
    with pytest.raises(DataError, match="column 'n' holds int64, not text; name the column that holds the text"):
        Modify(modifier, "n").process(DocumentBatch(data=pa.table({"n": [1, None]})))
    nothing = Modify(modifier, "n").process(DocumentBatch(data=pa.table({"n": [None]})))
    assert nothing.to_arrow()["n"].to_pylist() == [None]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Modify([]), "empty list"),
        (lambda: Modify(UrlRemover), "make one of it"),
        (lambda: Modify(len, [["a", "b"]]), "output_fields to name one"),
        (lambda: Modify(len, ["a", "b"]), "2 entries for 1 modifiers"),
    ],
)
def test_settings_that_do_not_fit_are_refused_at_once(make: Any, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        make()


def test_ids_follow_from_the_key_and_the_row() -> None:
    ids = AddId("id").process(batch("a", "b")).to_arrow()["id"].to_pylist()
    assert ids == [f"{BatchKey('s').digest}_0", f"{BatchKey('s').digest}_1"]
    assert AddId("id", "p").process(batch("a")).to_arrow()["id"].to_pylist() == [f"p_{BatchKey('s').digest}_0"]


def test_an_id_column_is_replaced_only_when_asked() -> None:
    with pytest.raises(PipelineError, match="column .id. already exists"):
        AddId("id").process(batch("a", id=[1]))
    assert AddId("id", overwrite=True).process(batch("a", id=[1])).to_arrow().column_names == ["text", "id"]


def test_ids_need_a_key() -> None:
    with pytest.raises(DataError, match="has none"):
        AddId("id").process(DocumentBatch(data=pa.table({"text": ["a"]})))


def test_a_subclass_of_a_modifier_by_column_modifies_documents_in_its_own_way() -> None:
    class Kept(PiiModifier):
        def modify_document(self, text: str) -> str:
            return "<" + super().modify_document(text) + ">"

    found = Modify(Kept()).process(DocumentBatch(data=pa.table({"text": ["mail jo@example.org", None]})))
    assert found.to_arrow()["text"].to_pylist() == ["<mail >", None]
