"""Documents that nearly repeat others, over a whole dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, get_args

import numpy as np

from dcurate.core.stage import NodeInfo, Spec, Stage, WorkerMetadata
from dcurate.dedup.bands import Bands
from dcurate.dedup.minhash import Method, MinHash
from dcurate.dedup.near import Search, Verification, hashes_of
from dcurate.dedup.near_texts import NearTexts, with_shingles
from dcurate.dedup.shingles import Shingles
from dcurate.dedup.text_writer import TextWriter
from dcurate.errors import PipelineError, nearest
from dcurate.frames.columns import table_of
from dcurate.frames.text import TextColumn, column_of
from dcurate.groups.clusters import Clustering
from dcurate.groups.keep import Keep, keep_of
from dcurate.groups.near_stage import EntryWriter, NearDuplicateStage
from dcurate.groups.pairs import CONTENT, KEY, ROW, FindPairs
from dcurate.groups.resolve import Action, check_action
from dcurate.kernels.cuda import CudaColumn, on_gpu, usable

#: Folder of the bands, below that of the round.
BANDS = "bands/"


@dataclass
class FuzzyDuplicates(NearDuplicateStage):
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
        keep, action, id_field, report_path, name: the same settings as in `ExactDuplicates`.
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
    keep: str | Keep | Sequence[str | Keep] = "first"
    action: Action = "drop"
    id_field: str | None = None
    report_path: str | None = None
    index_path: str | None = None
    source_field: str | None = None
    name: str = "fuzzy_duplicates"

    entries_name: ClassVar[str] = "bands"

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

    @property
    def chosen(self) -> Keep:
        return keep_of(self.keep, self.name)

    @property
    def compared(self) -> str:
        return self.text_field

    @property
    def parameters(self) -> dict[str, Any]:
        return self.search.parameters

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        writer = BandWriter(url, text_field=self.text_field, search=self.search, **self.for_writer(options))
        return [writer.with_(resources=self.resources) if self.resources.requires_gpu else writer]

    def find_stage(self, url: str, options: dict[str, Any], first: int) -> Stage:
        return FindPairs(url, options, first, name=f"{self.name}_candidates")

    def near(self, **shared: Any) -> NearTexts:
        return NearTexts(text_field=self.text_field, search=self.search, clustering=self.clustering, **shared)


@dataclass
class BandWriter(TextWriter, EntryWriter):
    """Writes rows, and beside them the bands of the signature of each text.

    Args:
        search: the definition of a duplicate.
    """

    search: Search = field(default_factory=lambda: Search.at(0.8))
    name: str = "band_writer"

    folder: ClassVar[str] = BANDS

    def inputs(self) -> Spec:
        return [], [self.text_field]

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        self.entries(column_of([b"One text of more than five words."]))
        self.setup(worker_metadata)

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        if (
            self.resources.requires_gpu and usable()
        ):  # compiles kernels before the time of a batch is measured and limited
            self.entries(on_gpu(*column_of([b"One text of more than five words."])))

    @property
    def cheap_setup(self) -> bool:
        return True

    def read(self, table: Any) -> TextColumn | CudaColumn:
        return self.texts(table)

    def with_features(self, known: Any, table: Any, texts: TextColumn | CudaColumn) -> Any:
        return with_shingles(known, texts, self.search)

    def entries(self, texts: TextColumn | CudaColumn) -> Any:
        """A row for each band of each text that has shingles: its key, the row of the text, and a hash of the text."""
        keys, rows = self.search.banded(texts)
        hashes = hashes_of(texts) >> np.uint64(32)
        return table_of({KEY: keys, ROW: rows.astype(np.uint32), CONTENT: hashes[rows].astype(np.uint32)})
