"""Documents that nearly repeat others, over a whole dataset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, get_args

import numpy as np

from dcurate.core.batch import BatchKey, FilePart
from dcurate.core.stage import BarrierStage, NodeInfo, Spec, Stage, WorkerMetadata
from dcurate.dedup.bands import Bands
from dcurate.dedup.clusters import Clustering
from dcurate.dedup.index import SeenDocuments
from dcurate.dedup.keep import Keep, keep_of
from dcurate.dedup.minhash import Method, MinHash
from dcurate.dedup.near import Search, Verification, hashes_of
from dcurate.dedup.pairs import CONTENT, KEY, ROW, FindPairs, PairUp
from dcurate.dedup.resolve import COLUMNS, FLAGS, Action, check_action
from dcurate.dedup.shingles import Shingles
from dcurate.dedup.text_writer import TextWriter
from dcurate.dedup.verify import NearTexts, with_shingles
from dcurate.errors import PipelineError, nearest
from dcurate.frames.columns import as_text, nulls, only, table_of
from dcurate.frames.document import DocumentBatch
from dcurate.frames.text import TextColumn, column_of
from dcurate.fs.stores import Directory
from dcurate.kernels.cuda import CudaColumn, on_gpu, usable
from dcurate.shuffle.merge import with_merged_files
from dcurate.shuffle.ranges import ShuffleIndex
from dcurate.shuffle.spill import ID, SpilledRows, SpillWriter, identified

#: Folder of the bands, below that of the round.
BANDS = "bands/"

#: Settings that do not change which rows stay.
_BESIDE = ("report_path", "index_path", "source_field")
#: Target bytes of bands in one partition.
_BLOCK = 2**25


@dataclass
class FuzzyDuplicates(BarrierStage[DocumentBatch]):
    """Keep one document of each group that shares most of its shingles, over a whole dataset.

    Signatures of all documents are shuffled by their bands (MinHash and LSH); documents that share a band are
    candidates, and the Jaccard similarity of candidates is verified before anything is dropped.

    Args:
        text_field: the column to compare.
        threshold: documents are duplicates from this Jaccard similarity of their shingles on.
        shingles: the features that are compared; five words by default.
        num_hashes: entries of a signature; more make ``verification="estimated"`` more accurate.
        bands: how signatures are cut; by default `Bands.for_threshold` chooses.
        method: how signatures are made, see `MinHash`.
        verification: ``"exact"`` compares the sets of shingles of candidates; ``"estimated"`` their signatures;
            ``"none"`` treats all candidates as duplicates.
        clustering: ``"star"``: each dropped document is a verified duplicate of a kept one, and no two kept documents
            are duplicates of each other; ``"connected"``: a group is a connected component of the pairs, so a chain of
            small changes may join documents that share little.
        keep, action, id_field, report_path, name: as in `ExactDuplicates`.
        index_path: a folder that remembers documents from run to run: those of this run are compared with all that
            earlier runs have seen, without their texts, and are duplicates of these rather than the other way round.
        source_field: the column with the source of each document: groups with more than 1 % of a source are reported,
            not only those with more than 1 % of all documents.

    The result is the same for any number of workers and any partitioning of the files. A text without words is never a
    duplicate here; `ExactDuplicates` finds these. Rows are spilled to disk beside the output; bands, pairs and sets of
    shingles are shuffled by range, so that memory does not grow with the dataset.
    With ``with_(resources=Resources(gpus=0.25))`` signatures are made on GPUs, and the sets of shingles that
    ``index_path`` remembers, bit for bit the same (untested on one).

    Raises:
        PipelineError: an unknown setting, or one out of range.

    Examples:
        >>> FuzzyDuplicates(keep="longest", id_field="id").inputs()
        ([], ['text', 'id'])
    """

    text_field: str = "text"
    threshold: float = 0.8
    shingles: Shingles = field(default_factory=Shingles)
    num_hashes: int = 128
    bands: Bands | None = None
    method: Method = "one_permutation"
    verification: Verification = "exact"
    clustering: Clustering = "star"
    keep: str | Keep = "first"
    action: Action = "drop"
    id_field: str | None = None
    report_path: str | None = None
    index_path: str | None = None
    source_field: str | None = None
    name: str = "fuzzy_duplicates"

    uses_only_named_columns: ClassVar[bool] = True
    uses_columns_again: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_action(self.name, self.action)
        keep_of(self.keep, self.name)
        if self.clustering not in get_args(Clustering):
            raise PipelineError(
                f"{self.name}: no clustering {self.clustering!r}{nearest(str(self.clustering), get_args(Clustering))}"
            )
        bands = self.search.bands
        if bands.bands * bands.rows > self.num_hashes:
            raise PipelineError(
                f"{self.name}: {bands.bands} bands of {bands.rows} need num_hashes of at least "
                f"{bands.bands * bands.rows}, not {self.num_hashes}"
            )

    @property
    def search(self) -> Search:
        """The definition of a duplicate."""
        minhash = MinHash(self.shingles, self.num_hashes, self.method)
        if self.bands is None:
            return Search.at(self.threshold, minhash, self.verification)
        return Search(self.threshold, minhash, self.bands, self.verification)

    def inputs(self) -> Spec:
        return [], self._needed()

    def _needed(self) -> list[str]:
        others = [name for name in (self.id_field, self.source_field) if name is not None]
        return list(dict.fromkeys([self.text_field, *keep_of(self.keep, self.name).columns(self.text_field), *others]))

    def outputs(self) -> Spec:
        if self.action == "identify":
            return [], COLUMNS
        return [], FLAGS if self.action == "flag" else []

    def settings(self) -> dict[str, Any]:
        return {name: value for name, value in super().settings().items() if name not in _BESIDE}

    def _index(self, options: Mapping[str, Any]) -> SeenDocuments | None:
        return (
            None if self.index_path is None else SeenDocuments(self.index_path, self.search.parameters, dict(options))
        )

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        writer = BandWriter(
            url,
            mode="overwrite",
            storage_options=dict(options),
            text_field=self.text_field,
            search=self.search,
            spilled=self._needed() if self.action == "identify" else None,
            index=self._index(options),
            id_field=self.id_field,
            source_field=self.source_field,
            name=f"{self.name}_to_disk",
        )
        return [writer.with_(resources=self.resources) if self.resources.requires_gpu else writer]

    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> list[Stage]:
        folder = Directory(url, options)
        index = self._index(options)
        generation = None if index is None else index.generation(url)
        spilled = SpilledRows.written(
            folder, splits, [] if index is None or generation is None else index.seen(generation)
        )
        names = spilled.sibling_files(BANDS)
        if generation is not None:
            names[spilled.seen :] = map(generation.path, names[spilled.seen :])
        bands = ShuffleIndex.of(folder, names)
        near = NearTexts(
            spilled=spilled,
            text_field=self.text_field,
            search=self.search,
            clustering=self.clustering,
            keep=keep_of(self.keep, self.name),
            action=self.action,
            id_field=self.id_field,
            report_path=self.report_path,
            stage=self.name,
            source_field=self.source_field,
            index=index,
            generation=generation,
        )
        partitions = bands.partitions_for(_BLOCK)

        def paired(files: ShuffleIndex) -> list[Stage]:
            return [
                files.reader(partitions, KEY, f"{self.name}_bands"),
                FindPairs(url, dict(options), spilled.first, name=f"{self.name}_candidates"),
                PairUp(near, name=f"{self.name}_pairs"),
            ]

        return with_merged_files(bands, partitions, KEY, f"{self.name}_bands_merged", paired)


@dataclass
class BandWriter(TextWriter):
    """Writes rows, and beside them the bands of the signature of each text.

    Args:
        spilled: the columns of rows to write; all by default.
        index: where the bands of the documents are remembered, and what they are compared by.
        id_field: the column with ids, for the index.
        source_field: the column with the source of each document, if there is one.
    """

    search: Search = field(default_factory=lambda: Search.at(0.8))
    spilled: list[str] | None = None
    index: SeenDocuments | None = None
    id_field: str | None = None
    source_field: str | None = None
    name: str = "band_writer"

    def inputs(self) -> Spec:
        return [], [self.text_field]

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        self._entries(column_of([b"One text of more than five words."]))
        self.setup(worker_metadata)

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        if (
            self.resources.requires_gpu and usable()
        ):  # compiles kernels before the time of a batch is measured and limited
            self._entries(on_gpu(*column_of([b"One text of more than five words."])))

    @property
    def cheap_setup(self) -> bool:
        return True

    def _write(self, table: Any, key: BatchKey, folder: str) -> Iterator[FilePart]:
        yield self.rows(table if self.spilled is None else only(table, self.spilled), key, self.source_field)
        texts = self.texts(table)
        if self.index is None:
            yield self.ranges(self._entries(texts), key, KEY, BANDS)
            return
        memory = self._memory(self.index)
        rows = np.arange(table.num_rows)
        known = identified(nulls(table.num_rows), table, self.id_field, key, rows)
        memory.rows(with_shingles(as_text(known, ID), texts, rows, self.search), key)
        memory.ranges(self._entries(texts), key, KEY, BANDS)

    def prepare(self, resume: bool) -> None:
        super().prepare(resume)
        if self.index is not None:
            memory = self._memory(self.index)
            if not resume:
                self.index.begin(memory.directory)
            memory.prepare(resume)

    def settings(self) -> dict[str, Any]:
        return {name: value for name, value in super().settings().items() if name != "index"}

    def _memory(self, index: SeenDocuments) -> SpillWriter:
        """Return the index's writer for this run."""
        folder = index.generation(self.directory.address)
        return SpillWriter(folder.address, mode="overwrite", storage_options=dict(folder.options), durable=True)

    def _entries(self, texts: TextColumn | CudaColumn) -> Any:
        """A row for each band of each text that has shingles: its key, the row of the text, and a hash of the text."""
        keys, rows = self.search.banded(texts)
        hashes = hashes_of(texts) >> np.uint64(32)
        return table_of({KEY: keys, ROW: rows.astype(np.uint32), CONTENT: hashes[rows].astype(np.uint32)})
