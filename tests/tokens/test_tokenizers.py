"""Tokenizers of files: what each library itself gives is what we get."""

from __future__ import annotations

import base64
import inspect
import io
import json
import random
import sys
import types
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import tiktoken
from tiktoken_ext import openai_public as public
from tokenizers import Tokenizer, models

from dcurate import DataError, PipelineError, ResourceError, TokenWriter
from dcurate.hub.tokenizer_files import _ENCODINGS
from dcurate.text import TokenCountFilter
from dcurate.tokens import tokenizer as tokenizers
from dcurate.tokens.tokenizer import SpecialIds, TokenizerSource
from dcurate_testing.token_files import read_tokens
from tests.tokens.conftest import texts
from tests.tokens.test_writer import expected, rows_of, run, write

SOME = ["the café", "", "naïve of  and", "x\ty\n\nz"]


def of(path: Path | str, **settings: Any) -> Any:
    return TokenizerSource(str(path), settings).load()


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SentencePiece model."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts(200)), model_writer=model, vocab_size=40, pad_id=3, minloglevel=2
    )
    path = tmp_path_factory.mktemp("pieces") / "tokenizer.model"
    path.write_bytes(model.getvalue())
    return path


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ranks of tiktoken: all bytes, and a few pairs."""
    tokens = [bytes([byte]) for byte in range(256)] + [b"th", b"the", b" a", b"of"]
    path = tmp_path_factory.mktemp("ranks") / "r50k_base.tiktoken"
    path.write_bytes(b"".join(base64.b64encode(one) + b" %d\n" % rank for rank, one in enumerate(tokens)))
    return path


def test_a_tokenizer_json_gives_its_ids_without_special_tokens(tokenizer: str) -> None:
    own = Tokenizer.from_file(tokenizer)
    loaded = of(tokenizer)
    assert [ids.tolist() for ids in loaded.encode(SOME)] == [own.encode(text).ids for text in SOME]
    assert loaded.decode(loaded.encode(SOME[:1])[0]) == SOME[0]
    assert loaded.largest == own.get_vocab_size() - 1
    assert loaded.special("eos") == own.token_to_id("<|endoftext|>")
    assert loaded.special("bos") is None


def test_truncation_and_padding_of_a_tokenizer_json_are_left_out(tokenizer: str, tmp_path: Path) -> None:
    own = Tokenizer.from_file(tokenizer)
    own.enable_truncation(3)
    own.enable_padding(length=50)
    own.save(str(tmp_path / "cut.json"))
    assert [len(ids) for ids in of(tmp_path / "cut.json").encode(SOME)] == [
        len(ids) for ids in of(tokenizer).encode(SOME)
    ]


def test_special_tokens_are_those_that_the_files_beside_name(tokenizer: str, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(Path(tokenizer).read_bytes())
    config = {"eos_token": {"content": "Ġthe"}, "bos_token": "<|endoftext|>", "pad_token": None}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    for given in (tmp_path, tmp_path / "tokenizer.json"):
        source = TokenizerSource(str(given))
        loaded = source.load()
        wanted = Tokenizer.from_file(tokenizer).token_to_id
        special = SpecialIds.of(loaded, source, True, True)
        assert (special.bos, special.eos, special.pad) == (wanted("<|endoftext|>"), wanted("Ġthe"), wanted("Ġthe"))


def test_a_sentencepiece_model_gives_its_ids(pieces: Path) -> None:
    own = sentencepiece.SentencePieceProcessor(model_file=str(pieces))
    loaded = of(pieces)
    assert [ids.tolist() for ids in loaded.encode(SOME)] == [own.encode(text) for text in SOME]
    assert (loaded.largest, loaded.special("eos"), loaded.special("pad")) == (39, own.eos_id(), 3)
    assert loaded.id_of("</s>") == own.eos_id()
    assert loaded.id_of("no such piece") is None
    assert loaded.encode_places("the") is None


def test_ranks_of_tiktoken_give_its_ids(ranks: Path, tmp_path: Path) -> None:
    loaded = of(ranks)
    tokens = {base64.b64decode(line.split()[0]): rank for rank, line in enumerate(ranks.read_bytes().splitlines())}
    own = tiktoken.Encoding("own", pat_str=r"\S+|\s+", mergeable_ranks=tokens, special_tokens={"<|e|>": 300})
    as_llama = tmp_path / "tokenizer.model"
    as_llama.write_bytes(ranks.read_bytes())
    plain = of(as_llama, pattern=r"\S+|\s+", special_tokens={"<|e|>": 300})
    assert [ids.tolist() for ids in plain.encode(SOME)] == [own.encode_ordinary(text) for text in SOME]
    assert (plain.largest, plain.id_of("<|e|>"), plain.special("eos")) == (300, 300, None)
    assert loaded.special("eos") == 50256
    for text in SOME:
        assert loaded.decode(loaded.encode([text])[0]) == text
    assert loaded.encode(["the of"])[0].tolist() == [257, 32, 259]
    with pytest.raises(PipelineError, match="do not say how texts are cut; give tokenizer_kwargs="):
        of(as_llama)
    broken = tmp_path / "r50k_base.tiktoken"
    broken.write_text("no ranks")
    with pytest.raises(DataError, match="does not hold ranks"):
        of(broken)


def test_the_patterns_of_tiktoken_are_its_own() -> None:
    said = inspect.getsource(public)
    assert public.r50k_pat_str == _ENCODINGS["r50k_base"][0]
    assert f'"pat_str": r"""{_ENCODINGS["cl100k_base"][0]}"""' in said
    for part in _ENCODINGS["o200k_base"][0].split("|[^\\r\\n\\p{L}")[0].split("|\\p{N}{1,3}"):
        assert part in said


def test_a_folder_of_transformers_is_loaded_by_its_tokenizer_json(tokenizer: str, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(Path(tokenizer).read_bytes())
    assert [ids.tolist() for ids in of(tmp_path).encode(SOME)] == [ids.tolist() for ids in of(tokenizer).encode(SOME)]
    digests = {TokenizerSource(str(path)).digest() for path in (tmp_path, tmp_path / "tokenizer.json", tokenizer)}
    assert len(digests) == 1
    assert TokenizerSource(str(tokenizer), {"a": 1}).digest() not in digests


def test_the_filter_of_token_counts_takes_the_same_files(tokenizer: str, pieces: Path, ranks: Path) -> None:
    for path in (tokenizer, pieces, ranks):
        counted = TokenCountFilter(tokenizer=str(path))
        assert counted.score_document("the café of") == len(of(path).encode(["the café of"])[0])


def test_gigatoken_gives_the_ids_of_tokenizers(
    tokenizer: str, pieces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = TokenizerSource(tokenizer, fast=True)
    if find_spec("gigatoken") is None:
        with pytest.raises(
            ResourceError, match="with fast=True: No module named 'gigatoken'; this needs the 'fast-tok"
        ):
            fast.load()
        return
    with pytest.raises(PipelineError, match="fast=True needs a tokenizer.json, and .* is of sentencepiece; leave it"):
        TokenizerSource(str(pieces), fast=True).load()
    words = Tokenizer(models.WordLevel({"one": 0}, unk_token="one"))
    words.save(str(tmp_path / "words.json"))
    with pytest.raises(
        PipelineError, match="gigatoken cannot load the tokenizer .*words.json' .*; leave out fast=True"
    ):
        TokenizerSource(str(tmp_path / "words.json"), fast=True).load()
    monkeypatch.setattr(tokenizers, "_KEPT_CHARACTERS", 2000)
    draw = random.Random(3)
    signs = [*"ab C09.'\n\t", "é", "中", "ก", "\u200d", "😀", "\x00", "<|endoftext|>", "'ll", "\r\n", "\u3000"]
    some = [*SOME, *texts(30), *("".join(draw.choices(signs, k=draw.randrange(80))) for _ in range(300))]
    assert [ids.tolist() for ids in fast.load().encode(some)] == [ids.tolist() for ids in of(tokenizer).encode(some)]
    assert fast.digest() == TokenizerSource(tokenizer).digest()


def test_other_ids_than_those_of_tokenizers_are_refused(
    tokenizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Wrong:
        """Gives other ids for one word."""

        def __init__(self, own: Tokenizer) -> None:
            self.own = own

        def encode(self, text: str) -> Any:
            return np.array(self.own.encode(text, add_special_tokens=False).ids[int("shore" in text) :], np.uint32)

    monkeypatch.setitem(sys.modules, "gigatoken", types.SimpleNamespace(Tokenizer=Wrong))
    source = write(tmp_path / "in", rows_of(["the end", "a shore of sand"]), 1)
    monkeypatch.setattr(tokenizers, "_COMPARED", 2)
    run(source, TokenWriter(str(tmp_path / "out"), tokenizer, fast=True))
    assert read_tokens(tmp_path / "out", "megatron")[0] == expected(tokenizer, ["the end"])[0]
    monkeypatch.setattr(tokenizers, "_COMPARED", 1)
    with pytest.raises(
        PipelineError, match="gives other ids than tokenizers with .* begins 'a shore of sand'; leave o"
    ):
        run(source, TokenWriter(str(tmp_path / "other"), tokenizer, fast=True))
    assert not list((tmp_path / "other").glob("tokens*"))
