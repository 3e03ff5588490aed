"""Files with the same content, over a whole dataset: the same bytes, or the same once they are decoded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dcurate.core.stage import Spec, Stage
from dcurate.errors import PipelineError, nearest
from dcurate.groups.exact import ExactDuplicates
from dcurate.groups.keep import Keep
from dcurate.groups.resolve import COLUMNS, FLAGS, Action, SearchForDuplicates
from dcurate.media.digest import DIGEST, FileDigest
from dcurate.media.refs import check_has_media
from dcurate.media.stage import FileReading


@dataclass
class FileExactDuplicates(SearchForDuplicates):
    """Base of stages that keep one of all files with the same content, over a whole dataset.

    Args:
        by: what is compared: a key of `digests`.
        keep, action, id_field, report_path: same settings as in `ExactDuplicates`.
        reading: how files are read.
        name: name of the stage.
    """

    rounds: ClassVar[int] = 2

    by: str = "bytes"
    keep: str | Keep = "first"
    action: Action = "drop"
    id_field: str | None = None
    report_path: str | None = None
    reading: FileReading = field(default_factory=FileReading)
    name: str = "file_exact_duplicates"

    #: The stage that adds the column `DIGEST`, for each value of `by`; and the libraries of those that decode.
    digests: ClassVar[Mapping[str, Callable[..., Stage]]] = {"bytes": FileDigest}
    libraries: ClassVar[Mapping[str, str]] = {}

    uses_columns_again: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.by not in tuple(self.digests):
            raise PipelineError(f"{self.name}: no by={self.by!r}{nearest(str(self.by), self.digests)}")
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
        return {} if self.by == "bytes" else dict(self.libraries)

    def settings(self) -> dict[str, Any]:
        settings = {name: value for name, value in super().settings().items() if name not in ("report_path", "reading")}
        return {**settings, "reading": self.reading.limits}

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        return [
            self.digests[self.by](reading=self.reading, name=f"{self.name}_digests"),
            *self._exact().map_stages(url, options),
        ]

    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> list[Stage]:
        return self._exact().reduce_stages(url, options, splits)
