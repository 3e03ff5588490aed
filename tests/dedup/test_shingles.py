"""A rule for shingles is refused when it is none."""

from __future__ import annotations

from typing import Any

import pytest

from dcurate import PipelineError
from dcurate.dedup import Shingles


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"unit": "bytes"}, "'words' or 'characters', not 'bytes'"),
        ({"size": 0}, "size=0: a shingle has 1 to 1024 words"),
        ({"size": 5000, "unit": "characters"}, "1 to 1024 characters"),
        ({"size": 2.5}, "size=2.5"),
        ({"size": True}, "size=True"),
        ({"seed": -1}, "seed=-1"),
        ({"seed": 2**64}, "seed=18446744073709551616"),
    ],
)
def test_a_rule_that_is_none_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        Shingles(**arguments)


def test_equal_rules_are_equal_and_can_be_keys() -> None:
    assert {Shingles(): 1}[Shingles(5, "words", 42)] == 1
    assert Shingles(24, "characters").rule.words is False
