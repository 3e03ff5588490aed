"""Policies that decide on slots, workers and restarts while a run goes on, and what your own may see and suggest."""

from dcurate.engine.policies import (
    Autoscaling,
    Balancing,
    LookAgain,
    Notice,
    OperatorView,
    Policy,
    Recycle,
    Recycling,
    RunView,
    Scale,
    SetSlots,
    Speculation,
    StallDetection,
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
