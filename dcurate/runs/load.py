"""A run as it was left beside its output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from dcurate.core.report import RunReport
from dcurate.runs.history import History


@dataclass(frozen=True)
class RecordedRun:
    """What is known of a run that is over.

    Attributes:
        report: what it did.
        history: how it went over time; of a run that left none, one that was told nothing.
        about: its stages and their settings, thresholds, versions: see `dcurate.runs.manifest.provenance`.
        address: where its records stand.
        missing: what there is not, in sentences.
    """

    report: RunReport
    history: History = field(default_factory=History)
    about: Mapping[str, Any] = field(default_factory=dict)
    address: str = ""
    missing: tuple[str, ...] = ()

    @classmethod
    def of(cls, report: Mapping[str, Any], history: Mapping[str, Any] | None, address: str = "") -> Self:
        """The run of these records, of this version of dcurate or of an earlier one.

        Args:
            report: what ``report.json`` holds.
            history: what ``history.json`` holds, if it is there.
        """
        known = {name: value for name, value in report.items() if name != "about"}
        about = report.get("about", {})
        missing = []
        if history is None:
            missing.append("there is no history.json, so nothing is known of how it went over time")
        if not about:
            missing.append("report.json says nothing about settings, thresholds and versions")
        if history is None or not about:
            missing.append("runs of earlier versions of dcurate left less")
        return cls(
            report=RunReport.from_dict(known),
            history=History() if history is None else History.from_dict(history),
            about=about,
            address=address,
            missing=tuple(missing),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold: the report, and ``about`` it."""
        return {**self.report.to_dict(), "about": dict(self.about)}
