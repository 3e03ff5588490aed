"""The workflow that finds documents with the same text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

from dcurate.errors import PipelineError
from dcurate.groups.exact import ExactDuplicates
from dcurate.groups.keep import Keep
from dcurate.io.output import Mode
from dcurate.workflows.deduplication import Deduplication, DeduplicationWorkflow
from dcurate.workflows.files import DocumentFiles, FileType, check_filetype, warn_unused


@dataclass
class ExactDeduplicationWorkflow(DeduplicationWorkflow):
    """Find documents with equal text in files, and remove all but one of each group, or write the ids of the others.

    Args:
        output_path: a folder, local or a URL. With ``perform_removal`` it has the documents that stay in
            ``deduplicated/`` and the groups of duplicates, as Parquet, in ``ExactDuplicateGroups/``; else the ids of
            documents to remove in ``ExactDuplicateIds/``, with their group, its size, and the id of the one that stays.
        input_path: files, directories or globs.
        input_filetype: ``"parquet"`` or ``"jsonl"``.
        input_blocksize: bytes of a split, as a number or text; by default files are cut at 128 MiB.
        input_file_extensions: if they differ from those of the format.
        read_kwargs, write_kwargs: for the reader and the writers, with ``storage_options``.
        assign_id: generate ids, for documents without; they are in the column ``_curator_dedup_id``, and
            ``exact_id_generator.json`` records for which files they are valid.
        id_field: the column of ids, with ``assign_id=False``.
        text_field: the column to compare.
        perform_removal: see above.
        fields, normalize, keep: settings of the search, as in `ExactDuplicates`.
        output_filetype: format of the documents that stay; by default that of the input.
        mode: what to do about existing files, as in `ParquetWriter`.
        identification_batch_size, total_nparts, rmm_pool_size, spill_memory_limit, env_vars, use_async_memory: settings
            of NeMo Curator for its GPU memory and processes; without effect here.

    Raises:
        PipelineError: arguments that do not go together.

    Examples:
        >>> import json, pathlib, tempfile
        >>> from dcurate import InlineExecutor
        >>> folder = tempfile.mkdtemp()
        >>> rows = [{"text": "a"}, {"text": "b"}, {"text": "a"}]
        >>> _ = pathlib.Path(folder, "in.jsonl").write_text("".join(json.dumps(row) + chr(10) for row in rows))
        >>> workflow = ExactDeduplicationWorkflow(f"{folder}/out", f"{folder}/in.jsonl", "jsonl", perform_removal=True)
        >>> workflow.run(InlineExecutor()).metadata["num_duplicates"]
        1
    """

    output_path: str
    input_path: str | list[str] | None = None
    input_filetype: FileType = "parquet"
    input_blocksize: str | int | None = None
    identification_batch_size: int = 1
    input_file_extensions: list[str] | None = None
    read_kwargs: dict[str, Any] | None = None
    write_kwargs: dict[str, Any] | None = None
    assign_id: bool = True
    id_field: str | None = None
    text_field: str = "text"
    perform_removal: bool = False
    total_nparts: int | None = None
    rmm_pool_size: int | Literal["auto"] | None = "auto"
    spill_memory_limit: int | Literal["auto"] | None = "auto"
    env_vars: dict[str, Any] | None = None
    use_async_memory: bool = True
    _: KW_ONLY
    fields: list[str] | None = None
    normalize: Sequence[str] = ()
    keep: str | Keep | Sequence[str | Keep] = "first"
    output_filetype: FileType | None = None
    mode: Mode = "error"

    def __post_init__(self) -> None:
        if self.assign_id and self.id_field is not None:
            raise PipelineError(
                f"ids are either made or in column {self.id_field!r}; for the latter give assign_id=False"
            )
        if not self.assign_id and self.id_field is None:
            raise PipelineError("assign_id=False needs id_field, the column of ids")
        if self.output_filetype is not None:
            check_filetype(self.output_filetype, "output_filetype")
        self._deduplication()
        warn_unused(
            self,
            "identification_batch_size",
            "total_nparts",
            "rmm_pool_size",
            "spill_memory_limit",
            "env_vars",
            "use_async_memory",
        )

    def _deduplication(self) -> Deduplication:
        return Deduplication(
            name="exact_deduplication",
            source=DocumentFiles(
                self.input_path,
                self.input_filetype,
                self.input_blocksize,
                extensions=self.input_file_extensions,
                read_kwargs=self.read_kwargs or {},
            ),
            stage=ExactDuplicates(self.text_field, self.fields, self.normalize, self.keep, id_field=self.id_field),
            output_path=self.output_path,
            groups="ExactDuplicateGroups",
            ids="ExactDuplicateIds",
            settings="exact_id_generator.json",
            removes=self.perform_removal,
            filetype=self.output_filetype,
            write_kwargs=self.write_kwargs,
            mode=self.mode,
        )
