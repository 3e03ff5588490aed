"""No class name is used twice."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_no_two_classes_have_the_same_name() -> None:
    places = defaultdict(list)
    for file in (*(ROOT / "dcurate").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")):
        if "compat" in file.relative_to(ROOT).parts[:2]:  # has NeMo Curator's names, which dcurate has, too
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{file.relative_to(ROOT)}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
