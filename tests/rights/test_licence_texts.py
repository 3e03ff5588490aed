"""Licences of rows of code."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import DocumentBatch
from dcurate.rights import FilterByRights, FindRights
from dcurate.rights.licence_texts import licences_in, stated_licences
from dcurate.rights.licences import is_allowed

MIT = """MIT License\n\nCopyright (c) 2026 A. Bee\n
Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal ...\n
The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.\n"""
BSD = """Redistribution and use in source and binary forms, with or without
 * modification, are permitted provided that the following conditions are met:\n"""
GPL = (
    "  GNU GENERAL PUBLIC LICENSE\n   Version 3, 29 June 2007\n"
    + "x " * 400
    + "GNU Affero General Public License version 3"
)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (MIT, ["MIT"]),
        (BSD, ["BSD-2-Clause"]),
        (f"{BSD}Neither the name of A nor the names of B", ["BSD-3-Clause"]),
        (f"{MIT}\n{BSD}", ["MIT", "BSD-2-Clause"]),
        (GPL, ["GPL-3.0"]),
        ("# SPDX-License-Identifier: mit or apache-2.0\nimport os", ["MIT OR Apache-2.0"]),
        ("All rights reserved.\n" * 20, []),
    ],
)
def test_texts_of_licences_are_known(text: str, names: list[str]) -> None:
    assert licences_in(text) == names


def test_the_licence_of_this_repository_is_known() -> None:
    assert licences_in(Path("LICENSE").read_text()) == ["Apache-2.0"]


@pytest.mark.parametrize(
    ("value", "licences", "unknown"),
    [
        ("apache-2.0", ["Apache-2.0"], []),
        (["MIT", "BSD-4-Clause"], ["MIT", "BSD-4-Clause"], []),
        ("proprietary", ["proprietary"], []),
        ("https://opensource.org/licenses/MIT", ["MIT"], []),
        ("unknown", [], ["unknown"]),
        (MIT, ["MIT"], []),
        ([], [], []),
        (3, [], []),
    ],
)
def test_columns_state_licences(value: Any, licences: list[str], unknown: list[str]) -> None:
    assert stated_licences(value) == (licences, unknown)


@pytest.mark.parametrize(
    ("licence", "allowed"),
    [
        ("MIT OR GPL-3.0-only", True),
        ("GPL-3.0-only AND MIT", False),
        ("GPL-3.0-only OR Apache-2.0 AND MIT", True),
        ("(MIT OR GPL-3.0-only) AND MIT", False),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("proprietary", False),
    ],
)
def test_expressions_are_allowed_by_their_parts(licence: str, allowed: bool) -> None:
    assert is_allowed(licence, ["permissive"]) is allowed


def test_policies_use_the_licences_of_rows() -> None:
    table = pa.table({"license": [["MIT"], ["gpl-3.0-only or isc"], ["GPL-3.0-only"], ["ours"], None]})
    batch = FindRights().process(DocumentBatch(data=table))
    assert (batch.found["licence MIT"], batch.found["licence of another kind"]) == (1, 1)
    kept = FilterByRights("train", licences=["permissive"], silence="drop").process(batch)
    assert kept.to_arrow()["rights_licences"].to_pylist() == [["MIT"], ["GPL-3.0-only OR ISC"]]
    assert {gone.reason: gone.rows for gone in kept.rejections} == {
        "licence: not allowed": 2,
        "train: nothing said": 1,
    }


@given(st.text(max_size=400))
def test_any_text_is_read(text: str) -> None:
    licences, unknown = stated_licences(text)
    assert bool(licences or unknown) == bool(text.strip())
