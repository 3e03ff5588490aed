"""Licences by address and name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate.rights.licences import GROUPS, group_of, is_allowed, is_known, spdx_licence


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://creativecommons.org/licenses/by/4.0/", "CC-BY-4.0"),
        ("http://creativecommons.org/licenses/by-nc-nd/3.0/us/deed.en", "LicenseRef-CC-BY-NC-ND-3.0-US"),
        ("//creativecommons.org/licenses/by-sa/3.0", "CC-BY-SA-3.0"),
        ("https://www.creativecommons.org/licenses/by-nd-nc/1.0/", "CC-BY-NC-ND-1.0"),
        ("https://creativecommons.org/licenses/by/3.0/igo/legalcode", "CC-BY-3.0-IGO"),
        ("https://creativecommons.org/licenses/by/4.0/deed.de", "CC-BY-4.0"),
        ("https://creativecommons.org/licenses/by/4.0/legalcode.fr", "CC-BY-4.0"),
        ("https://creativecommons.org/publicdomain/zero/1.0/", "CC0-1.0"),
        ("https://creativecommons.org/publicdomain/mark/1.0/deed.en", "CC-PDM-1.0"),
        ("https://creativecommons.org/licenses/by-sa/", ""),
        ("https://creativecommons.org/licenses/by/9.0/", ""),
        ("https://creativecommons.org.evil.example/licenses/by/4.0/", ""),
        ("https://evil.example/creativecommons.org/licenses/by/4.0/", ""),
        ("https://www.gnu.org/licenses/fdl-1.3.html", "GFDL-1.3"),
        ("https://www.gnu.org/licenses/gpl-3.0.en.html", "GPL-3.0"),
        ("https://opensource.org/licenses/MIT", "MIT"),
        ("https://opensource.org/license/apache-2.0/", "Apache-2.0"),
        ("https://spdx.org/licenses/CC-BY-SA-4.0.html", "CC-BY-SA-4.0"),
        ("http://www.apache.org/licenses/LICENSE-2.0.txt", "Apache-2.0"),
        ("http://www.nationalarchives.gov.uk/doc/open-government-licence/version/3/", "OGL-UK-3.0"),
        ("https://opendatacommons.org/licenses/odbl/1-0/", "ODbL-1.0"),
        ("CC BY-SA 4.0", "CC-BY-SA-4.0"),
        ("Creative Commons BY 4.0 International", "CC-BY-4.0"),
        ("cc-by-nc-4.0", "CC-BY-NC-4.0"),
        ("CC0", "CC0-1.0"),
        ("Apache 2.0", "Apache-2.0"),
        ("© 2024 A. Bee. All rights reserved.", ""),
        ("https://[", ""),
        ("x" * 1_000_000, ""),
        ("", ""),
    ],
)
def test_licences_have_the_identifiers_of_spdx(text: str, expected: str) -> None:
    assert spdx_licence(text) == expected


@given(st.text(max_size=60))
def test_any_text_is_a_known_licence_or_none(text: str) -> None:
    licence = spdx_licence(text)
    assert not licence or is_known(licence)


@pytest.mark.parametrize("narrow", range(len(GROUPS)))
def test_a_wider_group_allows_what_a_narrower_one_does(narrow: int) -> None:
    for name in ("CC0-1.0", "CC-BY-4.0", "MIT", "CC-BY-SA-3.0-DE", "GFDL-1.2", "CC-BY-NC-SA-2.0-UK", "CC-BY-ND-4.0"):
        if is_allowed(name, [GROUPS[narrow]]):
            assert all(is_allowed(name, [wider]) for wider in GROUPS[narrow:])
    assert not is_allowed("CC-BY-ND-4.0", GROUPS)
    assert group_of("https://example.org/licence") == ""
