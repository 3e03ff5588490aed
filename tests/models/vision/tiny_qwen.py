"""Small Qwen vision language models with random weights, with real tokenizers over bytes and real image processors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>")
#: What Qwen's templates do with text and images.
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{% for part in message.content %}"
    "{% if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}"
    "{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_tokenizer() -> Any:
    signs = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({sign: number for number, sign in enumerate(signs)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=list(SPECIAL),
    )
    made.chat_template = TEMPLATE
    return made


def tiny_qwen(folder: Path, kind: str) -> str:
    """A folder of a model: ``"qwen2_5_vl"`` or ``"qwen3_vl"``."""
    tokenizer = byte_tokenizer()
    ids = {token: tokenizer.convert_tokens_to_ids(token) for token in SPECIAL}
    text: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "rope_scaling": {"rope_type": "default", "mrope_section": [2, 3, 3], "type": "mrope"},
        "pad_token_id": ids["<|endoftext|>"],
        "eos_token_id": ids["<|im_end|>"],
    }
    vision: dict[str, Any] = {
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_heads": 2,
        "out_hidden_size": 32,
        "patch_size": 14 if kind == "qwen2_5_vl" else 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
    }
    tokens = {"image_token_id": ids["<|image_pad|>"], "vision_start_token_id": ids["<|vision_start|>"]}
    tokens |= {"vision_end_token_id": ids["<|vision_end|>"], "video_token_id": ids["<|vision_end|>"]}
    if kind == "qwen2_5_vl":
        vision |= {"window_size": 56, "fullatt_block_indexes": [1]}
        config: Any = transformers.Qwen2_5_VLConfig(text_config=text, vision_config=vision, **tokens)
        model: Any = transformers.Qwen2_5_VLForConditionalGeneration
    else:
        vision |= {"num_position_embeddings": 64, "deepstack_visual_indexes": [0]}
        config = transformers.Qwen3VLConfig(text_config=text, vision_config=vision, **tokens)
        model = transformers.Qwen3VLForConditionalGeneration
    state = torch.random.get_rng_state()
    torch.manual_seed(5)
    try:
        made = model(config)
        for parameter in made.parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.3)
    finally:
        torch.random.set_rng_state(state)
    made.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    settings = {
        "image_processor_type": "Qwen2VLImageProcessor",
        "patch_size": vision["patch_size"],
        "merge_size": 2,
        "temporal_patch_size": 2,
        "size": {"shortest_edge": 32 * 32, "longest_edge": 64 * 96},
        "image_mean": [0.48, 0.46, 0.41],
        "image_std": [0.27, 0.26, 0.28],
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    return str(folder)
