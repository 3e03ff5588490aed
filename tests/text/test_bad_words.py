from __future__ import annotations

import pickle
import re

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import DataError, DocumentBatch, PipelineError, ScoreFilter
from dcurate.text import C4BadWordsFilter
from dcurate.text.filters.bad_words import ALLOWED

#: Pieces of words and of texts: some meet as words of several pieces, some only in part.
PIECES = st.lists(
    st.sampled_from(
        ["bad", "Bad", "word", "s&m", "a", "_", "-", " ", "\n", "\u00a0", "é", "İ", "Σ", "🖕", "性", "女の子", "1"]
    ),
    max_size=12,
).map("".join)
LISTS = st.lists(PIECES.map(str.lower).map(str.strip).filter(bool), min_size=1, max_size=5)


def reference(words: list[str], lang: str, text: str) -> bool:
    """Whether C4's code finds a bad word, as it is written there."""
    either = "|".join(map(re.escape, sorted(set(words))))
    pattern = either if lang in ("ja", "th", "zh") else rf"(?:\W|^)({either})(?:\W|$)"
    return re.search(pattern, text.lower()) is not None


@settings(max_examples=150, deadline=None)
@given(LISTS, st.sampled_from(["en", "ja"]), st.lists(PIECES, min_size=1, max_size=4))
def test_texts_with_bad_words_are_those_that_the_code_of_c4_finds(words, lang, texts):
    rule = C4BadWordsFilter(words, lang, allowed=())
    batch = DocumentBatch(data=pa.table({"text": texts}))
    left = ScoreFilter(rule).process(batch).to_arrow()["text"].to_pylist()
    assert left == [text for text in texts if not reference(words, lang, text)]


def test_a_list_is_read_from_a_file_with_blank_lines_and_without_what_is_allowed(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("\ufeffdarn\n\n what the heck \nsm\n", "utf-8")
    rule = pickle.loads(pickle.dumps(C4BadWordsFilter(str(path))))
    rule.load_model()
    texts = ["Darn it", "what  the heck", "What the\nheck", "what the heck", "sm", "darning", ""]
    assert [rule.keep_document(rule.score_document(text)) for text in texts] == [False, True, True, False] + [True] * 3
    assert "sm" in ALLOWED


def test_a_part_of_the_texts_with_bad_words_stays_and_another_with_another_seed():
    texts = [f"darn {number}" for number in range(2000)]
    kept = []
    for seed in (0, 0, 1):
        rule = C4BadWordsFilter(["darn"], keep_fraction=0.25, seed=seed)
        batch = ScoreFilter(rule).process(DocumentBatch(data=pa.table({"text": texts})))
        kept.append(batch.to_arrow()["text"].to_pylist())
    assert kept[0] == kept[1] != kept[2]
    assert 400 < len(kept[0]) < 600


def test_no_list_and_a_file_that_is_not_there_are_refused_with_the_fix(tmp_path):
    with pytest.raises(PipelineError, match="no words; give a list of them, or the path of a file"):
        C4BadWordsFilter([])
    with pytest.raises(DataError, match="nowhere.txt' cannot be read: .*; give a text file"):
        C4BadWordsFilter(str(tmp_path / "nowhere.txt")).load_model()
    with pytest.raises(PipelineError, match="no word in"):
        C4BadWordsFilter(["sm"]).load_model()
    with pytest.raises(PipelineError, match="keep_fraction=2 must be from 0 to 1"):
        C4BadWordsFilter(["darn"], keep_fraction=2)
