"""Which hosts count as public: one function decides, and every way to a server asks it."""

from __future__ import annotations

import json
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import InlineExecutor, JsonlReader, Pipeline
from dcurate.download import FetchMedia, Transfer, addresses, connections
from dcurate.download.addresses import check_public, host_of, is_public
from dcurate.download.transfer import BadAddressError, PrivateAddressError, TransferError
from tests.download.server import Files

QUICK = Transfer(attempts=1, backoff_s=0.01, timeout_s=60)
PRIVATE = {
    "loopback": ["127.0.0.1", "127.255.0.9", "::1"],
    "unspecified": ["0.0.0.0", "0.1.2.3", "::"],
    "networks of a site": ["10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.0.1", "fc00::1", "fdff::1", "fec0::1"],
    "link": ["169.254.169.254", "fe80::1", "fe80::1%eth0", "febf::1"],
    "carrier": ["100.64.0.1", "192.0.0.1", "198.18.0.1"],
    "documentation": ["192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1"],
    "multicast": ["224.0.0.1", "239.255.255.250", "ff02::1", "ff0e::1", "ff05::2"],
    "reserved": ["240.0.0.1", "255.255.255.255", "5f00::1", "4000::1", "100::1"],
    "mapped": ["::ffff:127.0.0.1", "::ffff:a9fe:a9fe", "::ffff:10.0.0.1", "::ffff:224.0.0.1"],
    "compatible": ["::127.0.0.1", "::10.0.0.1", "::93.184.216.34"],
    "translated": ["::ffff:0:127.0.0.1"],
    "NAT64": ["64:ff9b::a9fe:a9fe", "64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::224.0.0.1"],
    "local NAT64": ["64:ff9b:1::1", "64:ff9b:1::5db8:d822", "64:ff9b:1:ffff::127.0.0.1"],
    "6to4": ["2002:7f00:1::", "2002:a9fe:a9fe::1", "2002:0a00:1::1", "192.88.99.1"],
    "Teredo": ["2001::1", "2001:0:5db8:d822:0:0:80ff:fffe"],
}
PUBLIC = ["93.184.216.34", "8.8.8.8", "2606:4700::6810:84e5", "::ffff:93.184.216.34", "64:ff9b::5db8:d822"]
ALL = [address for group in PRIVATE.values() for address in group]
#: Addresses that libraries read as ones of different hosts, or that nothing can be asked with.
TWOFOLD = [
    *("http://127.0.0.1\\@93.184.216.34/", "http://93.184.216.34\\@127.0.0.1/", "http:\\\\127.0.0.1/", "http://\\127.0.0.1/"),
    *("http://127.0.0.1\\.93.184.216.34/", "http://127.0.0.1\t@93.184.216.34/", "http://93.184.216.34\n@127.0.0.1/"),
    *("http://%31%32%37.0.0.1/", "http://127.0.0.1%00.host.org/", "http://127.0.0.1%2f@93.184.216.34:x/"),
    *("http://\u2460\u2461\u2466.0.0.1/", "http://127\u30020\u30020\u30021/", "http://[::1/", "http://[::1]x/"),
    *("http://93.184.216.34\r\nHost: 127.0.0.1/", "http://93.184.216.34 @127.0.0.1:x/", "\x00http://127.0.0.1/"),
    *("http://127.0.0.1\x7f/", "http://127.0.0.1 /", " http://127.0.0.1/", "http://93.184.216.34/a\r\nb", "http://a..b/"),
]  # fmt: skip


def url_of(address: str) -> str:
    return f"http://[{address}]/a.png" if ":" in address else f"http://{address}/a.png"


def faults(urls: list[str], folder: Path, **options: object) -> dict[str, int]:
    path = folder / "urls.jsonl"
    path.write_text("".join(json.dumps({"url": url}) + "\n" for url in urls))
    stages: list[Any] = [JsonlReader(str(path)), FetchMedia(transfer=QUICK, **options)]  # type: ignore[arg-type]
    return dict(Pipeline("urls", stages=stages).run(InlineExecutor(), observers=[]).report.stages[1].faulty)


@pytest.mark.parametrize("address", ALL)
def test_no_address_of_a_private_network_is_asked_or_connected_to(address):
    assert not is_public(address)
    with pytest.raises((PrivateAddressError, BadAddressError)):
        check_public(url_of(address))
    closed: list[bool] = []
    peer = SimpleNamespace(getpeername=lambda: (address, 80), close=lambda: closed.append(True))
    with pytest.raises(connections.PrivatePeerError):
        connections._checked(peer)
    assert closed


@pytest.mark.parametrize("address", PUBLIC)
def test_hosts_of_the_internet_are_public_also_where_ipv6_stands_for_them(address):
    assert is_public(address)
    check_public(url_of(address))


@given(st.integers(0, 2**32 - 1))
def test_an_address_that_stands_for_one_of_ipv4_is_as_public_as_that_one(number):
    plain = is_public(str(IPv4Address(number)))
    assert plain <= IPv4Address(number).is_global
    for prefix in ("::ffff:0:0", "64:ff9b::"):
        assert is_public(str(IPv6Address(int(ip_address(prefix)) + number))) is plain
    for prefix in ("::", "64:ff9b:1::", "::ffff:0:0:0"):
        assert not is_public(str(IPv6Address(int(ip_address(prefix)) + number)))
    assert not is_public(str(IPv6Address((0x2002 << 112) + (number << 80))))


@given(st.text(max_size=12) | st.ip_addresses().map(str))
def test_any_text_has_an_answer(text):
    assert is_public(text) in (True, False)


@pytest.mark.parametrize("url", TWOFOLD)
def test_an_address_that_can_be_read_in_two_ways_is_refused(url):
    with pytest.raises(TransferError, match="check the address"):
        host_of(url)


def test_ordinary_addresses_are_taken():
    urls = [
        "http://h/a b\\c?d#e",
        "https://USER:p%40ss@Host.org:8443",
        "http://[::1]:80/",
        "http://stra\xdfe.de/\xe4",
        "http://a_b.c./",
    ]
    assert [host_of(url) for url in urls] == ["h", "host.org", "::1", "xn--strae-oqa.de", "a_b.c."]


@pytest.mark.parametrize("robots", [True, False])
@pytest.mark.parametrize("proxy", [True, False])
def test_no_private_or_twofold_address_reaches_a_server_or_a_proxy(robots, proxy, web: Files, tmp_path, monkeypatch):
    if proxy:
        monkeypatch.setenv("http_proxy", web.address)
        monkeypatch.setenv("no_proxy", "")
    urls = [
        *map(url_of, ALL),
        *TWOFOLD,
        *("http://2130706433/", "http://0x7f.1/", "http://127.1/", "http://0177.0.0.1/"),
    ]
    found = faults(urls, tmp_path, robots=robots)
    assert found == {"private network": found["private network"], "bad address": len(urls) - found["private network"]}
    assert found["private network"] >= len(ALL) - 1 + 4
    assert not web.asked


@pytest.mark.parametrize("robots", [True, False])
def test_no_redirect_leads_to_a_private_or_twofold_address(robots, web: Files, tmp_path, monkeypatch):
    """The server of the test counts as public, in a list whose addresses are all refused."""
    monkeypatch.setattr(connections, "_checked", lambda connected: connected)
    monkeypatch.setattr(addresses, "is_public", lambda address: address == "127.0.0.1")
    targets = [url for url in (*map(url_of, ALL), *TWOFOLD) if "://" in url and url.isprintable()]
    targets = [url for url in targets if not url.strip().startswith("http://127.0.0.1/")]
    for number, target in enumerate(targets):
        web.fail(f"/{number}", 302, 302)
        web.headers[f"/{number}"] = [("Location", target.encode().decode("latin-1"))]
    urls = [web.url(f"/{number}") for number in range(len(targets))]
    found = faults(urls, tmp_path, robots=robots)
    assert sum(found.values()) == len(urls)
    assert set(found) == {"private network", "bad address"}
    assert {request.path for request in web.asked} <= {f"/{number}" for number in range(len(urls))} | {
        "/robots.txt",
        "/.well-known/tdmrep.json",
    }
