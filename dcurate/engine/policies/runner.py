"""Run policies one after the other, and check what they suggest. Pure."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from dcurate.engine.policies.view import (
    Allocate,
    LookAgain,
    Notice,
    Policy,
    Recycle,
    RunView,
    Scale,
    ScaleTo,
    SetSlots,
    Stop,
    Suggestion,
)
from dcurate.errors import nearest
from dcurate.redaction import LONGEST_TRACE, legible, text_of

#: A policy that yields more suggestions than this, and more than one for each worker and operator, never ends.
MAX_SUGGESTIONS = 1000


@dataclass
class Outcome:
    """What policies suggest together.

    Attributes:
        allocate: slots that workers should have; None to leave them as they are.
        slots: slots of operators, as policies of the user set them.
        recycle: workers to restart, with the reason.
        scale: wanted numbers of workers, by kind.
        scale_to: wanted number of workers, where Dask scales the cluster; None to leave it as it was.
        notices: sentences for the user.
        error: why the run should end; empty if it should not.
        policy: the name of the policy that ends it; empty for one of dcurate's own.
        trace: traceback of the exception that a policy raised.
        again_s: seconds until policies should run again.
    """

    allocate: Allocate | None = None
    slots: dict[str, SetSlots] = field(default_factory=dict)
    recycle: dict[str, str] = field(default_factory=dict)
    scale: dict[str, int] = field(default_factory=dict)
    scale_to: ScaleTo | None = None
    notices: list[str] = field(default_factory=list)
    error: str = ""
    policy: str = ""
    trace: str = ""
    again_s: float = float("inf")


class PolicyRunner:
    """Runs policies: those of a user first, so that what they suggest wins, then those of dcurate.

    Args:
        given: policies of the user. One that is a built-in policy, with other constants, replaces that.
        built_in: policies of dcurate.

    Examples:
        >>> from dcurate.engine.policies.view import OperatorView
        >>> class Stubborn:
        ...     def run(self, view):
        ...         yield SetSlots("raed", 2)
        >>> view = RunView(0.0, operators={"read": OperatorView("read", request=None)})
        >>> PolicyRunner([Stubborn()], []).run(view).notices
        ["policy Stubborn: operator 'raed' does not exist; did you mean 'read'? SetSlots is ignored"]
    """

    def __init__(self, given: Sequence[Policy], built_in: Sequence[Policy]) -> None:
        self.built_in: list[Policy] = [
            next((policy for policy in given if isinstance(policy, type(default))), default) for default in built_in
        ]
        self.given = [policy for policy in given if not any(policy is chosen for chosen in self.built_in)]
        #: The name of the policy that runs.
        self.running = ""

    def run(self, view: RunView) -> Outcome:
        """Run all policies on a view."""
        outcome = Outcome()
        for policy in self.given:
            self._run(policy, view, outcome, own=False)
        view = replace(view, pinned={name: suggestion.slots for name, suggestion in outcome.slots.items()})
        for policy in self.built_in:
            self._run(policy, view, outcome, own=True)
        return outcome

    def _run(self, policy: Policy, view: RunView, outcome: Outcome, own: bool) -> None:
        self.running = name = type(policy).__name__
        limit = MAX_SUGGESTIONS + len(view.workers) + len(view.operators)
        try:
            suggestions = list(islice(policy.run(view) or (), limit + 1))
        except Exception as error:
            advice = "please report this" if own else "correct it, or run without it"
            outcome.error = outcome.error or f"policy {name} failed: {type(error).__name__}: {text_of(error)}; {advice}"
            outcome.policy, outcome.trace = name, legible("".join(traceback.format_exception(error)), LONGEST_TRACE)
            return
        if len(suggestions) > limit:
            outcome.error, outcome.policy = f"policy {name} yields more than {limit} suggestions at a time", name
            return
        for suggestion in suggestions:
            problem = "" if own else _problem(suggestion, view)
            if problem:
                outcome.notices.append(f"policy {name}: {problem} {type(suggestion).__name__} is ignored")
            else:
                _add(outcome, suggestion, "" if own else name)


def _problem(suggestion: Suggestion, view: RunView) -> str:
    """Why a suggestion makes no sense, as a sentence; empty if it does."""
    match suggestion:
        case SetSlots(operator, slots):
            return _unknown("operator", operator, view.operators) or _not_a_number(slots, "slots", 1)
        case Recycle(worker):
            return "" if worker in view.workers else f"worker {worker!r} does not exist."
        case Scale(kind, workers):
            return _unknown("kind of workers", kind, view.kinds) or _not_a_number(workers, "workers", 0)
        case Stop() | Notice():
            return ""
        case LookAgain(seconds):
            return "" if isinstance(seconds, int | float) and seconds > 0 else f"{seconds!r} is not a time in seconds."
    return "a policy yields SetSlots, Recycle, Scale, Stop, Notice or LookAgain."


def _unknown(noun: str, name: str, known: Mapping[str, object]) -> str:
    if isinstance(name, str) and name in known:
        return ""
    near = nearest(str(name), known)
    return f"{noun} {name!r} does not exist{near if near.endswith('?') else near + '.'}"


def _not_a_number(value: object, noun: str, least: int) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return ""
    return f"{value!r} {noun} are not a whole number, at least {least}."


def _add(outcome: Outcome, suggestion: Suggestion, policy: str) -> None:
    """Add a suggestion; of two on the same thing the first counts."""
    match suggestion:
        case SetSlots(operator, _, reason):
            outcome.slots.setdefault(operator, replace(suggestion, reason=reason or f"policy {policy} suggests it"))
        case Recycle(worker, reason):
            outcome.recycle.setdefault(worker, reason or f"policy {policy} suggests it")
        case Scale(kind, workers):
            outcome.scale.setdefault(kind, workers)
        case ScaleTo():
            outcome.scale_to = suggestion
        case Stop(error):
            outcome.policy = outcome.policy if outcome.error else policy
            outcome.error = outcome.error or error
        case Notice(text):
            outcome.notices.append(text)
        case Allocate():
            outcome.allocate = suggestion
        case LookAgain(seconds):
            outcome.again_s = min(outcome.again_s, seconds)
