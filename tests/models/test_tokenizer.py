from __future__ import annotations

import pickle
import re
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from dcurate import DataError, DocumentBatch, PipelineError
from dcurate.hub.shared import SHARED
from dcurate.models import Tokenize
from dcurate.models.safe_prefix import SafePrefix, separators
from dcurate.models.tokenizer import Encoder
from tests.models import tiny

WORDS = [
    *" ".join(tiny.PROSE).split(),
    "狐狸",
    "\n",
    "  ",
    "\t",
    "e\u0301",
    "ﬁ",
    "[MASK]",
    "<s>",
    "a\u00a0b",
    "\u200b",
    "1,024",
    "x" * 120,
]
texts = st.lists(st.sampled_from(WORDS) | st.text(max_size=6), max_size=60).map(" ".join)
texts |= st.lists(st.sampled_from([*WORDS, " ", ",", "。"]), max_size=60).map("".join)


def encodable(text: str) -> str:
    return re.sub("[\ud800-\udfff]", "?", text)


def ready(folder: Path, **settings: object) -> Tokenize:
    stage = Tokenize(str(folder), **settings)  # type: ignore[arg-type]
    stage.setup()
    return stage


def tokenised(stage: Tokenize, *given: str | None) -> list[list[int]]:
    batch = DocumentBatch(data=pa.table({"text": pa.array(given, pa.string())}))
    return stage.process(batch).to_arrow()["input_ids"].to_pylist()


@pytest.fixture(scope="module")
def encoders_of() -> dict[tuple[str, int], tuple[Encoder, PreTrainedTokenizerFast]]:
    """Encoders that cut short beginnings, and tokenizers that see the whole text, by kind and longest text."""
    made = {}
    for name in tiny.ARCHITECTURES:
        for longest in (4, 16):
            tokenizer = tiny.tiny_tokenizer(name)
            made[name, longest] = Encoder.of(tokenizer, longest), tiny.tiny_tokenizer(name)
    return made


@pytest.mark.parametrize("architecture", tiny.ARCHITECTURES)
def test_tokens_are_those_of_transformers(architecture: str, classifiers: dict[str, Path]) -> None:
    given = ["The quick fox", "", "Größe 狐狸 " * 90, "a\nb"]
    stage = ready(classifiers[architecture])
    expected = AutoTokenizer.from_pretrained(classifiers[architecture])(given, truncation=True)["input_ids"]
    assert tokenised(stage, *given) == expected
    assert max(map(len, expected)) == tiny.LONGEST
    stage.teardown()


@settings(max_examples=150, deadline=None)
@given(given=st.lists(texts.map(encodable), min_size=1, max_size=4), longest=st.sampled_from([4, 16]))
@pytest.mark.parametrize("architecture", tiny.ARCHITECTURES)
def test_the_beginning_of_a_text_gives_the_tokens_of_the_whole(
    architecture: str,
    encoders_of: dict[tuple[str, int], tuple[Encoder, PreTrainedTokenizerFast]],
    given: list[str],
    longest: int,
) -> None:
    encoder, whole = encoders_of[architecture, longest]
    found, truncated = encoder.encode(given)
    assert [ids.tolist() for ids in found] == whole(given, truncation=True, max_length=longest)["input_ids"]
    assert truncated == sum(len(ids) > longest for ids in whole(given)["input_ids"])


@settings(max_examples=100, deadline=None)
@given(given=texts.map(encodable), characters=st.integers(0, 60))
@pytest.mark.parametrize("architecture", tiny.ARCHITECTURES)
def test_wherever_a_text_is_cut_the_tokens_before_are_those_of_the_whole(
    architecture: str, given: str, characters: int
) -> None:
    tokenizer = _WHOLE[architecture]
    beginning = SafePrefix(separators(tokenizer.backend_tokenizer)).cut(given, characters)
    short = tokenizer(beginning, add_special_tokens=False)["input_ids"]
    assert tokenizer(given, add_special_tokens=False)["input_ids"][: len(short)] == short


_WHOLE = {name: tiny.tiny_tokenizer(name) for name in tiny.ARCHITECTURES}


def test_every_tokenizer_can_be_cut_at_spaces() -> None:
    found = {name: separators(tokenizer.backend_tokenizer) for name, tokenizer in _WHOLE.items()}
    assert found["bert"] == " \n\t,;。，、"
    assert all(" " in some for some in found.values())
    assert "\n" not in found["llama"] + found["deberta-v2"]


def test_a_tokenizer_with_a_token_across_words_is_never_cut() -> None:
    words = {"<unk>": 0, "a": 1, "b": 2, " ": 3, "a ": 4, "a b": 5}
    across = Tokenizer(models.BPE(words, [("a", " "), ("a ", "b")], unk_token="<unk>"))
    assert separators(across) == ""
    apart = Tokenizer(models.BPE({"<unk>": 0, "a": 1, "b": 2, " ": 3}, [], unk_token="<unk>"))
    assert separators(apart) == " "


def test_a_tokenizer_that_adds_a_token_with_a_space_in_it_is_not_cut_at_spaces() -> None:
    tokenizer = Tokenizer(models.WordLevel({"<unk>": 0}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    assert " " in separators(tokenizer)
    tokenizer.add_tokens(["New York"])
    assert " " not in separators(tokenizer)


@pytest.mark.parametrize("architecture", tiny.ARCHITECTURES)
def test_of_a_text_of_fifty_megabytes_only_the_beginning_is_tokenised(
    architecture: str, classifiers: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = ready(classifiers[architecture])
    given = "the quick brown fox " * 2_500_000
    seen: list[int] = []
    each = Encoder._each
    monkeypatch.setattr(Encoder, "_each", lambda self, texts: seen.extend(map(len, texts)) or each(self, texts))
    assert tokenised(stage, given) == tokenised(stage, given[:5000])
    assert max(seen) < 10_000
    assert stage.take_metrics()["truncated_documents"] == 2
    stage.teardown()


def test_texts_that_need_more_than_usual_are_read_on(classifiers: dict[str, Path]) -> None:
    given = [" " * 5000 + "fox", "the quick " * 300, ("x" * 150 + " ") * 200]
    stage = ready(classifiers["bert"])
    expected = AutoTokenizer.from_pretrained(classifiers["bert"])(given, truncation=True)["input_ids"]
    assert tokenised(stage, *given) == expected
    stage.teardown()


def test_a_null_text_counts_as_empty_and_an_empty_one_has_the_special_tokens(classifiers: dict[str, Path]) -> None:
    stage = ready(classifiers["bert"])
    assert tokenised(stage, None, "", "fox") == [[2, 3], [2, 3], tokenised(stage, "fox")[0]]
    stage.teardown()


def test_no_rows_make_no_tokens_of_the_same_type(classifiers: dict[str, Path]) -> None:
    stage = ready(classifiers["bert"])
    found = stage.process(DocumentBatch(data=pa.table({"text": pa.array([], pa.string())}))).to_arrow()
    assert found.num_rows == 0
    assert found.schema.field("input_ids").type == pa.list_(pa.int32())
    stage.teardown()


def test_the_text_stays_as_it_is_and_max_chars_limits_what_is_tokenised(classifiers: dict[str, Path]) -> None:
    stage = ready(classifiers["bert"], max_chars=3)
    found = stage.process(DocumentBatch(data=pa.table({"text": ["the quick fox"], "id": [7]}))).to_arrow()
    assert found.select(["text", "id"]).to_pylist() == [{"text": "the quick fox", "id": 7}]
    assert found["input_ids"].to_pylist() == tokenised(stage, "the")
    stage.teardown()


def test_max_seq_length_counts_special_tokens_and_truncation_is_counted(classifiers: dict[str, Path]) -> None:
    stage = ready(classifiers["bert"], max_seq_length=4)
    whole = _WHOLE["bert"]("the quick brown fox")["input_ids"]
    assert tokenised(stage, "the quick brown fox", "the fox") == [
        [*whole[:3], 3],
        _WHOLE["bert"]("the fox")["input_ids"],
    ]
    figures = stage.take_metrics()
    assert (figures["documents"], figures["tokens"], figures["truncated_documents"]) == (2, 8, 1)
    stage.teardown()


def test_a_tokenizer_without_a_longest_text_takes_the_models(tmp_path: Path) -> None:
    for name in ("bert", "xlm-roberta"):
        tiny.tiny_encoder(tmp_path / name, name)
        tokenizer = tiny.tiny_tokenizer(name)
        tokenizer.model_max_length = int(1e30)
        tokenizer.save_pretrained(tmp_path / name)
        stage = ready(tmp_path / name)
        assert [len(ids) for ids in tokenised(stage, "fox " * 500)] == [tiny.LONGEST]
        stage.teardown()
    (tmp_path / "bert" / "config.json").write_text("{}")
    stage = ready(tmp_path / "bert", transformers_init_kwargs={"tokenizer_type": "bert"})
    assert [len(ids) for ids in tokenised(stage, "fox " * 500)] == [502]
    stage.teardown()


def test_tokens_kept_from_the_end_of_a_text_are_those_of_transformers(classifiers: dict[str, Path]) -> None:
    stage = ready(classifiers["bert"], max_seq_length=5, transformers_init_kwargs={"truncation_side": "left"})
    given = "the quick brown fox " * 40 + "dog"
    whole = _WHOLE["bert"](given)["input_ids"]
    assert tokenised(stage, given) == [[2, *whole[-4:]]]
    stage.teardown()


def test_slots_of_a_process_share_one_tokenizer(classifiers: dict[str, Path]) -> None:
    first, second = ready(classifiers["bert"]), ready(classifiers["bert"])
    assert first._loaded is second._loaded
    found: list[list[list[int]]] = []
    slots = [
        threading.Thread(target=lambda stage=stage: found.append(tokenised(stage, *PROSE))) for stage in (first, second)
    ]
    for slot in slots:
        slot.start()
    for slot in slots:
        slot.join()
    assert found[0] == found[1] == _WHOLE["bert"](PROSE)["input_ids"]
    key = first._key
    first.teardown()
    assert SHARED.holders(key) == 1
    second.teardown()
    assert SHARED.holders(key) == 0


def test_a_slot_tokenises_in_its_own_thread_whatever_cores_there_are(classifiers: dict[str, Path]) -> None:
    stage = ready(classifiers["bert"])
    shares = []
    for _ in range(5):  # other threads of this process, of a Dask scheduler say, may be busy at one time or another
        process, thread = time.process_time(), time.thread_time()
        tokenised(stage, *PROSE)
        shares.append((time.thread_time() - thread) / (time.process_time() - process))
    assert max(shares) > 0.7
    stage.teardown()


PROSE = tiny.PROSE * 400


def test_a_tokenizer_written_in_python_gives_the_same_tokens(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(_PYTHON)
    (tmp_path / "tokenizer_config.json").write_text(
        '{"tokenizer_class": "OwnTokenizer", "auto_map": {"AutoTokenizer": ["own.OwnTokenizer", null]}}'
    )
    with pytest.raises(DataError, match="comes with code of its own"):
        Tokenize(str(tmp_path)).setup()
    stage = ready(tmp_path, trust_remote_code=True, max_seq_length=3)
    assert tokenised(stage, "abc", "", "abcdef") == [[1, 2, 3], [], [1, 2, 3]]
    assert stage.take_metrics()["truncated_documents"] == 1
    stage.teardown()


_PYTHON = """
from transformers import PreTrainedTokenizer
class OwnTokenizer(PreTrainedTokenizer):
    def __init__(self, **settings):
        super().__init__(**settings)
    @property
    def vocab_size(self):
        return 27
    def get_vocab(self):
        return {chr(96 + number): number for number in range(1, 27)}
    def _tokenize(self, text):
        return list(text)
    def _convert_token_to_id(self, token):
        return ord(token) - 96
    def _convert_id_to_token(self, index):
        return chr(96 + index)
"""


def test_settings_are_what_decides_the_tokens_and_the_token_shows_nowhere(classifiers: dict[str, Path]) -> None:
    stage = Tokenize("org/tiny", cache_dir="/there", hf_token="hf_secret", max_chars=9, revision="v1")
    said = stage.settings()
    assert {"model", "revision", "max_chars", "max_seq_length", "text_field"} <= set(said)
    assert "hf_secret" not in repr(stage) + repr(said)
    assert said == Tokenize("org/tiny", max_chars=9, revision="v1").settings()
    loaded = ready(classifiers["bert"])
    assert loaded.settings() == Tokenize(str(classifiers["bert"])).settings()
    assert len(pickle.dumps(loaded)) < 2000
    loaded.teardown()


def test_the_name_is_after_the_model_unless_given() -> None:
    assert Tokenize("org/Some-Model").name == "some_model_tokenizer"
    assert Tokenize("org/Some-Model", name="words").with_(batch_size=2).name == "words"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_chars": 0}, "max_chars=0 must be a whole number, at least 1"),
        ({"max_seq_length": 1.5}, "max_seq_length=1.5 must be"),
        ({"padding_side": "middle"}, "padding_side='middle' must be 'left' or 'right'"),
        ({"transformers_init_kwargs": {"cache_dir": "/"}}, "give cache_dir= to the stage"),
        ({"transformers_init_kwargs": {"token": "x"}}, "give hf_token= to the stage"),
        ({"transformers_init_kwargs": {"local_files_only": True}}, "leave out local_files_only"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        Tokenize("org/tiny", **settings)  # type: ignore[arg-type]


def test_tokens_that_are_there_are_not_replaced_unless_that_is_said(classifiers: dict[str, Path]) -> None:
    batch = DocumentBatch(data=pa.table({"text": ["fox"], "input_ids": pa.array([[1, 2]], pa.list_(pa.int32()))}))
    stage = ready(classifiers["bert"])
    with pytest.raises(PipelineError, match=r"'bert_tokenizer': column 'input_ids' already exists; to use these"):
        stage.process(batch)
    other = ready(classifiers["bert"], overwrite=True)
    assert other.process(batch).to_arrow()["input_ids"].to_pylist() == tokenised(stage, "fox")
    stage.teardown()
    other.teardown()


def test_a_column_that_is_no_text_and_a_stage_that_is_not_set_up_are_refused(classifiers: dict[str, Path]) -> None:
    with pytest.raises(PipelineError, match="is not set up"):
        tokenised(Tokenize(str(classifiers["bert"])), "fox")
    stage = ready(classifiers["bert"])
    with pytest.raises(DataError, match="column 'text' holds int64, not text"):
        stage.process(DocumentBatch(data=pa.table({"text": [1]})))
    stage.teardown()
