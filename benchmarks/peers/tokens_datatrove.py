"""Tokenise, shuffle and merge with datatrove. ``python tokens_datatrove.py INPUT TOKENIZER OUTPUT``"""

from __future__ import annotations

import sys

from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.tokens import DocumentTokenizer, DocumentTokenizerMerger

if __name__ == "__main__":
    _, source, tokenizer, output = sys.argv
    writer = DocumentTokenizer(
        f"{output}/parts", tokenizer_name_or_path=tokenizer, eos_token="<|endoftext|>", batch_size=1000, seed=1
    )
    LocalPipelineExecutor(
        pipeline=[JsonlReader(source, glob_pattern="*.jsonl.zst"), writer],
        tasks=2,
        workers=2,
        logging_dir=f"{output}/logs",
    ).run()
    merger = DocumentTokenizerMerger(f"{output}/parts", f"{output}/merged", save_filename="all", seed=1)
    LocalPipelineExecutor(pipeline=[merger], tasks=1, logging_dir=f"{output}/logs2").run()
