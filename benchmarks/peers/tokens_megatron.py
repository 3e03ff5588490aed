"""Tokenise with Megatron-LM's own tools/preprocess_data.py.

``python tokens_megatron.py CHECKOUT INPUT TOKENIZER OUTPUT``: ``INPUT`` is one file of JSON Lines, not compressed, and
``TOKENIZER`` a folder for transformers. The modules that the script uses are those of the checkout; what else
``megatron.core`` and ``megatron.training`` import, all that trains a model, is left out.
"""

from __future__ import annotations

import argparse
import importlib
import runpy
import sys
import types
from pathlib import Path

#: What `build_tokenizer` reads, as Megatron-LM has it by default.
DEFAULTS = {
    **dict.fromkeys(("chat_template", "vocab_file", "merge_file", "special_tokens", "metadata_path", "vocab_size")),
    **dict.fromkeys(("tokenizer_hf_no_use_fast", "trust_remote_code", "use_gigatoken", "pad_vocab_size"), False),
    "tokenizer_hf_no_include_special_tokens": True,
}


def add_tokenizer_args(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """The arguments that the script is given here."""
    parser.add_argument("--tokenizer-type")
    parser.add_argument("--tokenizer-model")
    parser.set_defaults(**DEFAULTS)
    return parser


if __name__ == "__main__":
    _, checkout, source, tokenizer, output = sys.argv
    for name in ("megatron", "megatron.core", "megatron.core.datasets", "megatron.training"):
        module = types.ModuleType(name)
        module.__path__ = [str(Path(checkout, *name.split(".")))]
        sys.modules[name] = module
    arguments = types.ModuleType("megatron.training.arguments")
    arguments._add_tokenizer_args = add_tokenizer_args  # type: ignore[attr-defined]
    sys.modules[arguments.__name__] = arguments
    importlib.import_module("megatron.core.parallel_state")  # else it and megatron.core.utils import each other
    given = ["--input", source, "--output-prefix", output, "--tokenizer-model", tokenizer, "--workers", "2"]
    sys.argv = ["preprocess_data.py", *given, "--tokenizer-type", "HuggingFaceTokenizer", "--append-eod"]
    runpy.run_path(f"{checkout}/tools/preprocess_data.py", run_name="__main__")
