from __future__ import annotations

import io
import pickle
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

from dcurate import DataError, DocumentBatch, PipelineError, ResourceError, ScoreFilter
from dcurate.text import DocumentFilter, TokenCountFilter, TokenizerFertilityFilter

PROSE = ["the cat sat on the mat and the dog sat on the cat", "a mat for a cat is no mat for a dog", "où est le chat ?"]
texts = st.text(st.one_of(st.sampled_from("the cat\n \t\x00\ud800é中"), st.characters()), max_size=40)


def encodable(text: str) -> str:
    return re.sub("[\ud800-\udfff]", "?", text)


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SentencePiece model of a few pieces, trained on a little prose."""
    trained = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(PROSE), model_writer=trained, vocab_size=40, hard_vocab_limit=False, minloglevel=2
    )
    path = tmp_path_factory.mktemp("pieces") / "tiny.model"
    path.write_bytes(trained.getvalue())
    return path


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tokenizer of Hugging Face that adds a token at either end."""
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["[UNK]", "[CLS]", "[SEP]"], show_progress=False)
    tokenizer.train_from_iterator(PROSE, trainer)
    ends = [(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=ends)
    folder = tmp_path_factory.mktemp("words")
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    return folder


@settings(max_examples=100, deadline=None)
@given(text=texts)
def test_fertility_is_characters_a_piece(text: str, pieces: Path) -> None:
    processor = sentencepiece.SentencePieceProcessor(model_file=str(pieces))
    count = len(processor.encode_as_pieces(encodable(text)))
    score = TokenizerFertilityFilter(str(pieces)).score_document(text)
    assert score == (len(text) / count if count else -1)


def test_a_text_of_no_pieces_is_dropped(pieces: Path) -> None:
    rule = TokenizerFertilityFilter(str(pieces), min_char_to_token_ratio=0)
    assert [rule.score_document(text) for text in ("", "  ")] == [-1.0, -1.0]
    assert not rule.keep_document(-1.0)
    assert TokenizerFertilityFilter("x").keep_document(2.5)


@settings(max_examples=100, deadline=None)
@given(text=texts)
def test_tokens_are_counted_with_those_at_the_ends(text: str, words: Path) -> None:
    tokenizer = Tokenizer.from_file(str(words / "tokenizer.json"))
    count = len(tokenizer.encode(encodable(text)).ids)
    assert TokenCountFilter(tokenizer=str(words / "tokenizer.json")).score_document(text) == count >= 2
    assert TokenCountFilter(tokenizer).score_document(text) == count


def test_a_folder_of_transformers_counts_as_its_file_does(words: Path) -> None:
    rule = TokenCountFilter(tokenizer=str(words), transformers_init_kwargs={"use_fast": True})
    rule.model_check_or_download()
    rule.load_tokenizer()
    for text in (*PROSE, "", "\ud800"):
        expected = TokenCountFilter(tokenizer=str(words / "tokenizer.json")).score_document(text)
        assert rule.score_document(text) == expected
    assert TokenCountFilter(rule._loaded).score_document("") == 2


def test_a_text_is_kept_by_its_number_of_tokens_ends_included() -> None:
    rule = TokenCountFilter(Tokenizer(models.BPE()), min_tokens=2, max_tokens=3)
    assert [rule.keep_document(count) for count in (1, 2, 3, 4)] == [False, True, True, False]
    assert TokenCountFilter(Tokenizer(models.BPE())).keep_document(10**9)


def test_tokens_are_counted_in_a_pipeline(words: Path, pieces: Path) -> None:
    stage = ScoreFilter(
        [
            TokenCountFilter(tokenizer=str(words / "tokenizer.json"), min_tokens=3),
            TokenizerFertilityFilter(str(pieces), 1),
        ],
        score_field=["tokens", "fertility"],
    )
    stage.setup_on_node()
    stage.setup()
    assert not stage.cheap_setup
    kept = stage.process(DocumentBatch(data=pa.table({"text": ["the cat sat", "", None]})))
    assert kept.to_arrow().num_rows == 1
    assert [(rejection.reason, rejection.rows) for rejection in kept.rejections] == [("token_count", 2)]


@pytest.mark.parametrize(
    "make",
    [
        lambda words, pieces: TokenCountFilter(tokenizer=str(words / "tokenizer.json")),
        lambda words, pieces: TokenizerFertilityFilter(str(pieces)),
    ],
)
def test_what_is_loaded_does_not_travel(
    make: Callable[[Path, Path], DocumentFilter], words: Path, pieces: Path
) -> None:
    rule = make(words, pieces)
    fresh = pickle.dumps(rule)
    score = rule.score_document("the cat")
    assert pickle.dumps(rule) == fresh
    copy = pickle.loads(fresh)
    assert (copy, copy.score_document("the cat")) == (rule, score)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (TokenizerFertilityFilter, "tokenizer must name a SentencePiece model"),
        (TokenCountFilter, "tokenizer must name a model or a file"),
        (
            lambda: TokenCountFilter(tokenizer="a", transformers_init_kwargs={"local_files_only": True}),
            "local_files_only is set by dcurate",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        make()


def test_a_tokenizer_that_is_not_there_or_is_none_is_an_error_that_names_it(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    with pytest.raises(DataError, match=f"{broken}' is not a SentencePiece model"):
        TokenizerFertilityFilter(str(broken)).load_tokenizer()
    with pytest.raises(DataError, match=f"{broken}' is not a Hugging Face tokenizer file"):
        TokenCountFilter(tokenizer=str(broken)).load_tokenizer()
    for missing in ("no.model", "no.json", "tokenizer.jsn", "no.tiktoken"):
        rule = TokenCountFilter(tokenizer=str(tmp_path / missing))
        for load in (rule.load_tokenizer, rule.model_check_or_download):
            with pytest.raises(DataError, match=f"file or folder '{tmp_path / missing}' does not exist"):
                load()
        with pytest.raises(DataError, match=f"file or folder '{tmp_path / missing}' does not exist"):
            TokenizerFertilityFilter(str(tmp_path / missing)).load_tokenizer()


def test_a_folder_without_a_tokenizer_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"no tokenizer '{tmp_path}' on this host"):
        TokenCountFilter(tokenizer=str(tmp_path)).load_tokenizer()


@pytest.mark.parametrize(
    ("package", "rule", "extra"),
    [
        ("sentencepiece", TokenizerFertilityFilter("a.model"), "tokens"),
        ("tokenizers", TokenCountFilter(tokenizer="a.json"), "tokens"),
        ("transformers", TokenCountFilter(tokenizer="a"), "models"),
    ],
)
def test_a_package_that_is_not_installed_is_named_with_its_extra(
    package: str, rule: DocumentFilter, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.model", "a.json"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ResourceError, match=rf"pip install 'dcurate\[{extra}\]'"):
        rule.load_tokenizer()


def test_a_secret_is_not_printed() -> None:
    assert "hf_secret" not in repr(TokenCountFilter(tokenizer="a", hf_token="hf_secret"))
