"""`PdfReader`: PDFs in directories and archives, as rows that refer to their bytes."""

from __future__ import annotations

from dataclasses import dataclass, field

from dcurate.media.reader import MediaReader


@dataclass
class PdfReader(MediaReader):
    """Read PDFs as rows that refer to them; `PdfExtract` makes text of them.

    A row is a PDF: a file of its own, a member of a zip or tar archive, a record of a WARC file, or a line of JSON
    Lines with its bytes in base64. See `MediaReader` for the columns, and for what goes to quarantine. Bytes are not
    read here but where they are needed.

    Files in directories and archives are PDFs by their ending, ``.pdf``; records of web archives by the type that the
    server or the crawler gave. Files that have another ending are read with ``kinds=None``, which takes all.

    Args:
        file_paths: files, directories (searched recursively) and globs, local or URLs.
        files_per_partition: files of one split.
        blocksize: split size on disk, as bytes or ``"64MiB"``: larger archives are cut, smaller files packed.
        fields: the columns to keep, in this order; all by default.
        read_kwargs: for pipelines written for pandas: only ``storage_options`` is taken.
        storage_options: for fsspec; `PdfExtract` needs them, too.
        schema: types of columns by name, to override those found.
        limit: number of rows to read, at most: the first ones in the order of the files.
        frames: leave it at ``"arrow"``: stages that read files take their rows on the CPU.
        kinds: the kinds of files that are wanted; None for all.
        bytes_field: the column of JSON Lines that holds the bytes in base64.

    Raises:
        PipelineError: incompatible settings.

    Examples:
        >>> PdfReader(["crawl/*.warc.gz", "CC-MAIN-2021-31-PDF-UNTRUNCATED/zipfiles"]).kinds
        ['pdf']
    """

    kinds: list[str] | None = field(default_factory=lambda: ["pdf"])
    name: str = "pdf_reader"
