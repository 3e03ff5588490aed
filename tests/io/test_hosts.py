"""Registered domains: no URL breaks them, and the way that a host is written does not matter."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate.io.hosts import AUTHORITY, Domains
from tests.runs.summary.corpora import URLS

DOMAINS = Domains()


def site_of(url: str) -> str:
    authority = pc.struct_field(pc.extract_regex(pa.array([url]), AUTHORITY), "authority")[0].as_py()
    if authority is None:
        return "invalid"
    site = DOMAINS.site(authority)
    return site.name if site.kind == "domain" else site.kind


@pytest.mark.parametrize("url", sorted(URLS))
def test_the_domain_of_a_url(url: str) -> None:
    assert site_of(url) == URLS[url]


@given(st.text(max_size=300))
def test_any_authority_is_a_domain_a_host_or_invalid(authority: str) -> None:
    site = DOMAINS.site(authority)
    assert site.kind in ("domain", "host", "invalid")
    assert (site.name == "") == (site.kind == "invalid")
    assert site.name == site.name.lower()
    assert site.name.isascii()
    if site.kind == "domain":
        assert DOMAINS.site(site.name) == site


@given(st.sampled_from(["example.com", "shop.co.uk", "xn--bcher-kva.de"]), st.data())
def test_user_port_case_and_final_dot_do_not_matter(host: str, data: st.DataObject) -> None:
    user = data.draw(st.sampled_from(["", "me@", "me:pw@", "a@b@"]))
    port = data.draw(st.sampled_from(["", ":", ":80", ":65535"]))
    dot = data.draw(st.sampled_from(["", "."]))
    written = "".join(data.draw(st.sampled_from([letter, letter.upper()])) for letter in f"www.{host}")
    assert DOMAINS.site(f"{user}{written}{dot}{port}").name == host
