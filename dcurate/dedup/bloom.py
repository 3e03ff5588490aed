"""Documents with the same text, in one pass: approximately, with a Bloom filter."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dcurate.core.stage import NodeInfo, ProcessingStage, Spec, WorkerMetadata
from dcurate.dedup.bloom_filter import BloomFolder, BloomState, claim_name
from dcurate.dedup.bloom_size import BloomSize
from dcurate.errors import DataError, PipelineError, nearest
from dcurate.frames.convert import is_cudf, to_arrow
from dcurate.frames.document import DocumentBatch
from dcurate.frames.gpus import has_nulls_on_gpu, texts_on_gpu
from dcurate.frames.hashes import NORMAL_FORMS, RowHashes, content_hashes, row_hashes
from dcurate.fs.paths import protocol_of
from dcurate.io.output import folder_name
from dcurate.kernels.bloom import BLOCK_WORDS, insert, query
from dcurate.kernels.cuda import usable
from dcurate.kernels.cuda_minhash import text_digests
from dcurate.kernels.layout import Ints, Words

REASON = "bloom_duplicate"
BEYOND = "beyond_capacity"

_log = logging.getLogger("dcurate.dedup")


@dataclass
class BloomDuplicates(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Keep the first of all documents with the same text, in one pass with a Bloom filter; nothing is spilled to disk.

    Equal texts are always found. There are rare false positives: when the filter holds ``capacity`` documents, a share
    of ``false_positive_rate`` of the new ones is dropped as seen, before that fewer. Use `ExactDuplicates` if no text
    may be lost.

    The filter is a file that all workers of one host share. It is kept: the next run continues with it and drops what
    this one saw. The copy that is processed first is kept, so with several workers runs may differ. A batch that is
    processed again, after a retry, a crash or a resume, gets the same answer. So does a batch of the same name in a
    later run: give each input its own ``label``, such as the name of the crawl.

    Args:
        path: a folder on a local disk, for the filter (``BloomSize.of(capacity, rate).nbytes``) and what each batch was
            given (8 bytes for each document kept). Each of several hosts has its own, and a text may stay once on each.
        capacity: expected number of distinct documents, over all runs.
        false_positive_rate: share of new documents that may be dropped as seen, from 1e-12 to 0.5.
        text_field, fields, normalize: what is compared, as in `ExactDuplicates`.
        label: name of the input; must be the same when its run is resumed.
        name: name of the stage.

    Beyond its capacity a filter continues with a higher rate: the report counts those documents as ``beyond_capacity``,
    and the logger ``dcurate.dedup`` reports the rate. `bloom_state` measures it.
    With ``with_(resources=Resources(gpus=0.25))`` texts of a batch of cuDF, if they are not normalized, are hashed on
    their GPU, and only rows that are dropped come to the host (untested on one); those of others on the CPU.

    Raises:
        PipelineError: a number out of range, or a path that is not on a local disk.

    Examples:
        >>> import tempfile
        >>> from dcurate import BatchKey
        >>> import pyarrow as pa
        >>> stage = BloomDuplicates(tempfile.mkdtemp(), capacity=1000)
        >>> batch = DocumentBatch(key=BatchKey("a"), data=pa.table({"text": ["one", "two", "one"]}))
        >>> stage.process(batch).to_arrow()["text"].to_pylist()
        ['one', 'two']
        >>> stage.process(replace(batch, key=BatchKey("b"))).num_items
        0
    """

    path: str
    capacity: int
    false_positive_rate: float = 0.001
    text_field: str = "text"
    fields: list[str] | None = None
    normalize: Sequence[str] = ()
    label: str = "documents"
    name: str = "bloom_duplicates"
    _filter: BloomFolder | None = field(default=None, init=False, repr=False, compare=False)
    _warned: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.normalize = tuple(self.normalize)
        for form in self.normalize:
            if form not in NORMAL_FORMS:
                raise PipelineError(f"{self.name}: no normalize {form!r}{nearest(form, NORMAL_FORMS)}")
        BloomSize.of(self.capacity, self.false_positive_rate)
        if protocol_of(self.path) not in ("file", "local"):
            raise PipelineError(
                f"{self.name}: path={self.path!r} must be a folder on a local disk, which can be mapped"
            )
        self.path = os.path.abspath(self.path.removeprefix("file://"))  # workers may run in another directory

    def inputs(self) -> Spec:
        return [], [self.text_field] if self.fields is None else list(self.fields)

    def settings(self) -> dict[str, Any]:
        settings = super().settings()
        return {name: value for name, value in settings.items() if name != "path" and not name.startswith("_")}

    @property
    def cheap_setup(self) -> bool:
        return True

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        self._opened().close()
        nothing = np.zeros(0, np.uint64)
        query(np.zeros(BLOCK_WORDS, np.uint64), nothing, 1)  # compiled once, and not by every slot at the same time
        insert(np.zeros(BLOCK_WORDS, np.uint64), nothing, 1)

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        self._filter = self._opened()

    def teardown(self) -> None:
        if self._filter is not None:
            self._filter.close()
            self._filter = None

    def process(self, task: DocumentBatch) -> DocumentBatch:
        if task.key is None:
            raise DataError(
                f"stage {self.name!r} remembers what it gave by the batch's key, and this has none; give it one"
            )
        self._filter = self._filter or self._opened()
        keys, rows = self._keys(task)
        claim = self._filter.claim(claim_name(folder_name(self.label), self.name, task.key), keys)
        new = np.ones(task.num_items, np.bool_)
        new[rows] = claim.new
        kept = task.keep(new, self.name, REASON)
        if claim.other:
            _log.warning(
                "%s came with label %r and other texts before, and what it then kept it keeps again: "
                "give each input its own label", task.key, self.label,
            )  # fmt: skip
        beyond = min(int(claim.new.sum()), claim.held - self.capacity)
        if beyond <= 0:
            return kept
        self._warn(claim.held)
        return replace(kept, found={BEYOND: beyond})

    def _keys(self, task: DocumentBatch) -> tuple[Words, Ints]:
        """A key for each row that holds anything that is compared, and these rows."""
        if self.fields is None:
            gpu = self.resources.requires_gpu
            hashes, rows = digests_of(task.data, self.text_field, self.normalize, gpu=gpu)
        else:
            hashes, rows = row_hashes(task.to_arrow(), self.fields)
        return hashes[:, 0], rows

    def _opened(self) -> BloomFolder:
        settings = {"fields": self.fields or [self.text_field], "normalize": list(self.normalize)}
        return BloomFolder(self.path, self.capacity, self.false_positive_rate, settings)

    def _warn(self, held: int) -> None:
        """Say that the filter is too full; again when it holds half as many more."""
        if 2 * held > 3 * self._warned:
            self._warned = held
            rate = BloomSize.of(self.capacity, self.false_positive_rate).rate(held)
            _log.warning(
                "the Bloom filter in %r was made for %d documents and holds %d: a new one is now taken for an old one "
                "with a chance of %.2g; make a larger one",
                self.path, self.capacity, held, rate,
            )  # fmt: skip


def bloom_state(path: str) -> BloomState:
    """Return how full the filter in a folder is, and its current false positive rate.

    Raises:
        DataError: there is no filter.

    Examples:
        >>> import tempfile
        >>> stage = BloomDuplicates(tempfile.mkdtemp(), capacity=1000)
        >>> stage.setup_on_node()
        >>> bloom_state(stage.path)
        BloomState(capacity=1000, documents=0, rate=0.0, nbytes=1984)
    """
    opened = BloomFolder.existing(path)
    try:
        return opened.state()
    finally:
        opened.close()


def digests_of(frame: Any, text_field: str, normalize: Sequence[str] = (), *, gpu: bool = False) -> RowHashes:
    """Return the `content_hashes` of the rows of a frame.

    Texts of a cuDF frame are hashed on their GPU if one is requested: sixteen bytes a row are copied to the host. Other
    texts, and those of a column that is normalized first or holds nulls, are hashed on the host.

    Raises:
        DataError: the column does not exist, or does not hold text.

    Examples:
        >>> import pyarrow as pa
        >>> hashes, rows = digests_of(pa.table({"text": ["one", None, "two"]}), "text")
        >>> hashes.shape, rows.tolist()
        ((2, 2), [0, 2])
    """
    if gpu and not normalize and is_cudf(frame) and usable() and not has_nulls_on_gpu(frame, text_field):
        rows = np.arange(len(frame))
        return RowHashes(text_digests(texts_on_gpu(frame, text_field), rows), rows)
    return content_hashes(to_arrow(frame), text_field, normalize)
