"""From a map of where text is to boxes around its lines, after DB (Liao et al., arXiv:1911.08947)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.layout import INLINE, OPTIONS

Floats = npt.NDArray[np.float32]

#: A pixel belongs to text from this probability on, and a box needs this mean.
THRESHOLD, BOX_THRESHOLD = 0.3, 0.5
#: How far a box grows beyond the shrunken text that DB marks: area * ratio / length of the outline.
UNCLIP = 1.6
_SMALLEST = 3
_MOST = 5000


class Box(NamedTuple):
    """A rectangle that may be turned.

    Args:
        x, y: its centre, in pixels.
        width: along the text, in pixels.
        height: across, in pixels.
        angle: angle of the text against the horizontal, in radians, clockwise as the y axis points down.
        score: the mean probability of text in it.
    """

    x: float
    y: float
    width: float
    height: float
    angle: float
    score: float

    def corners(self) -> npt.NDArray[np.float64]:
        """Its four corners: top left, top right, bottom right, bottom left as the text runs; float64 (4, 2)."""
        along = np.array([math.cos(self.angle), math.sin(self.angle)]) * self.width / 2
        across = np.array([-math.sin(self.angle), math.cos(self.angle)]) * self.height / 2
        centre = np.array([self.x, self.y])
        return np.stack(
            [centre - along - across, centre + along - across, centre + along + across, centre - along + across]
        )


def find_boxes(probabilities: Floats) -> list[Box]:
    """Find the boxes of text lines in a map of probabilities, float32 (height, width); in order from the top."""
    labels, count = components(probabilities > THRESHOLD)
    if not count:
        return []
    boxes = []
    for points in _outlines(labels, count)[:_MOST]:
        box = _least_rectangle(points)
        if box is None or min(box.width, box.height) < _SMALLEST:
            continue
        score = _mean_inside(probabilities, box)
        if score < BOX_THRESHOLD:
            continue
        grow = box.width * box.height * UNCLIP / (2 * (box.width + box.height))
        grown = box._replace(width=box.width + 2 * grow, height=box.height + 2 * grow, score=score)
        if min(grown.width, grown.height) >= _SMALLEST + 2:
            boxes.append(grown)
    return sorted(boxes, key=lambda box: (box.y, box.x))


@njit(**INLINE)
def _root(parents, label):  # type: ignore[no-untyped-def]
    while parents[label] != label:
        parents[label] = parents[parents[label]]
        label = parents[label]
    return label


@njit(**OPTIONS)
def components(mask):  # type: ignore[no-untyped-def]
    """Number the connected parts of a mask, neighbours at corners included; 0 is the background.

    Args:
        mask: bool (height, width).

    Returns:
        int32 (height, width), and how many parts there are.
    """
    height, width = mask.shape
    labels = np.zeros((height, width), np.int32)
    parents = np.zeros(height * width // 2 + 2, np.int32)
    used = 0
    for y in range(height):
        for x in range(width):
            if not mask[y, x]:
                continue
            label = 0
            for step in range(4):  # left, and the three above
                above, beside = (0, x - 1) if step == 0 else (1, x + step - 2)
                if y < above or beside < 0 or beside >= width or not labels[y - above, beside]:
                    continue
                neighbour = _root(parents, labels[y - above, beside])
                first = neighbour if not label else min(label, neighbour)
                parents[neighbour] = first
                if label:
                    parents[label] = first
                label = first
            if not label:
                used += 1
                parents[used] = used
                label = used
            labels[y, x] = label
    names = np.zeros(used + 1, np.int32)
    count = 0
    for label in range(1, used + 1):
        root = _root(parents, label)
        if not names[root]:
            count += 1
            names[root] = count
        names[label] = names[root]
    for y in range(height):
        for x in range(width):
            labels[y, x] = names[labels[y, x]]
    return labels, count


def _outlines(labels: npt.NDArray[np.int32], count: int) -> list[npt.NDArray[np.float64]]:
    """The first and last pixel of each row of each part: all that its convex hull needs; float64 (points, 2)."""
    ys, xs = np.nonzero(labels)
    owner = labels[ys, xs]
    order = np.lexsort((xs, ys, owner))
    owner, ys, xs = owner[order], ys[order], xs[order]
    new = np.ones(len(owner) + 1, np.bool_)
    new[1:-1] = (owner[1:] != owner[:-1]) | (ys[1:] != ys[:-1])
    first, last = np.flatnonzero(new[:-1]), np.flatnonzero(new[1:])
    points = np.empty((2 * len(first), 2))
    points[0::2] = np.stack([xs[first], ys[first]], 1)
    points[1::2] = np.stack([xs[last], ys[last]], 1)
    owners = owner[first]
    cuts = np.flatnonzero(owners[1:] != owners[:-1]) + 1
    return np.split(points, 2 * cuts)


def _least_rectangle(points: npt.NDArray[np.float64]) -> Box | None:
    """The rectangle of least area around points; its longer side is its width, unless it is close to upright text."""
    hull = _hull(points)
    if len(hull) < 3:
        return None
    edges = np.roll(hull, -1, 0) - hull
    angles = np.unique(np.round(np.arctan2(edges[:, 1], edges[:, 0]) % (math.pi / 2), 6))
    cos, sin = np.cos(angles), np.sin(angles)
    along = hull @ np.stack([cos, sin])
    across = hull @ np.stack([-sin, cos])
    low, high = along.min(0), along.max(0)
    top, bottom = across.min(0), across.max(0)
    best = int(np.argmin((high - low) * (bottom - top)))
    width, height = float(high[best] - low[best]), float(bottom[best] - top[best])
    middle, level = (low[best] + high[best]) / 2, (top[best] + bottom[best]) / 2
    angle = float(angles[best])
    x = middle * cos[best] - level * sin[best]
    y = middle * sin[best] + level * cos[best]
    if angle > math.pi / 4:  # the same rectangle, seen within 45 degrees of the horizontal
        angle -= math.pi / 2
        width, height = height, width
    return Box(float(x), float(y), width, height, angle, 0.0)


def _hull(points: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The convex hull of points, by Andrew's monotone chain."""
    ordered = sorted(set(map(tuple, points.tolist())))
    if len(ordered) < 3:
        return np.array(ordered)

    def chain(corners: list[tuple[float, ...]]) -> list[tuple[float, ...]]:
        kept: list[tuple[float, ...]] = []
        for x, y in corners:
            while len(kept) > 1:
                (ax, ay), (bx, by) = kept[-2], kept[-1]
                if (bx - ax) * (y - ay) - (by - ay) * (x - ax) > 0:
                    break
                kept.pop()
            kept.append((x, y))
        return kept[:-1]

    return np.array(chain(ordered) + chain(ordered[::-1]))


def _mean_inside(probabilities: Floats, box: Box) -> float:
    """The mean probability within a box."""
    corners = box.corners()
    height, width = probabilities.shape
    left, top = np.maximum(np.floor(corners.min(0)).astype(int), 0)
    right, bottom = np.minimum(np.ceil(corners.max(0)).astype(int), [width - 1, height - 1])
    if right < left or bottom < top:
        return 0.0
    ys, xs = np.mgrid[top : bottom + 1, left : right + 1]
    dx, dy = xs - box.x, ys - box.y
    cos, sin = math.cos(box.angle), math.sin(box.angle)
    inside = (abs(dx * cos + dy * sin) <= box.width / 2 + 0.5) & (abs(dy * cos - dx * sin) <= box.height / 2 + 0.5)
    return float(probabilities[top : bottom + 1, left : right + 1][inside].mean()) if inside.any() else 0.0
