"""Characters of a page by the direction in which their lines run; oblique ones are turned upright."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dcurate.documents.pdf.native import Characters
from dcurate.kernels.pdf.characters import ANGLE, OBLIQUE, TURN, UPRIGHT

_QUARTER = math.pi / 2
#: In radians: largest angle between lines of the same direction, and largest angle of text that is read against the
#: direction of most, or against a right angle to it.
_SAME, _LARGEST = math.radians(0.75), math.radians(15)
#: The angle below which text is straight, and the widths in which the angles of a page are counted.
_STRAIGHT, _STEP = math.radians(0.1), math.radians(0.25)
#: Most directions of a page that are read, and fewest characters of each oblique one after the first.
_MOST, _FEWEST = 4, 8
#: The quarter turns that vertical writing is read with.
_DOWNWARDS = 3


class TextRun(NamedTuple):
    """Characters whose lines run one way.

    Args:
        characters: all characters of the page; these have ``turn`` as their direction.
        turn: quarter turns against the clock, or `dcurate.kernels.pdf.characters.UPRIGHT`.
        total: number of characters in this direction.
        skew_degrees: the angle of their lines against the nearest quarter turn, with the clock.
        sideways: whether they run at right angles to most of the text, or against it.
    """

    characters: Characters
    turn: int
    total: int
    skew_degrees: float = 0.0
    sideways: bool = False


def runs_of(characters: Characters, box: list[float]) -> list[TextRun]:
    """The directions of the text of a page that is read, the most frequent one first.

    Next are vertical writing beside lines across, and lines within 15 degrees of the first; then lines within 15
    degrees of a right angle to it, and upside down.

    Args:
        characters: characters of the page.
        box: edges of the page: left, bottom, right, top.
    """
    turns = characters.objects[:, TURN]
    if not (len(turns) and turns.any()):
        return [TextRun(characters, 0, len(characters.codes))]
    if (turns == OBLIQUE).any():
        return _skewed(characters, box)
    counts = np.bincount(turns[characters.owners], minlength=UPRIGHT + 1)
    turn = int(counts[:OBLIQUE].argmax())
    chosen = [turn, UPRIGHT] if turn == 0 else [turn]
    if counts[UPRIGHT] > counts[turn]:
        chosen = [UPRIGHT, 0]
    if counts[
        UPRIGHT
    ]:  # its lines run as those of three quarters, such as Latin words in vertical writing: read as one
        counts[UPRIGHT] += counts[_DOWNWARDS]
        counts[_DOWNWARDS] = 0
        chosen = [UPRIGHT if turn == _DOWNWARDS else turn for turn in chosen]
    secondary = [turn for turn in (0, 1, 2, _DOWNWARDS, UPRIGHT) if turn not in chosen]
    secondary.sort(key=lambda turn: -counts[turn])
    return [
        TextRun(characters, turn, int(counts[turn]), sideways=turn not in chosen)
        for turn in (chosen[0], *(turn for turn in (*chosen[1:], *secondary) if counts[turn]))
    ]


def main_turn(characters: Characters, otherwise: int) -> int:
    """The quarter turns of most of the text of a page; `otherwise` for a page without text."""
    counts = np.bincount(characters.objects[characters.owners, TURN], minlength=OBLIQUE + 1)[:OBLIQUE]
    return int(counts.argmax()) if counts.any() else otherwise


def _skewed(characters: Characters, box: list[float]) -> list[TextRun]:
    """The runs of a page with oblique text."""
    counts = np.bincount(characters.owners, minlength=len(characters.objects))
    angles = characters.objects[:, ANGLE] / 1e6
    quarters = np.floor(angles / _QUARTER + 0.5).astype(np.int64)
    skews = angles - quarters * _QUARTER
    quarters &= 3
    upright = characters.objects[:, TURN] == UPRIGHT
    remaining = np.where(upright, 0, counts)
    directions: list[tuple[int, int, float, npt.NDArray[np.bool_]]] = []
    while remaining.any() and len(directions) < _MOST:
        quarter = int(np.bincount(quarters, remaining, 4).argmax())
        weights = np.where(quarters == quarter, remaining, 0)
        places = np.floor(skews / _STEP).astype(np.int64) + 400
        near = np.convolve(np.bincount(places, weights, 801), np.ones(3), "same")
        middle = (int(near.argmax()) - 400 + 0.5) * _STEP
        members = (weights > 0) & (np.abs(skews - middle) <= _SAME)
        if not members.any():
            break
        skew = _median(skews[members], weights[members])
        directions.append((int(remaining[members].sum()), quarter, 0.0 if abs(skew) < _STRAIGHT else skew, members))
        remaining = np.where(members, 0, remaining)
    directions.sort(key=lambda direction: -direction[0])
    runs: list[TextRun] = []
    read = np.zeros(len(upright), np.bool_)
    for count, quarter, skew, members in directions:
        apart = _apart(directions[0], quarter, skew)
        sideways = apart > _LARGEST
        if sideways and abs((apart + _QUARTER / 2) % _QUARTER - _QUARTER / 2) > _LARGEST:
            continue
        if runs and count < _FEWEST and (skew or not sideways):
            continue
        made = _turned(characters, quarter, skew, members, box)
        runs.append(TextRun(made, quarter, count, -round(math.degrees(skew), 2) or 0.0, sideways))
        read |= members
    if counts[upright].sum():
        objects = characters.objects.copy()
        objects[read & ~upright, TURN] = OBLIQUE
        made = characters._replace(objects=objects)
        runs.append(TextRun(made, UPRIGHT, int(counts[upright].sum()), sideways=runs[0].turn != 0))
    return sorted(runs, key=lambda run: run.sideways)


def _apart(direction: tuple[int, int, float, npt.NDArray[np.bool_]], quarter: int, skew: float) -> float:
    """The angle between two directions, in radians."""
    angle = (quarter - direction[1]) * _QUARTER + skew - direction[2]
    return abs((angle + math.pi) % (2 * math.pi) - math.pi)


def _median(values: npt.NDArray[np.float64], weights: npt.NDArray[np.int64]) -> float:
    order = np.argsort(values, kind="stable")
    sums = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(sums, sums[-1] / 2)])


def _turned(
    characters: Characters, quarter: int, skew: float, members: npt.NDArray[np.bool_], box: list[float]
) -> Characters:
    """Return characters with the skew of some objects removed, and a quarter turn as their direction."""
    objects = characters.objects.copy()
    objects[:, TURN] = np.where(members, quarter, np.where(objects[:, TURN] == quarter, OBLIQUE, objects[:, TURN]))
    first = np.searchsorted(characters.owners, np.arange(len(objects)))
    starts = characters.places[np.minimum(first, len(characters.places) - 1)][:, [0, 2]].astype(np.float64)
    middle = np.array([(box[0] + box[2]) / 2, (box[1] + box[3]) / 2])
    middle = np.array(
        [(middle[0], -middle[1]), (middle[1], middle[0]), (-middle[0], middle[1]), -middle[::-1]][quarter]
    )
    along, down = (starts - middle).T
    cosine, sine = math.cos(skew), math.sin(skew)
    moved = np.stack([along * cosine - down * sine, along * sine + down * cosine], axis=1) + middle - starts
    moved[~members] = 0
    by = moved[characters.owners].astype(np.float32)
    places = characters.places.copy()
    places[:, :2] += by[:, :1]
    places[:, 2] += by[:, 1]
    return characters._replace(objects=objects, places=places)
