"""datatrove's removal of repeated spans of three sentences. Runs in an environment with ``datatrove[processing,io]``.

``python run_sentences.py SOURCE OUTPUT``: all three stages with its defaults, no document dropped for its length.
"""

from __future__ import annotations

import json
import sys

from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.base import PipelineStep
from datatrove.pipeline.dedup import SentenceDedupFilter, SentenceDedupSignature, SentenceFindDedups
from datatrove.pipeline.dedup.sentence_dedup import SentDedupConfig
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter

CONFIG = SentDedupConfig(n_sentences=3, only_dedup_in_index=False, min_doc_words=0, min_num_sentences=0)


def main(source: str, output: str) -> None:
    signatures, found = f"{output}/signatures", f"{output}/found"
    stages: list[list[PipelineStep]] = [
        [JsonlReader(source), SentenceDedupSignature(signatures, config=CONFIG)],
        [SentenceFindDedups(signatures, found, config=CONFIG)],
        [
            JsonlReader(source),
            SentenceDedupFilter(found, config=CONFIG),
            JsonlWriter(f"{output}/kept", compression=None),
        ],
    ]
    for number, steps in enumerate(stages):
        LocalPipelineExecutor(pipeline=steps, tasks=1, workers=1, logging_dir=f"{output}/logs/{number}").run()
    print(json.dumps({"done": True}))


if __name__ == "__main__":
    main(*sys.argv[1:])
