"""A program that tests start, kill and start again: ``python -m tests.dedup.semantic.curate INPUT OUTPUT``."""

import sys

from dcurate import InlineExecutor, JsonlWriter, ParquetReader, Pipeline, SemanticDuplicates


def pipeline(source: str, output: str) -> Pipeline:
    """Small blocks, so that there are many rounds with many tasks."""
    find = SemanticDuplicates(
        n_clusters=4, eps=0.02, tol=0, max_iter=4, max_samples_per_batch=400, pairwise_batch_size=32, blocksize=12_000
    )
    return Pipeline("curate", stages=[ParquetReader(source, blocksize=20_000), find, JsonlWriter(output)])


if __name__ == "__main__":
    _, source, output = sys.argv
    pipeline(source, output).run(InlineExecutor(), resume=True)
