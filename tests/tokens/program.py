"""A program that tests start, kill and start again: ``python -m tests.tokens.program INPUT OUTPUT TOKENIZER``."""

import sys

from dcurate import InlineExecutor, JsonlReader, Pipeline, TokenWriter

if __name__ == "__main__":
    _, source, output, tokenizer = sys.argv
    writer = TokenWriter(output, tokenizer, shard_tokens=400, packing="best_fit", sequence_length=40)
    Pipeline("tokens", stages=[JsonlReader(source), writer]).run(InlineExecutor(), resume=True, observers=[])
