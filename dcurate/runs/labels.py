"""Names of what runs, as a person is shown them: in words of the stages that were written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def operator_labels(
    operators: Sequence[Sequence[str]], stages: Sequence[str], owners: Mapping[str, str], phase: int
) -> list[str]:
    """A name for each operator of a round, which no other of the round has.

    Args:
        operators: names of the stages of each.
        stages: names of the stages of the pipeline, as a person wrote them.
        owners: the stage that others are part of.
        phase: the number of the round, from 0.

    Examples:
        >>> owners = {"near_bands": "near", "near_pairs": "near", "near_to_disk": "near", "near_from_disk": "near"}
        >>> stages = ["reader", "words", "near", "writer"]
        >>> operator_labels([["reader", "words", "near_to_disk"]], stages, owners, 0)
        ['reader to near']
        >>> operator_labels([["near_bands", "near_pairs"]], stages, owners, 1)
        ['near, round 2']
        >>> operator_labels([["near_from_disk", "near"], ["writer"]], stages, owners, 2)
        ['near', 'writer']
    """
    labels: list[str] = []
    for names in operators:
        shown = list(dict.fromkeys(name if name in stages else owners.get(name, name) for name in names))
        label = shown[0] if len(shown) == 1 else f"{shown[0]} to {shown[-1]}"
        if owners.keys() >= {*names} and not {*names} & {*stages}:
            label = f"{label}, round {phase + 1}"
        number = sum(taken == label or taken.startswith(f"{label}, part ") for taken in labels)
        labels.append(f"{label}, part {number + 1}" if number else label)
    return labels
