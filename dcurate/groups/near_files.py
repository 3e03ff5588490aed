"""The steps that near-duplicates of images, recordings and films share: files, each with a fingerprint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

from dcurate.core.stage import Spec
from dcurate.errors import PipelineError, nearest
from dcurate.frames.columns import with_values
from dcurate.groups.clusters import Clustering
from dcurate.groups.keep import Keep
from dcurate.groups.near_stage import EntryWriter, NearDuplicateStage
from dcurate.groups.resolve import check_action
from dcurate.groups.verify import NearDuplicates
from dcurate.media.refs import check_has_media
from dcurate.media.stage import FileReading, FileStage


class NearFileDuplicates(NearDuplicateStage):
    """Base of stages that keep one of each group of files with similar fingerprints, over a whole dataset.

    Attributes:
        column: column of fingerprints.
        clusterings: values of `clustering`.
        libraries: modules that decode the files, and the extras that bring them.
        readers: readers that make such rows, for the message about rows without files.
    """

    threshold: float
    clustering: str
    keep: str | Keep | Sequence[str | Keep]
    reading: FileReading

    column: ClassVar[str]
    clusterings: ClassVar[Sequence[str]] = get_args(Clustering)
    libraries: ClassVar[Mapping[str, str]]
    readers: ClassVar[str] = FileStage.readers

    def __post_init__(self) -> None:
        check_action(self.name, self.action)
        if self.clustering not in self.clusterings:
            hint = nearest(str(self.clustering), self.clusterings)
            raise PipelineError(f"{self.name}: no clustering {self.clustering!r}{hint}")
        if not isinstance(self.threshold, int | float) or not 0 < self.threshold <= 1:
            raise PipelineError(f"{self.name}: threshold={self.threshold!r} must be a number above 0 and at most 1")
        _ = self.chosen

    @property
    def compared(self) -> str:
        return self.column

    def inputs(self) -> Spec:
        return [], [name for name in self.needed() if name != self.column]

    def columns_read(self) -> None:
        """None: files are looked up in whatever columns say where they are."""

    def check_columns(self, columns: Sequence[str]) -> None:
        super().check_columns(columns)
        check_has_media(columns, self.name, self.readers)

    def requires(self) -> dict[str, str]:
        return dict(self.libraries)

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "reading": self.reading.limits}


@dataclass(frozen=True, kw_only=True)
class NearFiles(NearDuplicates):
    """How pairs of fingerprints are verified.

    Args:
        least: similarity from which candidates are duplicates.
    """

    least: float

    column: ClassVar[str]

    @property
    def compared(self) -> list[str]:
        return [self.column]

    @property
    def threshold(self) -> float:
        return self.least

    def with_features(self, made: Any, table: Any) -> Any:
        return with_values(made, self.column, table, self.column)


class PrintEntryWriter(EntryWriter):
    """Base of writers of rows, and beside them of entries of fingerprints."""

    column: ClassVar[str]

    def inputs(self) -> Spec:
        return [], [self.column]

    def with_features(self, known: Any, table: Any, compared: Any) -> Any:
        return with_values(known, self.column, table, self.column)
