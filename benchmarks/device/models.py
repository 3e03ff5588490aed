"""Models on a GPU: a DeBERTa-v3-shaped classifier and a MiniLM-shaped embedder on documents of natural lengths.

    python -m benchmarks.device.models [--json FILE] [--docs FILE.jsonl ...] [--documents 16000]
    python -m benchmarks.device.models --device cpu --documents 60 --classifier deberta-v3-tiny --embedder minilm-tiny

Weights are random, and nothing is downloaded. Without ``--docs`` the texts are the bundled sample's, again and again.

model      the model's stage alone on tokens that are made: documents and tokens in a second, padding, and MFU: the
           share of the speed on the GPU's data sheet that the texts' tokens alone account for, and the same of the
           speed that is measured here (a product of matrices of 8192 x 8192 in bfloat16). What texts need is counted
           as `models_made.flops` says
peer       the same model and texts by `transformers.pipeline`, or by `SentenceTransformer.encode`, in bfloat16
pipeline   read JSONL, tokenise, run the model, write Parquet, on a LocalCluster of CPU workers and a GPU worker, from
           the first batch that the model had done to the last (starting workers takes longer than all that follows),
           and how busy NVML says the GPU was, from the first time it was to the last; `seconds` are of the whole run

Ends with 0 if embeddings are those of the peer (cosine above 0.99) and labels are (19 of 20). Untested on a GPU.
"""

from __future__ import annotations

import importlib
import sys

if __name__ == "__main__":
    # Every worker process imports this file first: what is heavy is imported by the driver alone.
    sys.exit(importlib.import_module("benchmarks.device.models_run").main(__doc__))
