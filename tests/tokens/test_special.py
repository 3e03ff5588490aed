"""Special tokens that are spelled in documents: text, tokens or a reason to drop, with every kind of tokenizer."""

from __future__ import annotations

import base64
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from dcurate import DataError, InlineExecutor, JsonlReader, Pipeline, PipelineError, TokenWriter
from dcurate.tokens import MegatronTokenizerWriter, Mixture, Source
from dcurate.tokens.check import verify
from dcurate.tokens.folder import TokenFolder
from dcurate.tokens.special import spelling_pattern
from dcurate.tokens.tokenizer import TokenizerSource
from dcurate_testing.token_files import read_tokens, train_bpe
from tests.tokens.conftest import texts
from tests.tokens.test_check import command
from tests.tokens.test_writer import rows_of, write

END, BEGIN = "</s>", "<s>"
LETTERS = ["▁", *"abs<>/|"]


def bpe(folder: Path) -> Path:
    """A BPE of bytes, whose EOS is marked as special."""
    return Path(train_bpe(folder / "tokenizer.json", texts(100), eos=END))


def merging_bpe(folder: Path) -> Path:
    """A BPE that can also merge the characters of its EOS."""
    pieces = [*"abs<>/|", "</", "s>", END]
    model = models.BPE({piece: number for number, piece in enumerate(pieces)}, [("<", "/"), ("s", ">"), ("</", "s>")])
    own = Tokenizer(model)
    own.add_special_tokens([AddedToken(END, special=True)])
    return saved(own, folder)


def unigram(folder: Path) -> Path:
    """A unigram model as that of T5, of whose pieces the EOS is the likeliest; and an added token after it."""
    pieces = [("<unk>", 0.0), (END, 0.0), (BEGIN, 0.0), *((letter, -4.0) for letter in LETTERS)]
    own = Tokenizer(models.Unigram(pieces, 0, False))
    own.pre_tokenizer, own.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    own.add_special_tokens([AddedToken(END, special=True), AddedToken(BEGIN, special=True)])
    own.add_tokens([AddedToken("bb", special=False)])
    return saved(own, folder)


def words(folder: Path) -> Path:
    """Words between spaces, with an EOS that is a word like others, named beside."""
    own = Tokenizer(models.WordLevel({"a": 0, "b": 1, END: 2, "?": 3}, unk_token="?"))
    own.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return named_beside(own, folder)


def unmarked(folder: Path) -> Path:
    """An EOS that is an added token and not marked as special, named beside."""
    own = Tokenizer.from_file(train_bpe(folder / "plain" / "tokenizer.json", texts(100), eos=None))
    own.add_tokens([AddedToken(END, special=False)])
    return named_beside(own, folder)


def saved(own: Tokenizer, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    own.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


def named_beside(own: Tokenizer, folder: Path) -> Path:
    path = saved(own, folder)
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": END}))
    return path


def of_transformers(folder: Path) -> Path:
    """A folder of transformers, that it loads itself."""
    PreTrainedTokenizerFast(tokenizer_file=str(bpe(folder / "bpe")), eos_token=END).save_pretrained(folder / "saved")
    return folder / "saved"


def pieces(folder: Path) -> Path:
    """A SentencePiece model with a user-defined symbol."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*texts(200), *["a <b> / s |"] * 50]),
        model_writer=model,
        vocab_size=48,
        user_defined_symbols=["<sep>"],
        minloglevel=2,
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.model").write_bytes(model.getvalue())
    return folder / "tokenizer.model"


def ranks(folder: Path) -> Path:
    """Ranks of tiktoken."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "r50k_base.tiktoken"
    path.write_bytes(b"".join(base64.b64encode(bytes([byte])) + b" %d\n" % byte for byte in range(256)))
    return path


MADE: dict[str, tuple[Callable[[Path], Path], dict[str, Any]]] = {
    "bpe": (bpe, {}),
    "merging": (merging_bpe, {}),
    "unigram": (unigram, {"add_bos": BEGIN}),
    "words": (words, {}),
    "unmarked": (unmarked, {}),
    "transformers": (of_transformers, {"transformers_init_kwargs": {"use_fast": True}}),
    "pieces": (pieces, {"add_bos": True}),
    "symbol": (pieces, {"add_eos": "<sep>"}),
    "ranks": (ranks, {"tokenizer_kwargs": {"special_tokens": {END: 300}}, "add_eos": END}),
    "gigatoken": (bpe, {"fast": True}),
}
KINDS = pytest.mark.parametrize("kind", list(MADE))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[str, dict[str, Any]]]:
    """The path of a tokenizer of a kind, and settings of its writer."""
    paths: dict[str, str] = {}

    def get(kind: str) -> tuple[str, dict[str, Any]]:
        make, settings = MADE[kind]
        if settings.get("fast"):
            pytest.importorskip("gigatoken")
        if kind not in paths:
            paths[kind] = str(make(tmp_path_factory.mktemp(kind)))
        return paths[kind], settings

    return get


def written(source: str, out: Path, tokenizer: str, **settings: Any) -> tuple[Any, list[list[int]], dict[str, Any]]:
    stages: list[Any] = [JsonlReader(source), TokenWriter(str(out), tokenizer, **settings)]
    result = Pipeline("tokens", stages=stages).run(InlineExecutor(), observers=[])
    return result, read_tokens(out, "megatron"), json.loads((out / "tokens.json").read_text())


def inside(document: list[int], about: dict[str, Any]) -> list[int]:
    """The tokens of a document between its BOS and EOS."""
    return document[int(about["bos"] is not None) : -1]


@KINDS
def test_special_tokens_in_a_text_are_text_by_default_or_tokens_or_refused(
    kind: str, made: Any, tmp_path: Path
) -> None:
    tokenizer, settings = made(kind)
    end = "<sep>" if kind == "symbol" else END
    documents = ["a b", f"a{end}b", f"{end} {end} b", "b a"]
    source = write(tmp_path / "in", rows_of(documents), 1)
    result, found, about = written(source, tmp_path / "text", tokenizer, **settings)
    special = {about["bos"], about["eos"]} - {None}
    assert len(found) == 4
    assert about["special_in_text"] == "text"
    assert all(not special & {*inside(document, about)} for document in found)
    assert any("special tokens are spelled in 2 documents: 3 stayed text" in said for said in result.report.notices)
    folder, own = TokenFolder(str(tmp_path / "text")), TokenizerSource(tokenizer, settings.get("tokenizer_kwargs", {}))
    if kind != "transformers":  # which is loaded in another way
        assert verify(folder, own, [source]).wrong == []

    result, tokens, about = written(source, tmp_path / "token", tokenizer, special_in_text="token", **settings)
    assert [inside(document, about).count(about["eos"]) for document in tokens] == [
        0,
        int(kind != "words"),  # there it is not a word of its own
        2,
        0,
    ]
    assert [tokens[0], tokens[3]] == [found[0], found[3]]
    assert any("3 became tokens" in said for said in result.report.notices)

    result, kept, about = written(source, tmp_path / "refuse", tokenizer, special_in_text="refuse", **settings)
    assert kept == [found[0], found[3]]
    dropped = {reason: count for stage in result.report.stages for reason, count in stage.dropped.items()}
    assert dropped == {"special_token": 2}


@given(document=st.lists(st.sampled_from([END, BEGIN, "<unk>", *"ab<>/s|", " ", "</", "s>"]), max_size=12).map("".join))
@pytest.mark.parametrize("kind", ["bpe", "merging", "unigram", "words", "unmarked", "pieces", "ranks"])
def test_no_text_gives_the_tokens_around_documents(kind: str, made: Any, document: str) -> None:
    tokenizer, settings = made(kind)
    encoder = TokenizerSource(
        tokenizer, settings.get("tokenizer_kwargs", {}), ends=(END, BEGIN) if kind == "unigram" else (END,)
    ).load()
    ends = {encoder.id_of(END), encoder.special("eos"), encoder.special("bos")} - {None}
    assert ends
    assert not ends & {*encoder.encode([document])[0].tolist()}


def test_other_texts_have_the_ids_of_the_library(made: Any) -> None:
    tokenizer, _ = made("unigram")
    own, ours = Tokenizer.from_file(tokenizer), TokenizerSource(tokenizer).load()
    for text in ("a bb b", "ss a", "<a>", "bb"):
        assert ours.encode([text])[0].tolist() == own.encode(text, add_special_tokens=False).ids
    assert own.token_to_id("bb") in own.encode("a bb").ids


@given(names=st.sets(st.text("ab<>", min_size=1, max_size=5), max_size=8), text=st.text("ab<>", max_size=30))
def test_the_longest_name_is_found_at_each_place(names: set[str], text: str) -> None:
    wanted, place = [], 0
    while place < len(text):
        here = [name for name in names if text.startswith(name, place)]
        wanted += [max(here, key=len)] if here else []
        place += len(max(here, key=len)) if here else 1
    assert spelling_pattern(names).findall(text) == wanted


def test_an_end_that_texts_give_is_refused(made: Any, tmp_path: Path) -> None:
    tokenizer, settings = made("ranks")
    source = write(tmp_path / "in", rows_of(["a"]), 1)
    with pytest.raises(PipelineError, match="is that of the text 'a', too; name a special token, add_eos="):
        written(source, tmp_path / "out", tokenizer, **{**settings, "add_eos": "a"})
    assert not (tmp_path / "out").exists()
    written(source, tmp_path / "out", tokenizer, **{**settings, "add_eos": "a"}, special_in_text="token")


def test_every_stage_and_command_that_tokenises_has_the_setting(made: Any, tmp_path: Path) -> None:
    tokenizer, _ = made("bpe")
    source = write(tmp_path / "in", rows_of(["a b", f"a{END}{END}b"]), 1)
    for value, count in (("text", 2 + 2 * 4), ("token", 2 + 2), ("refuse", 0)):
        code, said = command("count", source, "--tokenizer", tokenizer, "--special-in-text", value, "--json", "-")
        assert code == 0
        counted = json.loads(said)
        assert counted["documents"] == (1 if value == "refuse" else 2)
        budget = counted["tokens"] + counted["documents"]
        mixture = Mixture({"all": Source(source, weight=1)}, budget, tokenizer, special_in_text=value)  # type: ignore[arg-type]
        nemo = MegatronTokenizerWriter(
            str(tmp_path / value),
            tokenizer=tokenizer,
            append_eod=True,
            special_in_text=value,  # type: ignore[arg-type]
        )
        Pipeline("mixed", stages=[mixture, nemo]).run(InlineExecutor(), observers=[])
        about = json.loads((tmp_path / value / "tokens.json").read_text())
        assert about["tokens"] == budget
        assert counted["tokens"] - 3 == count
    for stage in (
        lambda: TokenWriter("out", tokenizer, special_in_text="no"),  # type: ignore[arg-type]
        lambda: Mixture({"all": Source(source, weight=1)}, 9, tokenizer, special_in_text="no"),  # type: ignore[arg-type]
    ):
        with pytest.raises(PipelineError, match="special_in_text='no' is not one of 'text', 'token', 'refuse'"):
            stage()
    with pytest.raises(
        PipelineError, match="with tokens_field= texts are not looked at; give special_in_text='token' to"
    ):
        Mixture({"all": Source(source, weight=1)}, 9, tokens_field="n", special_in_text="token")


def test_a_check_finds_an_end_inside_of_a_document(made: Any, tmp_path: Path) -> None:
    tokenizer, _ = made("bpe")
    source = write(tmp_path / "in", rows_of(["a b", f"a{END}b"]), 1)
    written(source, tmp_path / "out", tokenizer, special_in_text="token")
    assert verify(TokenFolder(str(tmp_path / "out")), TokenizerSource(tokenizer), [source]).wrong == []
    about = json.loads((tmp_path / "out" / "tokens.json").read_text())
    (tmp_path / "out" / "tokens.json").write_text(json.dumps({**about, "special_in_text": "text"}))
    wrong = verify(TokenFolder(str(tmp_path / "out")), TokenizerSource(tokenizer)).wrong
    assert wrong == ["tokens-00000: document 'd1' has the EOS token inside"]


@pytest.mark.parametrize("mode", ["append", "ignore"])
def test_shards_of_texts_that_were_read_otherwise_are_not_added(mode: str, made: Any, tmp_path: Path) -> None:
    tokenizer, _ = made("bpe")
    source = write(tmp_path / "in", rows_of(["a"]), 1)
    written(source, tmp_path / "out", tokenizer)
    with pytest.raises(DataError, match="holds tokens of another 'special_in_text'; shards in one folder must be"):
        written(source, tmp_path / "out", tokenizer, mode=mode, special_in_text="token")


def test_folders_are_merged_only_if_their_texts_were_read_alike(made: Any, tmp_path: Path) -> None:
    tokenizer, _ = made("bpe")
    source = write(tmp_path / "in", [{"text": "a", "other": "b"}], 1)
    written(source, tmp_path / "one", tokenizer)
    for name, settings in (("field", {"text_field": "other"}), ("mode", {"special_in_text": "token"})):
        written(source, tmp_path / name, tokenizer, **settings)
        with pytest.raises(DataError, match="have different"):
            command("merge", str(tmp_path / "one"), str(tmp_path / name), "--output", str(tmp_path / "all"))


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", "r50k-base", "o200k"])
def test_a_name_that_is_no_encoding_is_refused(pattern: str, made: Any, tmp_path: Path) -> None:
    tokenizer, _ = made("ranks")
    with pytest.raises(PipelineError, match=f"pattern='{pattern}' is not the name of an encoding"):
        TokenizerSource(tokenizer, {"pattern": pattern}).load()


@pytest.mark.parametrize("pattern", [r"\w+", r"\S+", "a|b", r"\p{L}+|\p{N}+|\s+", "(?!)", "x*", r"[\x00-\x7f]+"])
def test_a_pattern_that_loses_text_is_refused(pattern: str, made: Any) -> None:
    tokenizer, _ = made("ranks")
    with pytest.raises(PipelineError, match="loses a part of the text"):
        TokenizerSource(tokenizer, {"pattern": pattern}).load()


def test_ranks_without_all_bytes_are_refused(made: Any, tmp_path: Path) -> None:
    tokenizer, _ = made("ranks")
    (tmp_path / "r50k_base.tiktoken").write_bytes(b"\n".join(Path(tokenizer).read_bytes().split(b"\n")[:200]))
    with pytest.raises(DataError, match="lacks ranks of single bytes"):
        TokenizerSource(str(tmp_path / "r50k_base.tiktoken")).load()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("tokenizer.jsn", "; give the path"),
        ("folder/tokeniser.json", ", did you mean 'tokenizer.json'? give"),
        ("folder/tokenizer.josn", ", did you mean 'tokenizer.json'? give"),
        ("folder/tokenizerjson", ", did you mean 'tokenizer.json'? give"),
        ("no/such/folder", "; give the path"),
        ("./none", "; give the path"),
        ("org/none.modle", "; give the path"),
        ("r50k_base.tiktokn", "; give the path"),
    ],
)
def test_a_misspelt_file_is_named_and_no_hub_is_asked(
    name: str, hint: str, made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer, _ = made("bpe")
    (tmp_path / "folder").mkdir()
    shutil.copy(tokenizer, tmp_path / "folder")
    monkeypatch.chdir(tmp_path)
    source = write(tmp_path / "in", rows_of(["a"]), 1)
    with pytest.raises(DataError) as caught:
        written(source, tmp_path / "out", name)
    assert str(caught.value).startswith(f"token_writer: file or folder '{name}' does not exist{hint}")
    assert not (tmp_path / "out").exists()
