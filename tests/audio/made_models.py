"""Small recognisers of random weights: they hear nothing, but load and compute as trained ones do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import transformers

LETTERS = ["<pad>", "<s>", "</s>", "<unk>", "|", *"abcdefghijklmnopqrstuvwxyz'"]


def make_wav2vec2(folder: Path) -> Path:
    """Save a `Wav2Vec2ForCTC` over letters."""
    folder.mkdir(parents=True)
    vocabulary = folder / "vocab.json"
    vocabulary.write_text(json.dumps({letter: number for number, letter in enumerate(LETTERS)}))
    tokenizer = transformers.Wav2Vec2CTCTokenizer(
        str(vocabulary), pad_token="<pad>", unk_token="<unk>", word_delimiter_token="|"
    )
    extractor = transformers.Wav2Vec2FeatureExtractor(
        feature_size=1, sampling_rate=16_000, padding_value=0.0, do_normalize=True, return_attention_mask=False
    )
    transformers.Wav2Vec2Processor(extractor, tokenizer).save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.Wav2Vec2Config(
        vocab_size=len(LETTERS),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        conv_dim=(16,) * 7,
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=2,
        pad_token_id=0,
    )
    model = transformers.Wav2Vec2ForCTC(config)
    model.lm_head.weight.data *= 30  # so that letters differ from frame to frame
    model.save_pretrained(folder)
    return folder


def make_whisper(folder: Path) -> Path:
    """Save a `WhisperForConditionalGeneration` over bytes, in English and German."""
    words = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|translate|>", "<|transcribe|>"]
    words += ["<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]
    words += [f"<|{place / 50:.2f}|>" for place in range(1501)]
    folder.mkdir(parents=True)
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    signs = [chr(byte) for byte in plain] + [chr(256 + place) for place in range(256 - len(plain))]
    (folder / "v.json").write_text(json.dumps({sign: number for number, sign in enumerate(signs)}))
    (folder / "m.txt").write_text("#version: 0.2\n")
    tokenizer = transformers.WhisperTokenizer(str(folder / "v.json"), str(folder / "m.txt"), unk_token="!")
    tokenizer.add_special_tokens({"additional_special_tokens": words})
    ids = {word: len(tokenizer) - len(words) + number for number, word in enumerate(words)}
    extractor = transformers.WhisperFeatureExtractor(feature_size=20)
    transformers.WhisperProcessor(extractor, tokenizer).save_pretrained(folder)
    extractor.to_json_file(str(folder / "preprocessor_config.json"))  # where other programs look for it
    torch.manual_seed(0)
    config = transformers.WhisperConfig(
        vocab_size=len(tokenizer),
        num_mel_bins=20,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        max_target_positions=448,
        pad_token_id=ids["<|endoftext|>"],
        bos_token_id=ids["<|endoftext|>"],
        eos_token_id=ids["<|endoftext|>"],
        decoder_start_token_id=ids["<|startoftranscript|>"],
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    model = transformers.WhisperForConditionalGeneration(config)
    embeddings: Any = model.get_input_embeddings()
    embeddings.weight.data[:256] *= 20  # bytes are likelier than timestamps
    model.save_pretrained(folder)
    transformers.GenerationConfig(
        is_multilingual=True,
        lang_to_id={word: ids[word] for word in ("<|en|>", "<|de|>")},
        task_to_id={"transcribe": ids["<|transcribe|>"], "translate": ids["<|translate|>"]},
        alignment_heads=[[0, 0]],
        no_timestamps_token_id=ids["<|notimestamps|>"],
        decoder_start_token_id=ids["<|startoftranscript|>"],
        eos_token_id=ids["<|endoftext|>"],
        pad_token_id=ids["<|endoftext|>"],
        max_length=20,
    ).save_pretrained(folder)
    return folder
