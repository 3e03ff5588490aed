"""The same rule with scikit-learn: MiniBatchKMeans, then all products of each cluster at once, all in memory.

``python semantic_sklearn.py FOLDER CLUSTERS EPS`` answers in one line of JSON with the ids that it leaves out. Runs in
an environment that holds scikit-learn and pyarrow.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module

import numpy as np
import pyarrow.parquet as pq


def main() -> None:
    _, folder, clusters, eps = sys.argv
    rows = pq.read_table(folder)
    vectors = np.stack([np.asarray(each) for each in rows["embeddings"].to_numpy()]).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    kmeans = import_module("sklearn.cluster").MiniBatchKMeans(int(clusters), random_state=42, batch_size=4096, n_init=1)
    labels = kmeans.fit_predict(vectors)
    ids, dropped = rows["id"].to_numpy(), []
    for cluster, center in enumerate(kmeans.cluster_centers_):
        own = np.flatnonzero(labels == cluster)
        order = own[np.argsort(vectors[own] @ center / np.linalg.norm(center), kind="stable")]
        if len(order):
            highest = np.triu(vectors[order] @ vectors[order].T, 1).max(axis=0)
            dropped += ids[order[highest >= 1 - float(eps)]].tolist()
    print(json.dumps({"dropped": dropped}))


if __name__ == "__main__":
    main()
