"""Policies: what they see of a run, and what they may suggest."""

from dcurate.engine.policies.autoscaling import Autoscaling
from dcurate.engine.policies.balancing import Balancing
from dcurate.engine.policies.recycling import Recycling
from dcurate.engine.policies.speculation import Speculation
from dcurate.engine.policies.stalls import StallDetection
from dcurate.engine.policies.view import (
    LookAgain,
    Notice,
    OperatorView,
    Policy,
    Recycle,
    RunView,
    Scale,
    SetSlots,
    Stop,
    Suggestion,
    WorkerView,
)

__all__ = [
    "Autoscaling",
    "Balancing",
    "LookAgain",
    "Notice",
    "OperatorView",
    "Policy",
    "Recycle",
    "Recycling",
    "RunView",
    "Scale",
    "SetSlots",
    "Speculation",
    "StallDetection",
    "Stop",
    "Suggestion",
    "WorkerView",
]
