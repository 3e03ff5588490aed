"""Outputs of the heads of NVIDIA's prompt classifier: tasks, dimensions of complexity, and their combined score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.errors import DataError

#: The columns, as NeMo Curator orders them.
OUTPUT_FIELDS = (
    "prompt_complexity_score",
    "task_type_1",
    "task_type_2",
    "task_type_prob",
    "creativity_scope",
    "reasoning",
    "contextual_knowledge",
    "number_of_few_shots",
    "domain_knowledge",
    "no_label_reason",
    "constraint_ct",
)
#: What each head is about, in the order of the heads.
TARGETS = ("task_type", *OUTPUT_FIELDS[4:])
#: The share of each dimension in the score.
WEIGHTS = {
    "creativity_scope": 0.35,
    "reasoning": 0.25,
    "constraint_ct": 0.15,
    "domain_knowledge": 0.15,
    "contextual_knowledge": 0.05,
    "number_of_few_shots": 0.05,
}
_LEAST_SECOND, _LEAST_SHOTS = 0.1, 0.05

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Scales:
    """Mapping from classes of the heads to tasks and numbers, from the model's ``config.json``.

    Args:
        tasks: names of the tasks, in the order of the first head's classes.
        weights: for each dimension the weight of each class.
        divisors: for each dimension the divisor of the sum.
    """

    tasks: tuple[str, ...]
    weights: Mapping[str, Sequence[float]]
    divisors: Mapping[str, float]

    @classmethod
    def of(cls, config: Mapping[str, Any], sizes: Mapping[str, int], what: str) -> Scales:
        """Read them from a configuration, and check them against the number of classes of each head.

        Raises:
            DataError: some are missing, or they do not fit the heads.
        """
        try:
            tasks = tuple(config["task_type_map"][str(number)] for number in range(sizes["task_type"]))
            weights = {target: tuple(map(float, config["weights_map"][target])) for target in TARGETS[1:]}
            divisors = {target: float(config["divisor_map"][target]) for target in TARGETS[1:]}
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"config.json of {what} has no {error} in task_type_map, weights_map or divisor_map"
            ) from error
        for target, factors in weights.items():
            if len(factors) != sizes[target] or not divisors[target]:
                raise DataError(
                    f"config.json of {what}: weights_map has {len(factors)} weights for {target!r}, "
                    f"whose head has {sizes[target]} classes"
                )
        return cls(tasks, weights, divisors)


def complexity(logits: Mapping[str, npt.NDArray[Any]], scales: Scales) -> dict[str, Floats | list[str]]:
    """The eleven columns, from the outputs of the heads.

    ``task_type_1`` and ``task_type_2`` are the likeliest tasks, the second ``"NA"`` below a probability of 0.1, and
    ``task_type_prob`` is the probability of the first, to three digits. Each dimension is the mean of its classes'
    weights by their probabilities, to four digits, few shots below 0.05 being 0; the score is their weighted sum, to
    five.

    Args:
        logits: for each of `TARGETS` an array of shape (rows, classes).
    """
    columns: dict[str, Floats | list[str]] = {}
    tasks = _softmax(logits["task_type"])
    order = np.argsort(-tasks, axis=1, kind="stable")[:, :2]
    likely = np.round(np.take_along_axis(tasks, order, axis=1), 3)
    dimensions = {target: _mean(logits[target], scales, target) for target in TARGETS[1:]}
    shots = dimensions["number_of_few_shots"]
    dimensions["number_of_few_shots"] = np.where(shots >= _LEAST_SHOTS, shots, 0.0)
    score = sum((weight * dimensions[target] for target, weight in WEIGHTS.items()), np.zeros(len(tasks)))
    columns["prompt_complexity_score"] = np.round(score, 5)
    columns["task_type_1"] = [scales.tasks[number] for number in order[:, 0]]
    columns["task_type_2"] = [
        scales.tasks[number] if probability >= _LEAST_SECOND else "NA"
        for number, probability in zip(order[:, 1], likely[:, 1], strict=True)
    ]
    columns["task_type_prob"] = likely[:, 0]
    return {**columns, **dimensions}


def _mean(logits: npt.NDArray[Any], scales: Scales, target: str) -> Floats:
    mean: Floats = np.round(_softmax(logits) @ np.array(scales.weights[target]) / scales.divisors[target], 4)
    return mean


def _softmax(logits: npt.NDArray[Any]) -> Floats:
    powers: Floats = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True, initial=-np.inf))
    shares: Floats = powers / powers.sum(axis=1, keepdims=True)
    return shares
