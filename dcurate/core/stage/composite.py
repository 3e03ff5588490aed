"""`CompositeStage`: a name for several stages in a row."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

from dcurate.core.stage.base import Stage
from dcurate.core.stage.processing import ProcessingStage, X, Y
from dcurate.errors import PipelineError, nearest


class CompositeStage(ProcessingStage[X, Y]):
    """A name for several stages in a row.

    `decompose` gives them; ``with_`` takes settings for them by name:
    ``composite.with_({"tokenizer": {"resources": Resources(cpus=2)}})``.

    Examples:
        >>> from dcurate import Modify
        >>> from dcurate.text import AddId
        >>> class Clean(CompositeStage):
        ...     def decompose(self):
        ...         return [Modify(str.strip), AddId("id")]
        >>> [stage.name for stage in Clean().decompose_and_apply_with()][-1]
        'add_id'
    """

    _with: Mapping[str, Mapping[str, Any]] = {}

    @abstractmethod
    def decompose(self) -> Sequence[Stage]:
        """Return the inner stages, at least one."""

    def process(self, task: X) -> Y | list[Y] | None:
        raise PipelineError(f"stage {self.name!r} is a composite: run it in a pipeline, which takes it apart")

    def with_(self, stage_with: Mapping[str, Mapping[str, Any]] | None = None, **unknown: Any) -> Self:  # type: ignore[override]
        """A copy of the composite in which the named inner stages have other settings.

        Raises:
            PipelineError: settings for the composite itself, which has none.
        """
        if unknown or stage_with is None:
            inner = [stage.name for stage in self.decompose()]
            raise PipelineError(
                f"stage {self.name!r} is a composite; name the inner stage: .with_({{{inner[0]!r}: {unknown or {}}}})"
            )
        changed = copy.deepcopy(self)
        object.__setattr__(changed, "_with", {**self._with, **stage_with})
        return changed

    def decompose_and_apply_with(self) -> list[Stage]:
        """The inner stages, composites among them taken apart, with the settings of `with_` applied.

        Raises:
            PipelineError: no inner stage, or settings for one that is not there.
        """
        inner: list[Stage] = []
        for stage in self.decompose():
            inner.extend(stage.decompose_and_apply_with() if isinstance(stage, CompositeStage) else [stage])
        if not inner:
            raise PipelineError(f"composite stage {self.name!r} decomposes into no stage at all")
        names = [stage.name for stage in inner]
        for wanted in self._with:
            if wanted not in names:
                raise PipelineError(f"composite {self.name!r} has no inner stage {wanted!r}{nearest(wanted, names)}")
        return [stage.with_(**self._with[stage.name]) if stage.name in self._with else stage for stage in inner]
