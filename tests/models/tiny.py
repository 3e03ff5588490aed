"""Small real models with random weights, and tokenizers that fit them, saved as Hugging Face saves them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    DebertaV2Config,
    DebertaV2ForSequenceClassification,
    DebertaV2Model,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaForSequenceClassification,
    LlamaModel,
    PreTrainedTokenizerFast,
    XLMRobertaConfig,
    XLMRobertaForSequenceClassification,
    XLMRobertaModel,
)

#: What the tokenizers learn their words from.
PROSE = [
    "The quick brown fox jumps over the lazy dog, and the dog does not mind at all.",
    "A model reads tokens; a tokenizer makes tokens of a text, and a text is made of words.",
    "In the year 2026 there were 1,024 tests in 12 rooms, and each of them was one sentence.",
    "Où est le chat ? Il dort sur la chaise, près de la fenêtre, depuis ce matin.",
    "Der schnelle braune Fuchs springt über den faulen Hund; über Größe spricht er nicht.",
    "快速的棕色狐狸跳过了懒狗。 Быстрая коричневая лиса прыгает через ленивую собаку.",
]
#: About how many tokens a tokenizer has, and how many a text may have for the models.
VOCABULARY, LONGEST = 400, 128
#: The sizes that all models share.
_SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
ARCHITECTURES = ("bert", "deberta-v2", "xlm-roberta", "llama")


def tiny_classifier(folder: Path | str, labels: Sequence[str] = ("low", "high"), architecture: str = "bert") -> Path:
    """A model that classifies, with its tokenizer, in a folder.

    Args:
        labels: names of the classes, as ``config.id2label`` has them.
        architecture: one of `ARCHITECTURES`.
    """
    config = _config(architecture)
    config.id2label = dict(enumerate(labels))
    config.label2id = {label: number for number, label in enumerate(labels)}
    kinds: dict[str, Any] = {
        "bert": BertForSequenceClassification,
        "deberta-v2": DebertaV2ForSequenceClassification,
        "xlm-roberta": XLMRobertaForSequenceClassification,
        "llama": LlamaForSequenceClassification,
    }
    return _saved(folder, kinds[architecture], config, architecture)


def tiny_encoder(folder: Path | str, architecture: str = "bert") -> Path:
    """A model that gives a vector for each token, with its tokenizer, in a folder."""
    kinds: dict[str, Any] = {
        "bert": BertModel,
        "deberta-v2": DebertaV2Model,
        "xlm-roberta": XLMRobertaModel,
        "llama": LlamaModel,
    }
    return _saved(folder, kinds[architecture], _config(architecture), architecture)


def tiny_generator(folder: Path | str) -> Path:
    """A model that writes text (Llama-shaped, without a token for padding), with its tokenizer, in a folder."""
    return _saved(folder, LlamaForCausalLM, _config("llama"), "llama")


def tiny_tokenizer(architecture: str = "bert") -> PreTrainedTokenizerFast:
    """A tokenizer with the normaliser, splitter and special tokens that models of this kind have."""
    return _TOKENIZERS[architecture]()


def _saved(folder: Path | str, kind: Any, config: Any, architecture: str) -> Path:
    state = torch.random.get_rng_state()
    torch.manual_seed(7)
    try:
        model = kind(config)
        for parameter in model.parameters():
            if parameter.dim() > 1:  # the usual start is so small that all texts come out alike
                torch.nn.init.normal_(parameter, std=0.3)
    finally:
        torch.random.set_rng_state(state)
    model.eval().save_pretrained(folder)
    tiny_tokenizer(architecture).save_pretrained(folder)
    return Path(folder)


def _config(architecture: str) -> Any:
    tokenizer = tiny_tokenizer(architecture)
    sizes = {**_SIZES, "vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    if architecture == "bert":
        return BertConfig(**sizes, max_position_embeddings=LONGEST)
    if architecture == "deberta-v2":
        return DebertaV2Config(  # type: ignore[call-arg]
            **sizes,
            max_position_embeddings=LONGEST,
            relative_attention=True,
            position_buckets=16,
            pos_att_type=["p2c", "c2p"],
            norm_rel_ebd="layer_norm",
            share_att_key=True,
            position_biased_input=False,
            type_vocab_size=0,
        )
    if architecture == "xlm-roberta":  # positions count from the number of the token for padding
        return XLMRobertaConfig(**sizes, max_position_embeddings=LONGEST + 2, bos_token_id=0, eos_token_id=2)
    return LlamaConfig(**sizes, num_key_value_heads=2, max_position_embeddings=LONGEST, bos_token_id=1, eos_token_id=2)


def _bert() -> PreTrainedTokenizerFast:
    normalizer, splitter = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    words = {word for text in PROSE for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text))}
    pieces = {letter for word in words for letter in word}
    tails = {f"##{word[-length:]}" for word in words for length in (2, 3) if len(word) > length}
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted(words | pieces)]  # a trainer's choice varies
    names += sorted(tails | {f"##{letter}" for letter in pieces})
    vocabulary = {name: number for number, name in enumerate(names)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, splitter
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = _template(tokenizer, "[CLS]", "[SEP]")
    return _fast(tokenizer, pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]")


def _deberta() -> PreTrainedTokenizerFast:
    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    tokenizer = _unigram(special, "[UNK]")
    tokenizer.post_processor = _template(tokenizer, "[CLS]", "[SEP]")
    return _fast(tokenizer, pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]")


def _xlm_roberta() -> PreTrainedTokenizerFast:
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = _unigram(special, "<unk>")
    tokenizer.post_processor = _template(tokenizer, "<s>", "</s>")
    return _fast(tokenizer, pad_token="<pad>", cls_token="<s>", sep_token="</s>", unk_token="<unk>")


def _llama() -> PreTrainedTokenizerFast:
    """As Llama's: bytes for what is unknown, one token in front, none for padding, words not split at spaces first."""
    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    trained.pre_tokenizer = pre_tokenizers.Metaspace(split=True)
    special = ["<unk>", "<s>", "</s>"]
    trained.train_from_iterator(
        PROSE, trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=special, show_progress=False)
    )
    tokenizer = _with_bytes(trained, [*special, *(f"<0x{byte:02X}>" for byte in range(256))])
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.post_processor = _template(tokenizer, "<s>", None)
    return _fast(tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def _with_bytes(trained: Tokenizer, special: list[str]) -> Tokenizer:
    """A BPE tokenizer with the merges of the trained one and a token for each byte, without splitting at spaces."""
    model = json.loads(trained.to_str())["model"]
    names = special + [name for name in model["vocab"] if name not in special]
    vocabulary = {name: number for number, name in enumerate(names)}
    merges = [tuple(pair) for pair in model["merges"]]
    made = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    made.add_special_tokens(special[:3])
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return made


def _unigram(special: list[str], unknown: str) -> Tokenizer:
    learner = Tokenizer(models.Unigram())
    learner.normalizer = normalizers.NFKC()
    learner.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=VOCABULARY, show_progress=False)
    learner.train_from_iterator(PROSE * 4, trainer)
    learned = {piece: round(score, 3) for piece, score in json.loads(learner.to_str())["model"]["vocab"]}
    pieces = [(piece, 0.0) for piece in special]
    pieces += [(piece, learned[piece]) for piece in sorted(learned) if piece not in special]
    tokenizer = Tokenizer(models.Unigram(pieces, special.index(unknown), byte_fallback=False))
    tokenizer.normalizer, tokenizer.pre_tokenizer = learner.normalizer, learner.pre_tokenizer
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


def _template(tokenizer: Tokenizer, first: str, last: str | None) -> Any:
    ends = [name for name in (first, last) if name]
    single = f"{first} $A {last}" if last else f"{first} $A"
    return processors.TemplateProcessing(single, special_tokens=[(name, tokenizer.token_to_id(name)) for name in ends])


def _fast(tokenizer: Tokenizer, **tokens: str) -> PreTrainedTokenizerFast:
    named = {"unk_token": "[UNK]", **tokens} if tokenizer.token_to_id("[UNK]") is not None else tokens
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=LONGEST, **named)


_TOKENIZERS: dict[str, Callable[[], PreTrainedTokenizerFast]] = {
    "bert": _bert,
    "deberta-v2": _deberta,
    "xlm-roberta": _xlm_roberta,
    "llama": _llama,
}
