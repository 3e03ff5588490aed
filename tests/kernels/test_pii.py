"""Personal data is found where independent tools say that it is, and nowhere else."""

from __future__ import annotations

import ipaddress
import string
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dcurate.kernels.pii import steps
from dcurate.kernels.pii.scan import KINDS, find_pii
from dcurate.kernels.splice import spliced
from tests.text.strategies import texts

EMAIL, PHONE, IP, CARD, IBAN, SSN, SECRET = KINDS
VARIED = "aB3dE5gH7j" * 14
PIECES = st.sampled_from(
    [
        *(
            "jo@example.org",
            "@",
            "a@b.co",
            "é",
            "中文",
            " ",
            "\n",
            ".",
            "-",
            "(",
            ")",
            "+",
            "/",
            ":",
            "::",
            "0",
            "00",
            "49",
        ),
        *("415-555-2671", "020 7946 0958", "2001:4860::8888", "8.8.8.8", "1.2.3.4.5", "4111 1111 1111 1111", "tel "),
        *("DE89370400440532013000", "GB", "123-45-6789", "eyJ", "ghp_", "-----BEGIN ", "PRIVATE KEY-----", "-----END "),
        *("https://u:p", "AKIA", "ABCDEFGHIJ234567", "x" * 40, "version ", "电话", "\xa0", "\u2013", "😀"),
    ]
)
MIXED = st.lists(PIECES, max_size=30).map("".join)


def found(text: str, *, public: bool = True) -> list[tuple[str, str]]:
    """Kind and text of what is found."""
    data = text.encode()
    spans = find_pii(np.array([0, len(data)]), np.frombuffer(data, np.uint8), np.array([0]), public=public)
    places = zip(spans.starts, spans.stops, spans.kinds, strict=True)
    return [(KINDS[kind], data[start:stop].decode()) for start, stop, kind in places]


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("Write to jo@example.org.", EMAIL, "jo@example.org"),
        ("'jo@example.org'", EMAIL, "jo@example.org"),
        ("email=jo.o'neil+x@sub.example.co.uk, or", EMAIL, "jo.o'neil+x@sub.example.co.uk"),
        ("jörg@müller.de", EMAIL, "jörg@müller.de"),
        ("联系jo@example.cn，好", EMAIL, "jo@example.cn"),
        ("jo@example.com.Then we left", EMAIL, "jo@example.com"),
        ("JO@EXAMPLE.XN--P1AI", EMAIL, "JO@EXAMPLE.XN--P1AI"),
        ("x 415-555-2671, x", PHONE, "415-555-2671"),
        ("(415) 555-2671", PHONE, "(415) 555-2671"),
        ("(+49 30 1234567)", PHONE, "+49 30 1234567"),
        ("+1.415.555.2671", PHONE, "+1.415.555.2671"),
        ("+44 (0)20 7946 0958!", PHONE, "+44 (0)20 7946 0958"),
        ("1-800-555-0199", PHONE, "1-800-555-0199"),
        ("phone: 415 555 2671", PHONE, "415 555 2671"),
        ("Tel. 555-1234", PHONE, "555-1234"),
        ("電話13800138000", PHONE, "13800138000"),
        ("01 23 45 67 89", PHONE, "01 23 45 67 89"),
        ("030/1234567", PHONE, "030/1234567"),
        ("07700 900123", PHONE, "07700 900123"),
        ("0049 30 1234567", PHONE, "0049 30 1234567"),
        ("(212)5550142", PHONE, "(212)5550142"),
        ("8.8.8.8:53", IP, "8.8.8.8"),
        ("8.8.8.8.", IP, "8.8.8.8"),
        ("8.8.4.0-8.8.4.9", IP, "8.8.4.0"),
        ("[2606:4700::1111]:53", IP, "2606:4700::1111"),
        ("2606:4700::1111: it", IP, "2606:4700::1111"),
        ("::ffff:8.8.8.8", IP, "::ffff:8.8.8.8"),
        ("3782 822463 10005", CARD, "3782 822463 10005"),
        ("4111-1111-1111-1111 12/27", CARD, "4111-1111-1111-1111"),
        ("4217.4888.5159.0453", CARD, "4217.4888.5159.0453"),
        ("5000000000000611", CARD, "5000000000000611"),
        ("gb82west12345698765432", IBAN, "gb82west12345698765432"),
        ("de89 3704 0044 0532 0130 00", IBAN, "de89 3704 0044 0532 0130 00"),
        ("DE89 3704 0044 0532 0130 00, so", IBAN, "DE89 3704 0044 0532 0130 00"),
        ("GB82WEST12345698765432", IBAN, "GB82WEST12345698765432"),
        ("SSN 123 45 6789", SSN, "123 45 6789"),
        ("social security number 123456789", SSN, "123456789"),
        ("https://jo:hunter2@example.org/", SECRET, "hunter2"),
        ("key AKIAIOSFODNN7EXAMPLE", SECRET, "AKIAIOSFODNN7EXAMPLE"),
        ("gsk_" + VARIED[:52], SECRET, None),
        ("hvs." + VARIED[:90], SECRET, None),
        ("hvb." + VARIED[:138], SECRET, None),
        ("HRKU-" + VARIED[:60], SECRET, None),
        ("EAAA" + VARIED[:60], SECRET, None),
        ("123456789:AA" + VARIED[:33], SECRET, None),
        ("https://api.telegram.org/bot123456789:AA" + VARIED[:33] + "/getMe", SECRET, "123456789:AA" + VARIED[:33]),
        ("-----BEGIN RSA PRIVATE KEY-----\n" + "Ab1+" * 12 + "\n-----END RSA PRIVATE KEY-----", SECRET, None),
        ("-----BEGIN PRIVATE KEY-----\\n" + "Ab1+" * 12, SECRET, None),
    ],
)
def test_personal_data_is_found_to_its_last_character(text: str, kind: str, value: str | None) -> None:
    assert found(text)[0] == (kind, text if value is None else value)


@pytest.mark.parametrize(
    "text",
    [
        *("@media (min-width: 10px)", "@user", "user@localhost", "x@y.z", "icon@2x.png", "A@B.T", "npm i a@1.2.3"),
        *("git@github.com:owner/name.git", "ssh://git@example.org/x", "std::array", "a::b", "dead::beef", "12:30:45"),
        *("00:1a:2b:3c:4d:5e", "::1", "2001:db8::1", "fe80::1", "192.168.1.1", "10.0.0.1", "127.0.0.1", "256.1.1.1"),
        *("v1.2.3.4", "1.2.3.4.5", "1.2.3.4-beta", "lib-1.2.3.4.so", "version 1.2.3.4", "Section 8.1.2.3", "08.8.8.8"),
        *(
            "1.3.6.1",
            "OID 1.2.840.1",
            "01-02-03-04-05",
            "05 06 07 08 09",
            "212 555 0142",
            "0033142685300",
            "f(212)5550142",
        ),
        *("1234567890", "2010-2011", "2026-11-21 18:53:13", "21-11-2026", "40.7128, -74.0060", "3.14159265358979"),
        *(
            "978-0-306-40615-7",
            "ISBN 0-306-40615-2",
            "order 415-555-2671",
            "ISSN 0317-8471",
            "10.1000/182",
            "$1,234,567.89",
        ),
        *(
            "tel 7.000.000 km",
            "bao phủ 7000000 km",
            "call 2010 2011",
            "call 25.36 28.93 27.74",
            "mobile 89.949856",
            "phone 21.11.2026",
            "911-555-2671",
            "115-555-2671",
            "415-555-26711",
            "415-555-2671-3",
            "x415-555-2671",
            "§ 022 3226 0611",
            "1+4155552671",
        ),
        *(
            "4111 1111 1111 1112",
            "4111111111111111111111",
            "0.4111111111111111",
            "id-4111111111111111",
            "1234567812345670",
        ),
        *(
            "GB82WEST12345698765433",
            "XX82WEST12345698765432",
            "gb82west12345698765433",
            "gb82WEST12345698765432",
            "DE8937040044053201300",
        ),
        *("666-12-3456", "000-12-3456", "900-12-3456", "123-00-4567", "123-45-0000", "078-05-1120", "123 45 6789"),
        *(
            "gsk_" + VARIED[:51],
            "hvs." + VARIED[:89],
            "EAAA" + VARIED[:61],
            "1234567:AA" + VARIED[:33],
            "3704.0044.0532.0130",
        ),
        *("123456789:AA" + VARIED[:34], "123456789:AA" + "x" * 33, "4217.4888.5159.0454", "3782.822463.10005"),
        *("ghp_" + "x" * 36, "task-force-" + "ab1" * 20, "-----BEGIN PRIVATE KEY-----", "-----BEGIN CERTIFICATE-----"),
        *("550e8400-e29b-41d4-a716-446655440000", "d41d8cd98f00b204e9800998ecf8427e", "+1 (2) 3", "x++12345678901"),
    ],
)
def test_what_only_looks_like_personal_data_is_left(text: str) -> None:
    assert found(text) == []
    assert found(f"so {text} it") == []


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1))
@example(int(ipaddress.IPv4Address("1.3.6.1")))
def test_an_ipv4_address_is_found_if_the_world_can_reach_it(number: int) -> None:
    address = ipaddress.IPv4Address(number)
    reached = address.is_global and not address.is_multicast and not 0xC0000000 <= number < 0xC0000100
    reached = reached and str(address) != "1.3.6.1"  # with which object identifiers begin
    assert found(f"at {address}, ", public=True) == ([(IP, str(address))] if reached else [])
    assert found(f"at {address}, ", public=False) == [(IP, str(address))]


@settings(deadline=None)
@given(st.integers(0, 2**125 - 1), st.booleans())
def test_an_ipv6_address_of_a_host_is_found_as_written(number: int, whole: bool) -> None:
    address = ipaddress.IPv6Address(1 << 125 | number)
    text = address.exploded if whole else str(address)
    kept = [
        ipaddress.ip_network(net)
        for net in ("2001:2::/48", "2001:db8::/32", "2001:10::/28", "2001:20::/28", "3fff::/20")
    ]
    reached = not any(address in network for network in kept)
    assert found(f"at {text}, ", public=True) == ([(IP, text)] if reached else [])
    assert found(f"at {text}, ", public=False) == [(IP, text)]


def test_what_is_found_as_an_address_is_one() -> None:
    addresses: list[str] = []

    @settings(deadline=None)
    @given(st.from_regex(r"[0-9a-f:.]{1,30}", fullmatch=True))
    @example("10.0.0.1")
    def each_is_an_address(text: str) -> None:
        for kind, value in found(text, public=False):
            if kind == IP:
                ipaddress.ip_address(value)
                addresses.append(value)

    each_is_an_address()
    assert "10.0.0.1" in addresses


def luhn(digits: str) -> bool:
    doubled = [int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(digits))]
    return sum(value - 9 * (value > 9) for value in doubled) % 10 == 0


@settings(deadline=None)
@given(st.sampled_from(["4", "51", "2221", "6011", "352800"]), st.text(string.digits, min_size=16, max_size=16))
def test_a_card_number_is_found_if_its_check_digit_is_right(prefix: str, rest: str) -> None:
    number = (prefix + rest)[:16]
    assert found(f"card {number}.") == ([(CARD, number)] if luhn(number) else [])


@settings(deadline=None)
@given(st.text(string.digits, min_size=18, max_size=18), st.booleans(), st.integers(1, 96))
def test_an_account_number_is_found_if_its_check_digits_are_right(account: str, grouped: bool, error: int) -> None:
    check = 98 - int(account + "131400") % 97  # D is 13, E is 14
    for digits, right in ((check, True), ((check - 2 + error) % 97 + 2, False)):
        number = f"DE{digits:02}{account}"
        shown = " ".join(number[at : at + 4] for at in range(0, 22, 4)) if grouped else number
        assert ((IBAN, shown) in found(f"to {shown}, please")) == right


@settings(deadline=None)
@given(st.one_of(MIXED, texts))
def test_finds_are_whole_characters_in_order_and_apart(text: str) -> None:
    data = text.encode()
    spans = find_pii(np.array([0, len(data)]), np.frombuffer(data, np.uint8), np.array([0]), public=False)
    edges = [edge for pair in zip(spans.starts.tolist(), spans.stops.tolist(), strict=True) for edge in pair]
    assert edges == sorted(edges)
    assert all(start < stop for start, stop in zip(edges[::2], edges[1::2], strict=True))
    cuts = [0, *edges, len(data)]
    assert "".join(data[a:b].decode() for a, b in pairwise(cuts)) == text


@settings(deadline=None)
@given(st.lists(MIXED, max_size=6), st.randoms())
def test_a_text_gives_the_same_alone_as_among_others(documents: list[str], random: object) -> None:
    encoded = [text.encode() for text in documents]
    offsets = np.cumsum([0, *map(len, encoded)])
    rows = np.arange(len(documents))[::-1]
    data = b"".join(encoded)
    spans = find_pii(offsets, np.frombuffer(data, np.uint8), rows)
    for place, row in enumerate(rows):
        mine = range(spans.bounds[place], spans.bounds[place + 1])
        assert [(KINDS[spans.kinds[n]], data[spans.starts[n] : spans.stops[n]].decode()) for n in mine] == found(
            documents[row]
        )


def test_more_finds_than_there_was_room_for_are_all_given() -> None:
    assert len(found("a@b.co " * 3000)) == 3000


def test_a_core_finishes_what_kernels_of_a_gpu_pass_back_and_forth(monkeypatch: pytest.MonkeyPatch) -> None:
    launched: list[int] = []

    def passed_on(function: Any, column: Any, rows: Any, options: Any, *, out: Any) -> None:
        launched.append(len(rows))
        out[:, steps.STEP] = steps.SIGNS if function.measure is not steps.count_signs else steps.ACCOUNTS

    monkeypatch.setattr(steps, "launch", passed_on)
    column: Any = SimpleNamespace(host=np.zeros(1, np.uint8))
    found = steps.count_on_gpu(column, np.arange(3), (127, True), lambda rows: rows * 10)
    assert found.tolist() == [0, 10, 20]
    assert steps.TURNS < len(launched) <= 3 * steps.TURNS


@settings(deadline=None)
@given(
    st.lists(st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3), st.text(max_size=3)), max_size=3), max_size=4)
)
def test_stretches_are_replaced_by_their_pieces(documents: list[list[tuple[str, str, str]]]) -> None:
    data, starts, stops, pieces, offsets, bounds = b"--", [], [], [], [2], [0]
    for document in documents:
        for before, old, new in document:
            data += before.encode()
            starts.append(len(data))
            data += old.encode()
            stops.append(len(data))
            pieces.append(new.encode())
        offsets.append(len(data))
        bounds.append(len(starts))
    given_pieces = np.cumsum([0, *map(len, pieces)]), np.frombuffer(b"".join(pieces), np.uint8)
    column = np.array(offsets), np.frombuffer(data, np.uint8)
    stretches = np.array(starts, np.int64), np.array(stops, np.int64)
    new_offsets, changed = spliced(column, np.array(bounds), stretches, given_pieces, np.arange(len(pieces)))
    expected = ["".join(before + put for before, _, put in document) for document in documents]
    cuts = pairwise(new_offsets)
    assert [changed[start:stop].tobytes().decode() for start, stop in cuts] == expected
