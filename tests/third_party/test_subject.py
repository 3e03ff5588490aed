"""`SubjectTests` finds what a package of someone else does wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pytest

from dcurate import DocumentBatch, ProcessingStage
from dcurate.testing import SubjectTests
from dcurate.text import DocumentFilter

ROWS = pd.DataFrame({"text": ["A", "B", "C"]})


@dataclass
class Rows(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Works on a frame.

    Examples:
        >>> 1 + 1
        2
    """

    name: str = "rows"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task.with_data(self.changed(task.to_pandas()))

    def changed(self, frame: pd.DataFrame) -> pd.DataFrame:
        return frame


@dataclass
class Rounding(Rows):
    def changed(self, frame: pd.DataFrame) -> pd.DataFrame:
        numbers = frame.select_dtypes("number").columns
        return frame.assign(**{name: frame[name].astype(float) for name in numbers})


@dataclass
class Reversing(Rows):
    def changed(self, frame: pd.DataFrame) -> pd.DataFrame:
        return frame[::-1]


@dataclass
class Deaf(Rows):
    loud: bool = False


@dataclass
class Silent(Rows):
    __doc__ = None


WRONG = type("Wrong", (Rows,), {"__doc__": "Has a wrong example.\n\n>>> 1 + 1\n3\n"})


class Forgotten(DocumentFilter):
    """Keeps all texts.

    Examples:
        >>> Forgotten().keep_document(1)
        True
    """

    def score_document(self, text: str) -> float:
        return 1.0

    def keep_document(self, score: float) -> bool:
        return True


def checked(*parts: Any, public: Sequence[Any] = (), others: Mapping[str, Mapping[str, Any]] | None = None) -> Any:
    class Checked(SubjectTests):
        module = "no_such_package"

        def parts(self) -> Sequence[Any]:
            return parts

        def rows(self) -> DocumentBatch:
            return DocumentBatch(data=ROWS)

        def other_settings(self) -> Mapping[str, Mapping[str, Any]]:
            return others or {}

        def _public(self) -> dict[str, Any]:
            return {kind.__name__: kind for kind in public or map(type, parts)}

    return Checked()


FLAWS: dict[str, tuple[Callable[[], Any], str, str]] = {
    "not announced": (lambda: checked(Rows()), "test_the_module_is_announced", "no installed package announces"),
    "no docstring": (
        lambda: checked(Silent()),
        "test_all_that_is_public_has_an_example_and_is_tried",
        "Silent has no",
    ),
    "wrong example": (lambda: checked(WRONG()), "test_examples_run", "1 examples of Wrong fail"),
    "not tried": (
        lambda: checked(Rows(), public=[Rows, Forgotten]),
        "test_all_that_is_public_has_an_example_and_is_tried",
        r"parts\(\) has no Forgotten",
    ),
    "other types": (
        lambda: checked(Rounding()),
        "test_columns_that_are_not_named_stay_as_they_came",
        "makes column '_beside_number' double, which was int64",
    ),
    "other order": (
        lambda: checked(Reversing()),
        "test_columns_that_are_not_named_stay_as_they_came",
        "changes the order of rows",
    ),
    "setting not tried": (lambda: checked(Deaf()), "test_every_setting_has_an_effect", r"no value for \['loud'\]"),
    "setting without effect": (
        lambda: checked(Deaf(), others={"Deaf": {"loud": True}}),
        "test_every_setting_has_an_effect",
        "makes the same rows; remove it",
    ),
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_flaw_is_found(flaw: str) -> None:
    make, law, sentence = FLAWS[flaw]
    with pytest.raises(AssertionError, match=sentence):
        getattr(make(), law)()


@pytest.mark.parametrize("law", [name for name in vars(SubjectTests) if name.startswith("test_")])
def test_a_good_stage_breaks_no_law_but_that_it_is_not_announced(law: str) -> None:
    if law not in ("test_the_module_is_announced", "test_every_stage_gives_the_same_rows_in_worker_processes"):
        getattr(checked(Rows()), law)()
