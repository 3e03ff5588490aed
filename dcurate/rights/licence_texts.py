"""Licences of code: an identifier or expression of SPDX, or the text of a licence."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from dcurate.rights.licences import spdx_licence

#: Characters of a text in which the words of a licence are looked for, and of an expression.
_FAR, _LONGEST = 20_000, 300
#: What rows have that state no licence.
_NOTHING = frozenset(("", "none", "noassertion", "unknown", "null", "nan", "n/a", "no license", "no-license"))
_TAG = re.compile(r"SPDX-License-Identifier:[ \t]*+([^\n\r*]{1,300})")
_REDISTRIBUTION = r"redistribution and use in source and binary forms, with or without modification, are permitted"
_SOFTWARE = "permission is hereby granted, free of charge, to any person obtaining a copy of this software"
_PURPOSE = r"permission to use, copy, modify,? and(?:/or)? distribute this software for any purpose with or without fee"
_CC = r"(?:creative commons )?attribution{} (4\.0) international"
#: Words of licences in small letters with single blanks, divided by ``.*``; words that must not be there; identifiers.
_TEXTS: tuple[tuple[str, str, str], ...] = (
    (rf"{_SOFTWARE}.*the above copyright notice and this permission notice", "", "MIT"),
    (_SOFTWARE, "the above copyright notice", "MIT-0"),
    (rf"{_REDISTRIBUTION}.*advertising materials mentioning", "", "BSD-4-Clause"),
    (rf"{_REDISTRIBUTION}.*neither the names? of", "advertising materials mentioning", "BSD-3-Clause"),
    (_REDISTRIBUTION, "neither the names? of|advertising materials mentioning", "BSD-2-Clause"),
    (rf"{_PURPOSE}.*the above copyright notice", "", "ISC"),
    (_PURPOSE, "the above copyright notice", "0BSD"),
    ("this is free and unencumbered software released into the public domain", "", "Unlicense"),
)
#: The same for headings, which are in the first part of a text alone, as later ones name other licences.
_HEADINGS: tuple[tuple[str, str, str], ...] = (
    (r"apache license,? version 2\.0", "", "Apache-2.0"),
    (r"mozilla public license,? version 2\.0", "", "MPL-2.0"),
    (r"gnu affero general public license,? version 3", "", "AGPL-3.0"),
    (r"gnu lesser general public license,? version 3", "", "LGPL-3.0"),
    (r"gnu lesser general public license,? version 2\.1", "", "LGPL-2.1"),
    (r"gnu general public license,? version 3", "", "GPL-3.0"),
    (r"gnu general public license,? version 2", "", "GPL-2.0"),
    (r"boost software license - version 1\.0", "", "BSL-1.0"),
    (r"eclipse public license - v ?2\.0", "", "EPL-2.0"),
    (r"cc0 1\.0 universal", "", "CC0-1.0"),
    (_CC.format(""), "", "CC-BY-4.0"),
    (_CC.format("-sharealike"), "", "CC-BY-SA-4.0"),
    (_CC.format("-noncommercial"), "", "CC-BY-NC-4.0"),
    (_CC.format("-noncommercial-sharealike"), "", "CC-BY-NC-SA-4.0"),
    (_CC.format("-noderivatives"), "", "CC-BY-ND-4.0"),
    (_CC.format("-noncommercial-noderivatives"), "", "CC-BY-NC-ND-4.0"),
)
_HEAD = 600
_PATTERNS = [
    ([re.compile(part) for part in words.split(".*")], re.compile(without) if without else None, name, far)
    for texts, far in ((_TEXTS, _FAR), (_HEADINGS, _HEAD))
    for words, without, name in texts
]


def stated_licences(value: Any) -> tuple[list[str], list[str]]:
    """Return the licences that a value of a column states, and what of it is not understood.

    Args:
        value: an identifier, an expression of SPDX, an address, the text of a licence, or a list of these.

    Examples:
        >>> stated_licences(["mit", "MIT or apache-2.0", "ours", None])
        (['MIT', 'MIT OR Apache-2.0', 'ours'], [])
        >>> stated_licences("NOASSERTION")
        ([], ['NOASSERTION'])
    """
    texts = [value] if isinstance(value, str) else value if isinstance(value, Iterable) else []
    licences: list[str] = []
    unknown: list[str] = []
    for text in texts:
        if isinstance(text, str) and text.strip():
            names = _licences(text)
            (licences if names else unknown).extend(names or [text.strip()])
    return list(dict.fromkeys(licences)), unknown


def _licences(text: str) -> list[str]:
    stripped = text.strip()
    if stripped.lower() in _NOTHING:
        return []
    if len(stripped) > _LONGEST or "\n" in stripped:
        return licences_in(stripped)
    return [spdx_licence(stripped) or expression_of(stripped) or stripped]


def expression_of(text: str) -> str:
    """Return an expression of SPDX as SPDX writes it; empty if it is not one.

    Examples:
        >>> expression_of("mit OR (apache-2.0 and gpl-2.0-only with classpath-exception-2.0)"), expression_of("ours")
        ('MIT OR (Apache-2.0 AND GPL-2.0-only WITH Classpath-exception-2.0)', '')
    """
    try:
        return str(canonicalize_license_expression(text)) if len(text) <= _LONGEST else ""
    except InvalidLicenseExpression:
        return ""


def licences_in(text: str) -> list[str]:
    r"""Return the licences whose words are in a text: a file ``LICENSE``, or a file with a tag of SPDX.

    Examples:
        >>> licences_in("// SPDX-License-Identifier: MIT\n"), licences_in("Apache License\n  Version 2.0")
        (['MIT'], ['Apache-2.0'])
    """
    tags = [expression_of(match[1].removesuffix("-->").strip()) for match in _TAG.finditer(text[:_FAR])]
    if any(tags):
        return [tag for tag in dict.fromkeys(tags) if tag]
    words = " ".join(text[:_FAR].lower().replace("*", " ").split())
    names = [
        name
        for patterns, without, name, far in _PATTERNS
        if all(pattern.search(words, 0, far) for pattern in patterns) and (without is None or not without.search(words))
    ]
    return list(dict.fromkeys(names))
