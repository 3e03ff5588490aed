"""The workflow that finds documents that nearly repeat others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

from dcurate.dedup.bands import Bands
from dcurate.dedup.fuzzy import FuzzyDuplicates
from dcurate.dedup.minhash import Method
from dcurate.dedup.near import Verification
from dcurate.dedup.shingles import Shingles
from dcurate.errors import PipelineError
from dcurate.groups.clusters import Clustering
from dcurate.groups.keep import Keep
from dcurate.io.output import Mode
from dcurate.workflows.deduplication import Deduplication, DeduplicationWorkflow
from dcurate.workflows.files import DocumentFiles, FileType, check_filetype, warn_unused


@dataclass
class FuzzyDeduplicationWorkflow(DeduplicationWorkflow):
    """Find near-duplicates in files, and remove all but one of each group, or write their ids.

    Args:
        cache_path: ignored; intermediate data is kept beside the output, in ``<output_path>.dcurate``.
        output_path: a folder, local or a URL. With ``perform_removal`` it has the documents that stay in
            ``deduplicated/`` and the groups of duplicates, as Parquet, in ``FuzzyDuplicateGroups/``; else the ids of
            documents to remove in ``FuzzyDuplicateIds/``, with their group, its size, the id of the one that stays, and
            how similar they are to it.
        input_path, input_filetype, input_blocksize, input_file_extensions, read_kwargs, write_kwargs, text_field,
            perform_removal: settings of input and output, as in `ExactDeduplicationWorkflow`.
        seed: seed of the hashes.
        char_ngrams: how many characters a shingle has.
        num_bands, minhashes_per_band: how signatures are compared: documents that agree in all hashes of one of the
            bands are candidates.
        threshold: Jaccard similarity of shingles from which candidates are duplicates. NeMo Curator takes all
            candidates, also less similar ones, as ``verification="none"`` does.
        word_ngrams: compare shingles of this many words instead of characters.
        method, verification, clustering, keep: settings of the search, as in `FuzzyDuplicates`.
        id_field: the column of ids; by default they are made, are in the column ``_curator_dedup_id``, and
            ``fuzzy_id_generator.json`` says for which files they hold.
        index_path: a folder that keeps an index of documents from run to run, as in `FuzzyDuplicates`.
        output_filetype, mode: settings of the output, as in `ExactDeduplicationWorkflow`.
        cache_kwargs, use_64_bit_hash, bands_per_iteration, lsh_num_output_partitions, lsh_rmm_pool_size,
            lsh_spill_memory_limit, env_vars, use_async_memory: settings of NeMo Curator for its GPU memory and
            processes; without effect here. Bands always have 64-bit hashes here.

    Raises:
        PipelineError: arguments that do not go together.

    Examples:
        >>> FuzzyDeduplicationWorkflow("cache", "out", "in").threshold
        0.8
    """

    cache_path: str | None
    output_path: str
    input_path: str | list[str] | None = None
    input_filetype: FileType = "parquet"
    input_blocksize: str | int | None = None
    input_file_extensions: list[str] | None = None
    read_kwargs: dict[str, Any] | None = None
    cache_kwargs: dict[str, Any] | None = None
    write_kwargs: dict[str, Any] | None = None
    text_field: str = "text"
    perform_removal: bool = False
    seed: int = 42
    char_ngrams: int = 24
    num_bands: int = 20
    minhashes_per_band: int = 13
    use_64_bit_hash: bool = False
    bands_per_iteration: int = 5
    lsh_num_output_partitions: int | None = None
    lsh_rmm_pool_size: int | Literal["auto"] | None = "auto"
    lsh_spill_memory_limit: int | Literal["auto"] | None = "auto"
    env_vars: dict[str, Any] | None = None
    use_async_memory: bool = True
    _: KW_ONLY
    threshold: float = 0.8
    word_ngrams: int | None = None
    method: Method = "one_permutation"
    verification: Verification = "exact"
    clustering: Clustering = "star"
    keep: str | Keep | Sequence[str | Keep] = "first"
    id_field: str | None = None
    index_path: str | None = None
    output_filetype: FileType | None = None
    mode: Mode = "error"

    def __post_init__(self) -> None:
        if self.word_ngrams is not None and self.char_ngrams != 24:
            raise PipelineError("shingles are either of characters or of words; give char_ngrams or word_ngrams")
        if self.output_filetype is not None:
            check_filetype(self.output_filetype, "output_filetype")
        self._deduplication()
        warn_unused(
            self,
            "cache_kwargs",
            "use_64_bit_hash",
            "bands_per_iteration",
            "lsh_num_output_partitions",
            "lsh_rmm_pool_size",
            "lsh_spill_memory_limit",
            "env_vars",
            "use_async_memory",
        )

    @property
    def shingles(self) -> Shingles:
        """The shingles of two texts that are compared."""
        if self.word_ngrams is not None:
            return Shingles(self.word_ngrams, "words", self.seed)
        return Shingles(self.char_ngrams, "characters", self.seed)

    def _deduplication(self) -> Deduplication:
        return Deduplication(
            name="fuzzy_deduplication",
            source=DocumentFiles(
                self.input_path,
                self.input_filetype,
                self.input_blocksize,
                extensions=self.input_file_extensions,
                read_kwargs=self.read_kwargs or {},
            ),
            stage=FuzzyDuplicates(
                text_field=self.text_field,
                threshold=self.threshold,
                shingles=self.shingles,
                num_hashes=self.num_bands * self.minhashes_per_band,
                bands=Bands(self.num_bands, self.minhashes_per_band),
                method=self.method,
                verification=self.verification,
                clustering=self.clustering,
                keep=self.keep,
                id_field=self.id_field,
                index_path=self.index_path,
            ),
            output_path=self.output_path,
            groups="FuzzyDuplicateGroups",
            ids="FuzzyDuplicateIds",
            settings="fuzzy_id_generator.json",
            removes=self.perform_removal,
            filetype=self.output_filetype,
            write_kwargs=self.write_kwargs,
            mode=self.mode,
        )
