"""What only a machine with a GPU can tell: kernels, frames and workers there give what the CPU gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dcurate import DaskExecutor, DocumentBatch, InlineExecutor, LocalCluster, ParquetReader
from dcurate.dedup.semantic.kmeans import nearest, seeds, sums_of
from dcurate.frames.convert import cudf
from dcurate.frames.gpus import texts_on_gpu
from dcurate.frames.text import column_of
from dcurate.frames.vectors import array_library
from dcurate.kernels import cuda
from dcurate.kernels.permutations import Permutations
from dcurate_testing.device import CUDF, DOCUMENTED, by_cudf, clouds, curate, sample
from tests.kernels.simulated import by_cpu, by_cuda
from tests.kernels.test_cuda import TEXTS

pytestmark = [pytest.mark.cluster, pytest.mark.gpu]


def some() -> pa.Table:
    """Texts of the sample, with nulls among them."""
    texts = [text.decode() for text in sample()[:300]]
    return pa.table({"text": [None, *texts, ""], "n": list(range(len(texts) + 2))})


def test_kernels_on_a_gpu_give_what_those_of_the_cpu_give_to_the_last_bit() -> None:
    texts = [*TEXTS, *(text.decode() for text in sample()[:300])]
    assert by_cuda(texts) == by_cpu(texts)


def test_texts_that_do_not_fit_into_scratch_together_are_measured_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "SCRATCH", 2**22)
    texts = [text.decode() for text in sample()[:100]]
    assert by_cuda(texts) == by_cpu(texts)


def test_signatures_of_cudf_itself_are_ours() -> None:
    few, draw = cudf().DataFrame({"text": list(DOCUMENTED)}), Permutations(*np.array([[1, 2, 3], [4, 5, 6]], np.uint32))
    assert by_cudf(few, draw, 0, 5).tolist() == list(DOCUMENTED.values())
    texts = sample()[:300]
    drawn = Permutations.of_nemo(CUDF.num_hashes, CUDF.shingles.seed)
    frame = cudf().DataFrame({"text": [text.decode() for text in texts]})
    theirs = by_cudf(frame, drawn, int(drawn.factors[0]), CUDF.shingles.size)
    assert np.array_equal(theirs, CUDF.signatures(column_of(texts)))
    assert np.array_equal(theirs, CUDF.signatures(texts_on_gpu(frame, "text")))


def test_rows_go_to_cudf_and_come_back_as_they_were() -> None:
    batch = DocumentBatch(data=some())
    there = batch.with_data(batch.to_cudf())
    assert there.to_arrow().to_pydict() == batch.to_arrow().to_pydict()
    assert (there.num_items, there.get_columns()) == (batch.num_items, ["text", "n"])
    assert there.nbytes > 0
    mask = np.arange(batch.num_items) % 3 == 0
    kept = there.keep(mask, "test", "not a third")
    assert kept.to_arrow()["n"].to_pylist() == np.flatnonzero(mask).tolist()
    assert DocumentBatch.joined([kept, kept]) is not None


def test_parquet_decoded_on_a_card_has_the_rows_that_arrow_reads(tmp_path: Path) -> None:
    pq.write_table(some(), tmp_path / "in.parquet", row_group_size=100)
    source = str(tmp_path / "in.parquet")
    for split in ParquetReader(source).splits():
        there, here = ParquetReader(source, frames="cudf").process(split), ParquetReader(source).process(split)
        assert there is not None
        assert here is not None
        assert there.to_arrow().to_pydict() == here.to_arrow().to_pydict()


def test_a_pipeline_with_stages_on_gpus_writes_the_rows_of_the_cpu(tmp_path: Path) -> None:
    with LocalCluster(n_workers=1, gpus=True, rmm_pool_size=0.2, enable_cudf_spill=True) as cluster:
        found = curate(str(tmp_path / "gpu"), 0.25, DaskExecutor(cluster=cluster))
    assert found == curate(str(tmp_path / "cpu"), 0, InlineExecutor())


def test_clusters_of_vectors_by_cupy_are_those_of_numpy() -> None:
    vectors, library = clouds(20_000, 64), array_library(gpu=True)
    begun = seeds(vectors, 100, 1, True, library)
    there, here = sums_of(vectors, begun, 4096, library), sums_of(vectors, begun, 4096)
    assert np.abs(there.counts - here.counts).sum() <= 20
    assert (nearest(vectors, begun, library)[0] == nearest(vectors, begun)[0]).mean() > 0.999
