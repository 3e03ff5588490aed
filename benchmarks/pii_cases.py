"""Personal data and what only looks like it, made from public formats: nothing here knows how dcurate finds it.

Telephone numbers come from libphonenumber's examples and formats, addresses from `ipaddress`, account numbers from the
structures in SWIFT's registry, keys and tokens from what their issuers document, among them some that dcurate does not
claim to find (`UNCLAIMED`).
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import json
import random
import string
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import phonenumbers
from phonenumbers import PhoneNumberFormat, PhoneNumberType

Draw = Callable[[random.Random], str]

_FIRST = ["jo", "maria", "wei", "o'neil", "john", "fatima", "lars", "ines", "jürgen", "a", "kim-lee", "olga"]
_LAST = ["doe", "smith", "garcia", "zhang", "müller", "dubois", "van.dijk", "ivanova", "okafor", "tanaka", "1984"]
_HOSTS = ["example", "mail", "uni-bonn", "acme", "my-firm", "sub.dept.school", "x1", "münchen", "gov", "research"]
_TLDS = [
    "com",
    "org",
    "net",
    "de",
    "co.uk",
    "io",
    "fr",
    "cn",
    "edu",
    "museum",
    "com.au",
    "info",
    "xn--p1ai",
    "photography",
]
_REGIONS = [
    *("US", "US", "US", "GB", "GB", "DE", "DE", "FR", "FR", "IT", "ES", "NL", "BE", "CH", "AT", "SE", "NO", "DK", "PL"),
    *("PT", "IE", "JP", "CN", "IN", "BR", "AU", "CA", "MX", "ZA", "KR", "TR"),
]
_IBANS = {
    **{"DE": "18n", "GB": "4a14n", "FR": "10n11c2n", "ES": "20n", "IT": "1a10n12c", "NL": "4a10n", "BE": "12n"},
    **{"CH": "5n12c", "AT": "16n", "PL": "24n", "SE": "20n", "NO": "11n", "PT": "21n", "MT": "4a5n18c", "TR": "6n16c"},
}
_CARDS = [
    *(("4", 16), ("4", 13), ("51", 16), ("55", 16), ("2221", 16), ("2720", 16), ("34", 15), ("37", 15), ("6011", 16)),
    *(
        ("65", 16),
        ("644", 16),
        ("36", 14),
        ("305", 14),
        ("3528", 16),
        ("3589", 16),
        ("62", 16),
        ("6759", 16),
        ("5018", 16),
    ),
]
_ALNUM = string.ascii_letters + string.digits
_URL = _ALNUM + "-_"
_CALLS = ["Tel.: {}", "Phone: {}", "call me at {}", "fax {}", "Telefon {}", "Tél. {}", "mobile ({})", "WhatsApp {}"]
_BARE = ["{}", "reach us on {} today", "({})", "<b>{}</b>", '"{}"', "{}.", "{}, and", "is {};", "=> {} <="]


@dataclass(frozen=True)
class Case:
    """Something to put into prose: what is around it, and the value itself; of no kind if it is no personal data."""

    kind: str
    form: str
    before: str
    value: str
    after: str


def _some(draw: random.Random, alphabet: str, count: int) -> str:
    return "".join(draw.choices(alphabet, k=count))


def _email(draw: random.Random) -> str:
    first, last = draw.choice(_FIRST), draw.choice(_LAST)
    local = draw.choice(
        [first, f"{first}.{last}", f"{first}_{last}", f"{first}+{last}", f"{first}{draw.randint(1, 999)}"]
    )
    address = f"{local}@{draw.choice(_HOSTS)}.{draw.choice(_TLDS)}"
    return draw.choice([address, address, address.upper(), address.title()])


def _phone(draw: random.Random) -> phonenumbers.PhoneNumber:
    """A valid number of a region: an example of libphonenumber with other last digits."""
    while True:
        kind = draw.choice([PhoneNumberType.FIXED_LINE, PhoneNumberType.MOBILE, PhoneNumberType.TOLL_FREE])
        number = phonenumbers.example_number_for_type(draw.choice(_REGIONS), kind)
        if number is None:
            continue
        digits = str(number.national_number)
        number.national_number = int(digits[:-5] + _some(draw, string.digits, 5))
        if phonenumbers.is_valid_number(number):
            return number


def _formatted(draw: random.Random, style: int) -> str:
    text = str(phonenumbers.format_number(_phone(draw), style))
    return text.replace("-", draw.choice("-.")) if style == PhoneNumberFormat.NATIONAL and draw.random() < 0.1 else text


def _public(draw: random.Random, bits: int) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    while True:
        address = (
            ipaddress.ip_address(draw.getrandbits(32))
            if bits == 32
            else ipaddress.IPv6Address(1 << 125 | draw.getrandbits(125))
        )
        if address.is_global and not address.is_multicast:
            return address


def _ipv6(draw: random.Random) -> str:
    address = _public(draw, 128)
    if draw.random() < 0.5:  # as hosts have them: a prefix, and few bits after
        address = ipaddress.IPv6Address(int(address) >> 80 << 80 | draw.getrandbits(16))
    return draw.choice([str(address), address.exploded, str(address).upper()])


def _luhn(digits: str) -> str:
    total = sum(sum(divmod(int(digit) * (2 - place % 2), 10)) for place, digit in enumerate(reversed(digits)))
    return str(-total % 10)


def _card(draw: random.Random) -> str:
    prefix, length = draw.choice(_CARDS)
    digits = prefix + _some(draw, string.digits, length - len(prefix) - 1)
    digits += _luhn(digits)
    sizes = {16: [4, 4, 4, 4], 15: [4, 6, 5], 14: [4, 6, 4]}.get(length)
    if sizes is None or draw.random() < 0.4:
        return digits
    cuts = [sum(sizes[:place]) for place in range(len(sizes) + 1)]
    return draw.choice(" -").join(digits[a:b] for a, b in pairwise(cuts))


def _iban(draw: random.Random) -> str:
    country, structure = draw.choice(list(_IBANS.items()))
    account, count = "", ""
    for character in structure:
        if character.isdigit():
            count += character
            continue
        alphabet = {"n": string.digits, "a": string.ascii_uppercase, "c": string.digits + string.ascii_uppercase}[
            character
        ]
        account, count = account + _some(draw, alphabet, int(count)), ""
    check = 98 - int("".join(str(int(letter, 36)) for letter in f"{account}{country}00")) % 97
    number = f"{country}{check:02}{account}"
    return " ".join(number[at : at + 4] for at in range(0, len(number), 4)) if draw.random() < 0.5 else number


def _ssn(draw: random.Random) -> tuple[str, str, str]:
    area = draw.choice([number for number in range(1, 900) if number != 666])
    return f"{area:03}", f"{draw.randint(1, 99):02}", f"{draw.randint(1, 9999):04}"


def _jwt(draw: random.Random) -> str:
    parts = [
        {"alg": "HS256", "typ": "JWT"},
        {"sub": _some(draw, string.digits, 10), "iat": draw.randint(10**9, 2 * 10**9)},
    ]
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, base64.urlsafe_b64encode(draw.randbytes(32)).decode().rstrip("=")])


def _pem(draw: random.Random) -> str:
    label = draw.choice(["RSA PRIVATE KEY", "PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY"])
    body = base64.b64encode(draw.randbytes(draw.randint(150, 900))).decode()
    lines = "\n".join(body[at : at + 64] for at in range(0, len(body), 64))
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----"


SECRETS: dict[str, Draw] = {
    "AWS access key": lambda d: d.choice(["AKIA", "ASIA"]) + _some(d, string.ascii_uppercase + "234567", 16),
    "GitHub token": lambda d: f"gh{d.choice('pousr')}_{_some(d, _ALNUM, 36)}",
    "GitHub fine-grained token": lambda d: f"github_pat_{_some(d, _ALNUM, 22)}_{_some(d, _ALNUM, 59)}",
    "GitLab token": lambda d: f"glpat-{_some(d, _URL, 20)}",
    "Slack token": lambda d: f"xoxb-{_some(d, string.digits, 12)}-{_some(d, string.digits, 12)}-{_some(d, _ALNUM, 24)}",
    "Slack webhook": lambda d: "hooks.slack.com/services/T{}/B{}/{}".format(
        *(_some(d, _ALNUM, n) for n in (9, 11, 24))
    ),
    "Google API key": lambda d: f"AIza{_some(d, _URL, 35)}",
    "Stripe key": lambda d: f"{d.choice(['sk', 'rk'])}_live_{_some(d, _ALNUM, d.choice([24, 99]))}",
    "OpenAI key": lambda d: d.choice(["sk-" + _some(d, _ALNUM, 48), "sk-proj-" + _some(d, _URL, 120)]),
    "Anthropic key": lambda d: f"sk-ant-api03-{_some(d, _URL, 93)}AA",
    "Hugging Face token": lambda d: f"hf_{_some(d, string.ascii_letters, 34)}",
    "npm token": lambda d: f"npm_{_some(d, _ALNUM, 36)}",
    "SendGrid key": lambda d: f"SG.{_some(d, _URL, 22)}.{_some(d, _URL, 43)}",
    "Shopify token": lambda d: f"shpat_{_some(d, '0123456789abcdef', 32)}",
    "DigitalOcean token": lambda d: f"dop_v1_{_some(d, '0123456789abcdef', 64)}",
    "JSON web token": _jwt,
    "private key": _pem,
}
#: Secrets without a beginning of their own, and addresses that are not written as such.
UNCLAIMED: dict[str, Draw] = {
    "e-mail, quoted local part": lambda d: f'"{d.choice(_FIRST)} {d.choice(_LAST)}"@example.org',
    "e-mail, disguised": lambda d: f"{d.choice(_FIRST[:3])} {d.choice(['at', '(at)', '[at]'])} example dot org",
    "AWS secret key": lambda d: _some(d, _ALNUM + "/+", 40),
    "Twilio key": lambda d: "SK" + _some(d, "0123456789abcdef", 32),
    "Mailchimp key": lambda d: f"{_some(d, '0123456789abcdef', 32)}-us{d.randint(1, 21)}",
    "Databricks token": lambda d: "dapi" + _some(d, "0123456789abcdef", 32),
}


def positives(draw: random.Random, count: int) -> list[Case]:
    """As many cases of every form of personal data."""
    made: list[Case] = []

    def add(kind: str, form: str, value: str, frames: list[str]) -> None:
        before, after = draw.choice(frames).split("{}")
        made.append(Case(kind, form, before, value, after))

    for _ in range(count):
        add("EMAIL_ADDRESS", "plain", _email(draw), [*_BARE, "mailto:{}", "E-Mail:{}", "email={}&"])
        for form, style in (
            ("E.164", PhoneNumberFormat.E164),
            ("international", PhoneNumberFormat.INTERNATIONAL),
            ("national", PhoneNumberFormat.NATIONAL),
        ):
            add("PHONE_NUMBER", f"{form}, announced", _formatted(draw, style), _CALLS)
            add("PHONE_NUMBER", f"{form}, bare", _formatted(draw, style), _BARE)
        add("IP_ADDRESS", "v4", str(_public(draw, 32)), [*_BARE, "{}:8080", "{}/24", "[{}]"])
        add("IP_ADDRESS", "v6", _ipv6(draw), [*_BARE, "[{}]:443", "{}/64"])
        add("CREDIT_CARD", "by issuer", _card(draw), [*_BARE, "card no. {} exp 12/27", "Visa:{}"])
        add("IBAN_CODE", "by country", _iban(draw), [*_BARE, "IBAN: {}"])
        area, group, serial = _ssn(draw)
        add("US_SSN", "hyphens", f"{area}-{group}-{serial}", [*_BARE, "SSN: {}"])
        add("US_SSN", "blanks, announced", f"{area} {group} {serial}", ["SSN {}", "social security number: {}"])
        add("US_SSN", "solid, announced", f"{area}{group}{serial}", ["SSN {}", "Social Security No. {}"])
        for form, secret in {**SECRETS, **UNCLAIMED}.items():
            kind = "SECRET" if form in SECRETS else "UNCLAIMED"
            add(kind, form, secret(draw), ['token = "{}"', "key: {}", "export KEY={}\n", "{}"])
        user, password = draw.choice(_FIRST[:4]), _some(draw, _ALNUM + "!$*", draw.randint(6, 20))
        made.append(
            Case("SECRET", "password in URL", f"https://{user}:", password, f"@{draw.choice(_HOSTS[:6])}.com/a")
        )
    return made


def _hex(draw: random.Random) -> str:
    return hashlib.new(draw.choice(["md5", "sha1", "sha256"]), draw.randbytes(8)).hexdigest()


def _isbn(draw: random.Random) -> str:
    digits = draw.choice(["978", "979"]) + _some(draw, string.digits, 9)
    check = -sum(int(digit) * (1 + 2 * (place % 2)) for place, digit in enumerate(digits)) % 10
    return f"{digits[:3]}-{digits[3]}-{digits[4:7]}-{digits[7:12]}-{check}"


def _wrong_card(draw: random.Random) -> str:
    digits = _card(draw)
    return digits[:-1] + str((int(digits[-1]) + draw.randint(1, 9)) % 10)


def _date(draw: random.Random) -> str:
    year, month, day = draw.randint(1900, 2099), draw.randint(1, 12), draw.randint(1, 28)
    return draw.choice([f"{year}-{month:02}-{day:02}", f"{day:02}.{month:02}.{year}", f"{month:02}/{day:02}/{year}"])


def _times(draw: random.Random) -> str:
    clock = f"{draw.randint(0, 23):02}:{draw.randint(0, 59):02}:{draw.randint(0, 59):02}"
    return draw.choice(
        [f"{_date(draw)}T{clock}Z", clock, str(draw.randint(10**9, 2 * 10**9)), str(draw.randint(10**12, 2 * 10**12))]
    )


def _years(draw: random.Random) -> str:
    first = draw.randint(1800, 2020)
    return draw.choice(
        [f"{first}-{first + draw.randint(1, 60)}", f"{first}/{first + 1}", f"{first} {first + 1} {first + 2}"]
    )


NEGATIVES: dict[str, Draw] = {
    "version": lambda d: d.choice(
        ["v{}.{}.{}.{}", "version {}.{}.{}.{}", "{}.{}.{}", "{}.{}.{}.{}.{}", "lib-{}.{}.{}.{}.jar"]
    ).format(*(d.randint(0, 40) for _ in range(5))),
    "ISBN": _isbn,
    "order number": lambda d: d.choice(["order #{}", "invoice {}", "Order no. {}", "SKU {}"]).format(
        _some(d, string.digits, d.randint(6, 12))
    ),
    "card with a wrong check digit": _wrong_card,
    "date": _date,
    "timestamp": _times,
    "UUID": lambda d: str(uuid.UUID(int=d.getrandbits(128))),
    "hash": _hex,
    "arithmetic": lambda d: "{} + {} = {}; x = {:.8f} - {:.3f}".format(
        *(d.randint(1, 10**6) for _ in range(3)), d.random() * 100, d.random()
    ),
    "DOI": lambda d: (
        f"10.{d.randint(1000, 9999)}/{_some(d, string.ascii_lowercase, 4)}.{d.randint(1990, 2026)}.{d.randint(1, 9999)}"
    ),
    "price": lambda d: d.choice(["${:,}.{:02}", "{:,} €{:02}", "USD {}.{:02}"]).format(
        d.randint(1, 10**8), d.randint(0, 99)
    ),
    "mention": lambda d: d.choice(["@{}", "@{}_news", "@{}/core", ".@{}:"]).format(
        d.choice(["user", "python", "dask", "jo"])
    ),
    "CSS": lambda d: d.choice(["@media (min-width: 640px)", "@import url(foo.com)", "a::before", "@font-face"]),
    "decorator": lambda d: d.choice(
        ["@app.route('/')", "@pytest.mark.skip", "@dataclass(frozen=True)", "y = W@x.T + b@c.sum()"]
    ),
    "scoped name": lambda d: d.choice(
        ["std::vector<int>", "abc::def::fee", "Foo::bar()", "crate::de::face", "dead::beef"]
    ),
    "MAC address": lambda d: ":".join(_some(d, "0123456789abcdef", 2) for _ in range(6)),
    "coordinates": lambda d: f"{d.uniform(-90, 90):.6f}, {d.uniform(-180, 180):.6f}",
    "private address": lambda d: d.choice(["192.168.{}.{}", "10.{}.0.{}", "172.16.{}.{}", "127.0.{}.{}"]).format(
        d.randint(0, 255), d.randint(0, 255)
    ),
    "IPv6 that is none": lambda d: d.choice(["::1", "fe80::1", "2001:db8::1", "12:30:45", "1:2:3", "::", "a::b"]),
    "years": _years,
    "part number": lambda d: (
        f"{_some(d, string.ascii_uppercase, 2)}-{_some(d, string.digits, 3)}-{_some(d, string.digits, 4)}"
    ),
    "section": lambda d: f"§ {d.randint(1, 50)}-{d.randint(100, 9999)}.{d.randint(1, 99):02}",
    "image": lambda d: d.choice(["icon@2x.png", "logo@3x.jpg"]),
    "repository": lambda d: d.choice(["git@github.com:dask/dask.git", "ssh://git@example.org:22/a.git"]),
    "package": lambda d: (
        f"{d.choice(['react', '@babel/core', 'left-pad'])}@{d.randint(1, 20)}.{d.randint(0, 20)}.{d.randint(0, 9)}"
    ),
    "digits of a table": lambda d: " ".join(str(d.randint(0, 9999)) for _ in range(8)),
    "decimals of a table": lambda d: " ".join(f"{d.uniform(0, 100):.2f}" for _ in range(6)),
    "placeholder": lambda d: d.choice(
        ["ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "AKIA________________", "sk_live_...", "sk-your-key-here"]
    ),
    "long number": lambda d: _some(d, string.digits, d.choice([10, 11, 13, 20, 40])),
    "phone-like after a word": lambda d: d.choice(["ISSN {}-{}", "PMID {}{}", "Case No. {}-{}", "patent {}{}"]).format(
        _some(d, string.digits, 4), _some(d, string.digits, 4)
    ),
}


def negatives(draw: random.Random, count: int) -> list[Case]:
    """As many of every kind that only looks like personal data."""
    cases = []
    for _ in range(count):
        for form, make in NEGATIVES.items():
            before, after = draw.choice(["{}", "see {} there", "({})", "{}, then", "is {};"]).split("{}")
            cases.append(Case("", form, before, make(draw), after))
    return cases
