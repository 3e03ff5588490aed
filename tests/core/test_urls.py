"""URLs that differ only in how they are written are one; others are not."""

from __future__ import annotations

import string
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dcurate.core.urls import domains_of, host_of, normal_host, normal_url
from tests import growth

LABELS = st.text(string.ascii_lowercase + string.digits + "äöüß日本", min_size=1, max_size=8).filter(
    lambda label: not label.isdecimal()
)
HOSTS = st.lists(LABELS, min_size=2, max_size=4).map(".".join)
PATHS = st.lists(st.text(string.ascii_letters + "-._~", min_size=1, max_size=5), max_size=3).map("/".join)


@given(HOSTS, PATHS)
def test_scheme_case_port_fragment_and_slash_do_not_count(host: str, path: str) -> None:
    same = {
        normal_url(url)
        for url in (
            f"http://{host}/{path}",
            f"HTTPS://{host}:443/{path}#part",
            f"https://{host}./{path}/",
            f"//{host}/{path}",
            f"{host}/{path}",
            f" http://{host.upper() if host.isascii() else host}:80/{path}",
        )
    }
    assert len(same) == 1


@pytest.mark.parametrize(
    "other", ["http://a.example/B", "http://a.example/b?q", "http://a.example:8080/b", "ftp://a.example/b"]
)
def test_path_query_port_and_other_schemes_count(other: str) -> None:
    assert normal_url(other) != normal_url("http://a.example/b")


@given(st.text())
@example("http://[")
@example("http://a:b:c/")
@example("http://a:99999999999999999999/")
@example("http://\ud800")
def test_any_text_has_one_form_and_the_form_is_its_own(url: str) -> None:
    form = normal_url(url)
    assert normal_url(form) == form
    host = host_of(url)
    assert normal_host(host) == host


@given(HOSTS, HOSTS)
def test_a_domain_is_of_a_host_where_whole_labels_are(host: str, other: str) -> None:
    domains = domains_of(normal_host(host))
    assert normal_host(host) in domains_of(normal_host(f"{other}.{host}"))
    assert normal_host(f"x{host}") not in domains
    assert [domain.count(".") for domain in domains] == list(range(host.count("."), -1, -1))


def test_punycode_and_unicode_are_one_host() -> None:
    assert host_of("https://Bücher.Example") == host_of("https://xn--bcher-kva.example.") == "xn--bcher-kva.example"


def test_an_address_of_numbers_is_in_no_domain_but_itself() -> None:
    assert domains_of(host_of("http://10.0.0.1/x")) == ["10.0.0.1"]
    assert domains_of(host_of("http://[::1]:80/x")) == ["::1"]
    assert domains_of("a." * 10**5) == ["a." * 10**5]


@pytest.mark.parametrize("form", [normal_url, host_of, lambda url: str(domains_of(host_of(url)))])
def test_the_time_of_a_hostile_url_grows_with_its_length(form: Callable[[str], str]) -> None:
    tokens = ["a.", ".", "/", "%7E", "%", "@", ":", "[", "]", "?", "#", "ü", "ü.", "\ud800", "http://", "xn--", "\n"]
    growth.assert_linear(form, growth.patterns(tokens, tokens[:9]), growth.SHORT)
