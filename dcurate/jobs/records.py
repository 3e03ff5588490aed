"""Values of a job that travel as dicts: its pipeline, its state, and the lines of its log."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, NamedTuple, Self

#: States in which a job goes on, and those in which it has ended.
LIVE, ENDED = ("waiting", "starting", "running", "stopping"), ("done", "failed", "stopped")
#: The forms in which a pipeline travels.
Form = Literal["recipe", "script", "pickle"]


@dataclass(frozen=True)
class JobSpec:
    """What a job runs, as it travels to its driver.

    Args:
        form: ``recipe``: ``payload`` is the text of a recipe; ``script``: that of a program, of which ``attribute`` is
            the pipeline; ``pickle``: a pickled pipeline.
        title: what people know it by: the name of the recipe, of the script or of the pipeline.
        payload: the text or the pickle.
        attribute: the name of the pipeline in a script, or of a function that returns it.
        settings: params of the recipe, or keyword arguments of the function.
        executor: settings of `dcurate.DaskExecutor`.
        resume: whether the first attempt resumes an earlier run.
        rejected: folder for rejected rows.
        examples: whether the report shows excerpts.
        proof: whether the run leaves a proof of every row.
        trust: whether the recipe may run any code.
        folder: where relative paths begin.
        heartbeat: file that the driver renews, and ``webhook`` to which it posts states, as `dcurate.ui.heartbeat` has
            them; None for none.
        openlineage: where events of OpenLineage go, as `dcurate.ui.OpenLineageSettings` has it; empty for nowhere.
    """

    form: Form
    title: str
    payload: bytes
    attribute: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    executor: Mapping[str, Any] = field(default_factory=dict)
    resume: bool = False
    rejected: str | None = None
    examples: bool = True
    proof: bool = False
    trust: bool = False
    folder: str = field(default_factory=os.getcwd)
    heartbeat: str | None = None
    webhook: str | None = field(default=None, repr=False)
    openlineage: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Make one of the values that `to_dict` gives."""
        return cls(**values)


@dataclass(frozen=True)
class JobRecord:
    """State of a job.

    Attributes:
        id: eight hexadecimal digits.
        name: given by its owner, or the title of what it runs; of the jobs that go on, no two have the same.
        owner: user and host that submitted it, as ``alice@host``.
        title: what it runs: a recipe, a script, a pipeline.
        state: ``waiting``, ``starting``, ``running``, ``stopping``, ``done``, ``failed`` or ``stopped``.
        why: why it waits, or what ended it; empty elsewhere.
        submitted: seconds since the epoch, as are ``started`` and ``ended``, which are None before.
        attempt: number of the driver that runs it, from 1; 0 before the first.
        driver: host and process id of the driver, as ``host:4711``.
        run: id of the run.
        output: where the run writes, without secrets.
        progress: the progress in one line.
        splits: source splits of the present round; None until they are listed. ``splits_done`` have been finished.
        rows_in: rows read, and ``rows_out`` rows written, of the present round.
        exit_code: 0 done, 1 failed, 143 stopped; None while it goes on.

    Examples:
        >>> JobRecord("7f3a90c1", "monday", "alice@host", "recipe.yaml").is_live
        True
    """

    id: str
    name: str
    owner: str
    title: str
    state: str = "waiting"
    why: str = ""
    submitted: float = 0.0
    started: float | None = None
    ended: float | None = None
    attempt: int = 0
    driver: str = ""
    run: str = ""
    output: str = ""
    progress: str = ""
    splits: int | None = None
    splits_done: int = 0
    rows_in: int = 0
    rows_out: int = 0
    exit_code: int | None = None

    @property
    def is_live(self) -> bool:
        """Whether the job goes on."""
        return self.state in LIVE

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Make one of the values that `to_dict` gives; values that this version does not know are left out."""
        known = {member.name for member in fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in known})


class LogLine(NamedTuple):
    """A line of a job's log.

    Attributes:
        time: seconds since the epoch.
        source: ``driver``, ``scheduler``, or the name of the worker, which is its address unless it was given another.
        level: a level of Python's logging, such as ``WARNING``; ``OUT`` for what the program prints.
        text: the line, without secrets.

    Examples:
        >>> LogLine(1795926539.2, "driver", "OUT", "9 of 10 splits").text
        '9 of 10 splits'
    """

    time: float
    source: str
    level: str
    text: str

    def to_dict(self) -> dict[str, Any]:
        """The same by name."""
        return self._asdict()
