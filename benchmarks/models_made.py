"""Models with random weights and the shapes of real ones, with a tokenizer that fits the texts: nothing is downloaded.

How fast a model runs depends on its shape and on the lengths of texts, not on its weights. Tokenizers are trained on
the first texts given, so that a word is as many tokens as real tokenizers make of it; the table of embeddings of tokens
has as many rows as that vocabulary (32,000, where DeBERTa-v3 has 128,100), which takes memory but no arithmetic.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from torch.utils.flop_counter import FlopCounterMode
from transformers import (
    AutoModel,
    BertConfig,
    BertModel,
    DebertaV2Config,
    DebertaV2ForSequenceClassification,
    PreTrainedTokenizerFast,
)
from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()

VOCABULARY = 32_000
LABELS = ("High", "Medium", "Low")
#: Hidden numbers, layers, heads, numbers between the two halves of a layer.
CLASSIFIERS = {
    "deberta-v3-base": (768, 12, 12, 3072),
    "deberta-v3-small": (768, 6, 12, 3072),
    "deberta-v3-xsmall": (384, 12, 6, 1536),
    "deberta-v3-tiny": (32, 2, 4, 64),
}
EMBEDDERS = {"minilm-l6": (384, 6, 12, 1536), "minilm-tiny": (32, 2, 4, 64)}
_TRAINING_CHARACTERS = 4_000_000


def classifier(folder: Path, shape: str, texts: Iterable[str], longest: int = 512, seed: int = 0) -> Path:
    """A DeBERTa-v3-shaped model for three classes, in a folder as Hugging Face has it.

    Args:
        shape: of `CLASSIFIERS`.
        texts: that the tokenizer learns from.
        longest: tokens that the tokenizer lets a text have.
    """
    hidden, layers, heads, between = CLASSIFIERS[shape]
    tokenizer = _tokenizer(texts, longest)
    config = DebertaV2Config(  # type: ignore[call-arg]
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=between,
        max_position_embeddings=512,
        relative_attention=True,
        position_buckets=256,
        pos_att_type=["p2c", "c2p"],
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        position_biased_input=False,
        type_vocab_size=0,
        layer_norm_eps=1e-7,
        pooler_hidden_size=hidden,
        pad_token_id=tokenizer.pad_token_id,
        id2label=dict(enumerate(LABELS)),
        label2id={label: number for number, label in enumerate(LABELS)},
    )
    torch.manual_seed(seed)
    model = DebertaV2ForSequenceClassification(config)
    torch.nn.init.normal_(model.classifier.weight)  # the usual start gives all texts nearly the same scores
    return _saved(folder, model, tokenizer)


def embedder(folder: Path, shape: str, texts: Iterable[str], longest: int = 256, seed: int = 0) -> Path:
    """A MiniLM-shaped model of embeddings, in a folder as sentence-transformers has it.

    Args:
        shape: of `EMBEDDERS`.
        texts, longest: as in `classifier`.
    """
    hidden, layers, heads, between = EMBEDDERS[shape]
    tokenizer = _tokenizer(texts, longest)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=between,
        pad_token_id=tokenizer.pad_token_id,
    )
    torch.manual_seed(seed)
    _saved(folder, BertModel(config), tokenizer)
    kinds = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (path, kind) in enumerate(kinds)
    ]
    settings: dict[str, Any] = {
        "modules.json": modules,
        "sentence_bert_config.json": {"max_seq_length": longest, "do_lower_case": False},
        "1_Pooling/config.json": {"word_embedding_dimension": hidden, "pooling_mode_mean_tokens": True},
        "2_Normalize/config.json": {},
    }
    for name, content in settings.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(content))
    return folder


def _saved(folder: Path, model: Any, tokenizer: Any) -> Path:
    model.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _tokenizer(texts: Iterable[str], longest: int) -> Any:
    """A WordPiece tokenizer as BERT has it, with case, trained on the first texts."""
    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=VOCABULARY, special_tokens=special, show_progress=False)
    made.train_from_iterator(_first(texts), trainer)
    ends: Sequence[tuple[str, int]] = [(name, made.token_to_id(name)) for name in ("[CLS]", "[SEP]")]  # type: ignore[misc]
    made.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=list(ends))
    names = {name.strip("[]").lower() + "_token": name for name in special}
    return PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=longest, **names)


def _first(texts: Iterable[str]) -> Iterator[str]:
    left = _TRAINING_CHARACTERS
    for text in texts:
        if left <= 0:
            return
        yield text[:left]
        left -= len(text)


def flops(folder: Path, lengths: Sequence[int]) -> float:
    """Floating-point operations that a model needs for texts of these lengths, each alone and without padding.

    Products of matrices are counted as PyTorch runs them (two operations for a product and a sum;
    ``torch.utils.flop_counter``), attention written out as products, for texts of three lengths; a quadratic function
    of the length goes through them exactly, as every such product is constant, linear or quadratic in it. The constant
    (tables of relative positions) and the head are left out, so that the count is never too high.
    """
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    places = np.array([16, 32, 64])
    counted = []
    for length in places.tolist():
        ids = torch.full((1, length), 7)
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            model(input_ids=ids, attention_mask=torch.ones_like(ids))
        counted.append(counter.get_total_flops())
    square, straight, _ = np.polyfit(places, counted, 2)
    wide = np.asarray(lengths, np.float64)
    return float((square * wide**2 + straight * wide).sum())
