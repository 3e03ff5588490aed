"""Draw the rows of packages in `docs/architecture.md`: ``python -m dcurate_testing.draw_packages``."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
PICTURE = DOCS / "assets" / "architecture.svg"

#: Fill and line of a box.
ORANGE, GREEN, BLUE, GREY = (
    ("#f3e3d3", "#b0713a"),
    ("#dcebe0", "#3f7d57"),
    ("#dbe6f3", "#3d6a9e"),
    ("#ece9e2", "#8a8371"),
)
#: Packages that know Dask.
ENGINE = {"engine", "cluster", "plan", "isolate"}
LEFT, WIDTH, GAP, HEIGHT, PITCH = 40, 820, 6, 32, 58


def rows() -> list[tuple[str, list[str]]]:
    """Return the title and the packages of each row of the table, from the top."""
    _, table = (DOCS / "architecture.md").read_text().split("| row | packages |\n", 1)
    lines = re.findall(r"^ *\| ([^|-][^|]*) \|([^|]+)\|$", table.split("\n\n")[0], re.MULTILINE)
    return [(title, re.findall(r"`(\w+)`", packages)) for title, packages in lines]


def colour(row: int, package: str) -> tuple[str, str]:
    """Return the fill and the line of a package's box: programs and runs, the catalogue, the engine, the ground."""
    return (
        ORANGE
        if row < 2
        else BLUE
        if package in ENGINE
        else GREY
        if package in ("kernels", "rows") or row > 7
        else GREEN
    )


def picture() -> str:
    """Return the picture as SVG."""
    table = rows()
    said = "; ".join(f"{title}: {', '.join(packages)}" for title, packages in table)
    height = PITCH * len(table) + 32
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 {height}" role="img" aria-labelledby="title desc" '
        'font-family="Helvetica, Arial, sans-serif">',
        '<title id="title">The packages of dcurate</title>',
        f'<desc id="desc">Rows from top to bottom; imports point down only. {said}.</desc>',
        f'<rect width="900" height="{height}" rx="12" fill="#fbfaf7"/>',
    ]
    for row, (title, packages) in enumerate(table):
        top = 33 + PITCH * row
        drawn.append(f'<text x="{LEFT}" y="{top - 5}" font-size="12" fill="#4b5262">{title}</text>')
        size, x = 15 if len(packages) < 9 else 12, float(LEFT)
        share = (WIDTH - GAP * (len(packages) - 1)) / sum(len(package) + 3 for package in packages)
        for package in packages:
            fill, line = colour(row, package)
            width = share * (len(package) + 3)
            drawn += [
                f'<rect x="{x:.1f}" y="{top}" width="{width:.1f}" height="{HEIGHT}" rx="6" fill="{fill}" '
                f'stroke="{line}" stroke-width="1.5"/>',
                f'<text x="{x + width / 2:.1f}" y="{top + 21}" text-anchor="middle" font-size="{size}" '
                f'font-weight="bold" fill="#1f2430">{package}</text>',
            ]
            x += width + GAP
    return "\n".join([*drawn, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(picture())
