"""Images with the same bytes or the same pixels, over a whole dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

from dcurate.core.stage import Spec, Stage
from dcurate.errors import PipelineError, nearest
from dcurate.groups.exact import ExactDuplicates
from dcurate.groups.keep import Keep
from dcurate.groups.resolve import COLUMNS, FLAGS, Action, SearchForDuplicates
from dcurate.images.duplicates.reading import DIGEST, FileDigest, PixelDigest
from dcurate.images.reading import LIBRARIES, ImageReading
from dcurate.media.refs import check_has_media

By = Literal["bytes", "pixels"]


@dataclass
class ImageExactDuplicates(SearchForDuplicates):
    """Keep one of all images with the same bytes, or with the same pixels, over a whole dataset.

    Args:
        by: ``"bytes"`` compares files as they are, any files; ``"pixels"`` decodes them, so that the same picture as
            PNG and as lossless WebP, or with other metadata, is a duplicate.
        keep: rule for which of several copies to keep: ``"first"`` in the order of the source, ``Highest("score")``,
            ``Lowest("size")`` or ``Preferred("source", ["books", "web"])``.
        action: ``"drop"`` the others; ``"flag"`` to keep all rows and add the columns ``duplicate_group`` and
            ``is_duplicate``; ``"identify"`` for a row for each member of a group instead. As in `ExactDuplicates`.
        id_field, report_path: same settings as in `ExactDuplicates`.
        reading: limits, and whether pictures are decoded in a child process.
        name: name of the stage.

    The bytes of each file are fetched once and not kept: what is shuffled is a hash of 128 bits (XXH3). The result is
    the same for any number of workers and any partitioning of the files. A file that cannot be fetched or decoded goes
    to quarantine; a row without a file is kept, and is a duplicate of nothing.

    Raises:
        PipelineError: an unknown setting.

    Examples:
        >>> ImageExactDuplicates(by="pixels", keep="first").by
        'pixels'
    """

    by: By = "bytes"
    keep: str | Keep = "first"
    action: Action = "drop"
    id_field: str | None = None
    report_path: str | None = None
    reading: ImageReading = field(default_factory=ImageReading)
    name: str = "image_exact_duplicates"

    uses_columns_again: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.by not in get_args(By):
            raise PipelineError(f"{self.name}: no by={self.by!r}{nearest(str(self.by), get_args(By))}")
        if self.keep == "longest":
            raise PipelineError(f'{self.name}: keep="longest" is for texts; use "first", or a rule on a column')
        self._exact()

    def _exact(self) -> ExactDuplicates:
        return ExactDuplicates(
            fields=[DIGEST],
            keep=self.keep,
            action=self.action,
            id_field=self.id_field,
            report_path=self.report_path,
            name=self.name,
        ).hiding(DIGEST)

    def inputs(self) -> Spec:
        needed, columns = self._exact().inputs()
        return needed, [name for name in columns if name != DIGEST]

    def columns_read(self) -> None:
        """None: files are looked up in whatever columns say where they are."""

    def outputs(self) -> Spec:
        if self.action == "identify":
            return [], COLUMNS
        return [], FLAGS if self.action == "flag" else []

    def check_columns(self, columns: Sequence[str]) -> None:
        super().check_columns(columns)
        check_has_media(columns, self.name)

    def requires(self) -> dict[str, str]:
        return {} if self.by == "bytes" else LIBRARIES

    def settings(self) -> dict[str, Any]:
        settings = {name: value for name, value in super().settings().items() if name not in ("report_path", "reading")}
        return {**settings, "reading": self.reading.limits}

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        kind = FileDigest if self.by == "bytes" else PixelDigest
        return [kind(reading=self.reading, name=f"{self.name}_digests"), *self._exact().map_stages(url, options)]

    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> list[Stage]:
        return self._exact().reduce_stages(url, options, splits)
