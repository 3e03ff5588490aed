from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from random import Random
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numba.core.dispatcher import Dispatcher

from dcurate.kernels.json_rows import (
    ABSENT,
    ARRAY,
    BOOLEAN,
    ESCAPED_TEXT,
    FLOAT,
    INTEGER,
    LEAVE,
    NULL,
    OBJECT,
    REMOVE,
    TEXT,
    WRITE,
    Edits,
    decode,
    edit,
    encode,
    scan,
)
from dcurate.kernels.layout import frozen
from tests.growth import assert_linear

NAMES = ("a", "b", "text", "", "é😀", 'q"\\\n', "a" * 40)
SHORT = {'"': '\\"', "\\": "\\\\", "/": "\\/", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


class Number(str):
    """A number as it is written."""


class Object(list):
    """The keys and values of an object, in order; keys may be repeated."""


CHARACTERS = st.characters(exclude_categories=["Cs"])
TEXTS = st.text(CHARACTERS | st.sampled_from('"\\/\b\f\n\r\t\x00\x1f\x7f\u2028é中😀 a'), max_size=12) | st.text(
    CHARACTERS, min_size=20, max_size=90
)
NUMBERS = st.sampled_from(["-0", "1E+5", "0.0e-00", "9" * 400, "1e999"]) | st.from_regex(
    r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?", fullmatch=True
)
SCALARS = st.none() | st.booleans() | NUMBERS.map(Number) | TEXTS
KEYS = st.sampled_from(NAMES) | TEXTS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(KEYS, inner), max_size=3).map(Object),
    max_leaves=8,
)
OBJECTS = (
    st.lists(st.tuples(KEYS, SCALARS | VALUES), max_size=6)
    | st.lists(st.tuples(st.sampled_from("ab"), SCALARS), max_size=3)
).map(Object)
STYLES = st.randoms(use_true_random=False)


def white(style: Random) -> str:
    return "".join(style.choices(" \t\r", k=style.choice([0, 0, 0, 1, 3])))


def escaped(character: str) -> str:
    return "".join(f"\\u{unit:04x}" for unit in np.frombuffer(character.encode("utf-16-le"), "<u2").tolist())


def write_text(text: str, style: Random) -> str:
    often = style.choice([0.0, 0.1, 1.0])
    written = []
    for character in text:
        ways = [character] if character >= " " and character not in '"\\' else []
        if not ways or style.random() < often:
            ways = [SHORT.get(character, escaped(character)), escaped(character), escaped(character).upper()]
            ways[2] = ways[2].replace("\\U", "\\u")
        written.append(style.choice(ways))
    return f'"{"".join(written)}"'


class Member(NamedTuple):
    """A key of an object and its value, as they are written."""

    name: str
    before: str
    key: str
    colon: str
    value: str
    after: str

    def __str__(self) -> str:
        return self.before + self.key + self.colon + self.value + self.after

    def kept(self) -> str:
        return self.key + self.colon + self.value


def members(pairs: Object, style: Random) -> list[Member]:
    return [
        Member(
            name,
            white(style),
            write_text(name, style),
            f"{white(style)}:{white(style)}",
            write(value, style),
            white(style),
        )
        for name, value in pairs
    ]


def write(value: Any, style: Random) -> str:
    if isinstance(value, Object):
        return "{" + (",".join(map(str, members(value, style))) or white(style)) + "}"
    if isinstance(value, list):
        items = ",".join(white(style) + write(item, style) + white(style) for item in value)
        return f"[{items or white(style)}]"
    if isinstance(value, Number):
        return value
    return write_text(value, style) if isinstance(value, str) else json.dumps(value)


def depth(value: Any) -> int:
    if isinstance(value, Object):
        return 1 + max((depth(inner) for _, inner in value), default=0)
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


def refuse(word: str) -> Any:
    raise ValueError(word)


def read(text: str | bytes) -> Any:
    """Parse by the strict grammar of JSON, and keep repeated keys and the digits of numbers."""
    value = json.loads(
        text.decode() if isinstance(text, bytes) else text,
        object_pairs_hook=Object,
        parse_int=Number,
        parse_float=Number,
        parse_constant=refuse,
    )
    json.dumps(value, ensure_ascii=False).encode()  # refuses half of a surrogate pair
    return value


def kind(value: Any, written: str) -> int:
    if isinstance(value, Number):
        return FLOAT if set(value) & set(".eE") else INTEGER
    if isinstance(value, str):
        return ESCAPED_TEXT if "\\" in written else TEXT
    return next(
        number
        for kind_of, number in ((bool, BOOLEAN), (Object, OBJECT), (list, ARRAY), (object, NULL))
        if isinstance(value, kind_of)
    )


class Line(NamedTuple):
    """A row as it is written: its keys, what is before and after them, and what is between it and the next row."""

    pairs: Object
    start: str
    members: list[Member]
    end: str
    gap: str

    def __str__(self) -> str:
        return self.start + ",".join(map(str, self.members)) + self.end

    def places(self, name: str) -> list[int]:
        return [place for place, member in enumerate(self.members) if member.name == name]


@st.composite
def lines(draw: Any) -> Line:
    pairs, style = draw(OBJECTS), draw(STYLES)
    inside = "" if pairs else white(style)
    gap = draw(st.sampled_from(["\n", "\n", "\n\n", "\n \t\r\n"]))
    return Line(pairs, f"{white(style)}{{{inside}", members(pairs, style), f"}}{white(style)}", gap)


ROWS = st.lists(lines(), max_size=4)
WANTED = st.lists(st.sampled_from(NAMES), unique=True) | st.permutations(["a", "b"])
#: Deeper than any value here.
DEEPEST = 40


def block(rows: Sequence[Line], ended: bool = True) -> bytes:
    data = "".join(f"{row}{row.gap}" for row in rows)
    return (data if ended or not rows else data.removesuffix(rows[-1].gap)).encode()


def texts_of(column: tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]) -> list[bytes]:
    offsets, data = column
    return [data[start:stop].tobytes() for start, stop in itertools.pairwise(offsets)]


def joined(texts: Sequence[bytes]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    return np.cumsum([0, *map(len, texts)]), np.frombuffer(b"".join(texts), np.uint8)


# Scanning


@settings(deadline=None)
@given(ROWS, WANTED, st.integers(1, 6), st.booleans())
def test_rows_and_the_values_of_keys_are_found_however_they_are_written(rows, wanted, deepest, ended):
    data = block(rows, ended)
    found = scan(data, wanted, deepest)
    assert [len(values) for values in found] == [len(rows)] * 6
    at = 0
    for number, row in enumerate(rows):
        assert found.starts[number] == at
        assert found.stops[number] == at + len(str(row).encode())
        assert found.valid[number] == (depth(row.pairs) <= deepest)
        for key, name in enumerate(wanted):
            places = row.places(name)
            if not places or not found.valid[number]:
                assert found.kinds[number, key] == ABSENT
                continue
            before = row.start + "".join(f"{member}," for member in row.members[: places[-1]])
            member = row.members[places[-1]]
            begin = at + len((before + member.before + member.key + member.colon).encode())
            assert found.value_starts[number, key] == begin
            assert found.value_stops[number, key] == begin + len(member.value.encode())
            assert found.kinds[number, key] == kind(row.pairs[places[-1]][1], member.value)
        at += len(f"{row}{row.gap}".encode())


@settings(deadline=None)
@given(ROWS, WANTED)
def test_texts_are_decoded_as_a_parser_decodes_them(rows, wanted):
    data = block(rows)
    found = scan(data, wanted, DEEPEST)
    for key, name in enumerate(wanted):
        values = [dict(read(str(row))).get(name) for row in rows]
        expected = [value if isinstance(value, str) and not isinstance(value, Number) else "" for value in values]
        assert texts_of(decode(data, found, key)) == [text.encode() for text in expected]


def test_every_escape_of_four_digits_and_pairs_of_them_are_decoded():
    points = [*range(0xD800), *range(0xE000, 0x10000), *range(0x10000, 0x110000, 0x3FF), 0x10FFFF]
    text = "".join(map(chr, points))
    data = b'{"a":"%s"}' % "".join(map(escaped, text)).encode()
    assert decode(data, scan(data, ["a"], 1), 0)[1].tobytes() == text.encode()


PIECES = [
    *(bytes([byte]) for byte in b'{}[]",:\\ \t\r\n0123456789.eE+-truefalsnudDb/\x00\x1f\x7f\x80\xff\x0c'),
    *(b'{"a":', b'"\\u00e9"', b'"\\ud83d\\ude00"', b"\\ud83d", b"\\ude00", b"\\u12", b"\\uD83Dx", b"\\x", b"NaN"),
    *(b"Infinity", b"-Infinity", b"01", b"-", b"1.", b".5", b"1e", b"true", b"tru", b"null", b"\xef\xbb\xbf"),
]


def is_valid(line: bytes, deepest: int) -> bool:
    try:
        value = read(line.decode("latin-1"))  # bytes above 127 are letters, as nobody checks whether they are UTF-8
    except ValueError:
        return False
    return isinstance(value, Object) and depth(value) <= deepest


@st.composite
def damaged(draw: Any) -> bytes:
    data = bytearray(block(draw(ROWS), draw(st.booleans())))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 2))] = draw(st.sampled_from(PIECES) | st.binary(max_size=2))
    return bytes(data)


#: Escapes, surrogates at both ends of their ranges, and bytes that a string cannot hold, beside some of eight and 32.
ESCAPED = [
    *(b"\\u%s" % digits for digits in b"d7ff d800 DBFF dc00 DFFF e000 d83d de00 00e 00g0 +123".split()),
    *(
        b'\\"',
        b"\\\\",
        b"\\/",
        b"\\x",
        b"\\U0041",
        b"\\",
        b'"',
        b"\x00",
        b"\x1f",
        b"\t",
        b"\r",
        b"\n",
        b"\x7f",
        b"\xff",
        b" ",
    ),
    *(b"12345678", b"1234567", b"x" * 32, b"x" * 31),
]
NEARLY_TEXTS = st.lists(st.sampled_from(ESCAPED), max_size=5).map(lambda parts: b'"%s"' % b"".join(parts))
NEARLY_NUMBERS = st.from_regex(rb"-?[0-9]{0,3}(\.[0-9]{0,2})?([eE][+-]?[0-9]{0,2})?", fullmatch=True)
NEARLY_WORDS = st.sampled_from([b"true", b"false", b"null", b"tru", b"nul", b"falsE", b"True", b"nan", b"truet", b""])
CLOSED = st.lists(st.sampled_from([b"[", b"]", b"{", b"}", b",", b"1", b'"a":', b"[]", b"{}", b" "]), max_size=8)
FRAMES = [
    b'{"a":%s}',
    b'{"a":[%s]}',
    b'{"a":[1,%s]}',
    b'{"a":{"b":[%s,2]}}',
    b"{%s:1}",
    b'{"a":1,%s:1}',
    b'{"a":%s',
    b"%s",
]
NEARLY = st.tuples(
    st.sampled_from(FRAMES),
    NEARLY_TEXTS | NEARLY_NUMBERS | NEARLY_WORDS | CLOSED.map(b"".join),
    st.sampled_from([b"", b"\n"]),
).map(lambda made: made[0] % made[1] + made[2])
DAMAGED = (
    damaged() | NEARLY | st.lists(NEARLY, max_size=3).map(b"".join) | st.lists(st.sampled_from(PIECES)).map(b"".join)
)


@settings(max_examples=300, deadline=None)
@given(DAMAGED, st.integers(1, 4))
def test_a_row_is_valid_if_it_is_an_object_by_the_strict_grammar_that_is_not_too_deep(data, deepest):
    rows = [line for line in data.split(b"\n") if line.strip(b" \t\r")]
    found = scan(data, ["a"], deepest)
    assert [data[start:stop] for start, stop in zip(found.starts, found.stops, strict=True)] == rows
    assert found.valid.tolist() == [is_valid(row, deepest) for row in rows]
    assert (found.kinds[~found.valid] == ABSENT).all()
    for row, valid in zip(rows, found.valid, strict=True):
        try:
            parsed = orjson.loads(row)
        except orjson.JSONDecodeError:
            continue  # also of what is no UTF-8, and numbers too large for a double
        assert valid or not isinstance(parsed, dict) or depth(read(row)) > deepest


@settings(deadline=None)
@given(DAMAGED, DAMAGED)
def test_a_row_is_read_alike_whatever_is_before_and_after_it(first, second):
    def values(data: bytes) -> list[object]:
        found = scan(data, NAMES, DEEPEST)
        written = [
            [data[start:stop] if kind != ABSENT else None for start, stop, kind in zip(*row, strict=True)]
            for row in zip(found.value_starts, found.value_stops, found.kinds, strict=True)
        ]
        texts = [texts_of(decode(data, found, key)) for key in range(len(NAMES))]
        return list(zip(found.valid, written, *texts, strict=True))

    assert values(first + b"\n" + second) == values(first) + values(second)


# Encoding


@settings(deadline=None)
@given(st.lists(TEXTS), st.integers(0, 2))
def test_texts_are_encoded_with_the_shortest_escapes(texts, left_out):
    offsets, data = joined([text.encode() for text in texts])
    offsets = offsets[min(left_out, len(texts)) :]  # a slice of a column
    assert texts_of(encode(offsets, data)) == [orjson.dumps(text) for text in texts[left_out:]]


@settings(deadline=None)
@given(st.lists(TEXTS.map(str.encode) | st.binary(), max_size=5))
def test_what_is_encoded_is_decoded_to_the_same_bytes(texts):
    written = texts_of(encode(*joined(texts)))
    data = b"".join(b'{"a":%s}\n' % text for text in written)
    found = scan(data, ["a"], 1)
    assert found.valid.all()
    assert texts_of(decode(data, found, 0)) == texts


# Editing


class Edited(NamedTuple):
    """Rows, what to do with some of their keys, and the values to write."""

    rows: list[Line]
    wanted: list[str]
    actions: list[list[int]]
    values: list[list[str]]

    def edits(self) -> Edits:
        values = [[row[key].encode() for row in self.values] for key in range(len(self.wanted))]
        offsets, data = joined([value for column in values for value in column])
        count = len(self.rows)
        bounds = [offsets[count * key : count * (key + 1) + 1] for key in range(len(self.wanted))]
        return Edits(
            encode(*joined([name.encode() for name in self.wanted])),
            np.array(self.actions, np.uint8).reshape(count, len(self.wanted)),
            np.array(bounds, np.int64).reshape(len(self.wanted), count + 1),
            data,
        )

    def made(self, data: bytes) -> list[str]:
        found = scan(data, self.wanted, DEEPEST)
        return [row.decode() for row in texts_of(edit(data, found, self.wanted, self.edits(), DEEPEST))]

    def expected(self, number: int) -> tuple[list[Member], str]:
        """The keys that stay, with their values, and what is written for those that are appended."""
        row, actions, values = self.rows[number], self.actions[number], self.values[number]
        stay, appended = list(row.members), []
        for name, action, value in zip(self.wanted, actions, values, strict=True):
            places = row.places(name)
            if action == WRITE and places:
                stay[places[-1]] = stay[places[-1]]._replace(value=value)
            elif action == WRITE:
                appended.append(f"{orjson.dumps(name).decode()}:{value}")
        gone = {name for name, action in zip(self.wanted, actions, strict=True) if action == REMOVE}
        return [member for member in stay if member.name not in gone], ",".join(appended)


@st.composite
def edited(draw: Any, actions: Sequence[int] = (LEAVE, WRITE, REMOVE)) -> Edited:
    rows, wanted, style = draw(ROWS), draw(WANTED), draw(STYLES)
    written = VALUES.map(lambda value: write(value, style))
    each: dict[str, Any] = {"min_size": len(wanted), "max_size": len(wanted)}
    return Edited(
        rows,
        wanted,
        [draw(st.lists(st.sampled_from(actions), **each)) for _ in rows],
        [draw(st.lists(written, **each)) for _ in rows],
    )


@settings(deadline=None)
@given(edited((LEAVE, WRITE)), st.booleans())
def test_a_new_value_replaces_the_last_one_in_place_or_is_appended_and_all_else_keeps_its_bytes(job, ended):
    for number, (row, made) in enumerate(zip(job.rows, job.made(block(job.rows, ended)), strict=True)):
        stay, appended = job.expected(number)
        if not stay:
            start, end = row.start.partition("{")[::2]
            assert made == f"{start}{{{appended}{end}{row.end}"
            continue
        last = stay[-1]._replace(after="")
        written = [*map(str, [*stay[:-1], last]), *filter(None, [appended])]
        assert made == row.start + ",".join(written) + stay[-1].after + row.end


@settings(deadline=None)
@given(edited())
def test_removed_keys_are_gone_and_those_that_stay_keep_their_bytes_and_order(job):
    for number, (row, made) in enumerate(zip(job.rows, job.made(block(job.rows)), strict=True)):
        stay, appended = job.expected(number)
        expected = [(member.name, read(member.value)) for member in stay]
        assert read(made) == Object([*expected, *read("{" + appended + "}")])
        if LEAVE in job.actions[number] and len(set(job.actions[number])) == 1:
            assert made == str(row)
        at = 0
        for member in stay:
            at = made.index(member.kept(), at) + len(member.kept())
        assert appended in made[at:]
        assert made.startswith(row.start.partition("{")[0] + "{")
        assert made.endswith(row.end)


@pytest.mark.parametrize(
    ("row", "removed", "added", "made"),
    [
        ('{ "a" : 1 , "b":2 }', "a", "", '{ "b":2 }'),
        ('{"a":1, "b":2 , "c":3}', "b", "", '{"a":1 , "c":3}'),
        ('{"a":1, "b":2 }', "b", "", '{"a":1 }'),
        ('{"a":1,"b":2,"a":3}', "a", "", '{"b":2}'),
        ('{"b":2,"a":1,"a":3}', "a", "", '{"b":2}'),
        ('{ "a":1 } ', "a", "", "{ } "),
        ('{ "a":1, "a":1 }', "a", "c", '{"c":7 }'),
        ('{"a":1, "b":2}', "a", "c", '{"b":2,"c":7}'),
    ],
)
def test_a_removed_key_takes_one_comma_along(row, removed, added, made):
    wanted = [removed, *added]
    job = Edited(
        [Line(Object(), row, [], "", "\n")], wanted, [[REMOVE, WRITE][: len(wanted)]], [["", "7"][: len(wanted)]]
    )
    assert job.made(f"{row}\n".encode()) == [made]


@settings(deadline=None)
@given(edited((WRITE,)), st.randoms(use_true_random=False))
def test_a_key_that_is_added_and_then_removed_leaves_no_trace(job, style):
    names = {member.name for row in job.rows for member in row.members}
    wanted = [name for name in job.wanted if name not in names]
    added = [row + "\n" for row in job._replace(wanted=wanted, **first(job, len(wanted))).made(block(job.rows))]
    assert len(added) == len(job.rows)
    style.shuffle(wanted)
    again = job._replace(wanted=wanted, **first(job, len(wanted), REMOVE))
    assert again.made("".join(added).encode()) == list(map(str, job.rows))


def first(job: Edited, count: int, action: int = WRITE) -> dict[str, Any]:
    return {"actions": [[action] * count for _ in job.rows], "values": [row[:count] for row in job.values]}


@settings(deadline=None)
@given(DAMAGED, WANTED, st.sampled_from([WRITE, REMOVE]))
def test_rows_that_are_not_valid_are_copied_and_others_stay_valid(data, wanted, action):
    found = scan(data, wanted, DEEPEST)
    count = len(found.starts)
    edits = Edits(
        encode(*joined([name.encode() for name in wanted])),
        np.full((count, len(wanted)), action, np.uint8),
        np.tile(np.arange(count + 1), (len(wanted), 1)),
        np.full(count, ord("1"), np.uint8),
    )
    rows = [data[start:stop] for start, stop in zip(found.starts, found.stops, strict=True)]
    for row, valid, made in zip(rows, found.valid, texts_of(edit(data, found, wanted, edits, DEEPEST)), strict=True):
        assert is_valid(made, DEEPEST) if valid else made == row


# Bounds


class Guarded(np.ndarray):
    """An array of which no element before the first is read, which numpy and numba would take from the end."""

    def __getitem__(self, place: Any) -> Any:
        assert isinstance(place, slice) or np.min(place, initial=0) >= 0
        return super().__getitem__(place)


def interpreted(function: Callable[..., Any], done: dict[object, Any]) -> Any:
    """The function with all kernels that it calls in Python, which notices what is read or written out of bounds."""
    if function not in done:
        scope: dict[str, Any] = {}
        copy = done[function] = FunctionType(function.__code__, scope, function.__name__, function.__defaults__)
        for name, value in function.__globals__.items():
            if isinstance(value, Dispatcher):
                scope[name] = interpreted(value.py_func, done)
            elif isinstance(value, FunctionType) and value.__module__.startswith("dcurate.kernels.json"):
                scope[name] = interpreted(value, done)
            else:
                scope[name] = value
        if "frozen" in scope:
            scope["frozen"] = lambda array, dtype: frozen(array, dtype).view(Guarded)
        return copy
    return done[function]


PYTHON: dict[object, Any] = {}


@settings(deadline=None)
@given(DAMAGED, WANTED, st.randoms(use_true_random=False))
@example(b'{"\\ud83d\\ude00":"\\ud83d\\ude00"}', ["\U0001f600"], Random(0))
def test_nothing_is_read_or_written_out_of_bounds(data, wanted, style):
    rows = [Line(Object(), "", [], "", "\n")] * len(scan(data, wanted, 3).starts)
    actions = [[style.randrange(3) for _ in wanted] for _ in rows]
    values = [[style.choice(["1", "", "333"]) for _ in wanted] for _ in rows]
    edits = Edited(rows, wanted, actions, values).edits()

    def made(run: Callable[[Callable[..., Any]], Callable[..., Any]]) -> list[Any]:
        found = run(scan)(data, wanted, 3)
        texts = [run(decode)(data, found, key) for key in range(len(wanted))]
        columns = [run(edit)(data, found, wanted, edits, 3), *texts, *(run(encode)(*text) for text in texts)]
        return [values.tolist() for values in (*found[:3], found.kinds, *itertools.chain(*columns))]

    compiled = made(lambda function: function)
    with np.errstate(over="ignore"):
        assert made(lambda function: interpreted(function, PYTHON)) == compiled


@settings(max_examples=200, deadline=None)
@given(NEARLY)
@example(b'{"a":"\\ud83d\\ude00"}')
@example(b'{"a":[true,false,null,-1.5E+3]}')
def test_a_row_that_is_cut_short_is_read_within_its_bounds(data):
    with np.errstate(over="ignore"):
        for size in range(len(data)):
            rows = [line for line in data[:size].split(b"\n") if line.strip(b" \t\r")]
            assert interpreted(scan, PYTHON)(data[:size], ["a"], 2).valid.tolist() == [is_valid(row, 2) for row in rows]


# Growth


def one_row(member: Callable[[int], bytes], size: int) -> Callable[[int], bytes]:
    """A row of members of about this size each, as long as is asked."""
    return lambda length: b"{" + b",".join(map(member, range(length // size))) + b"}\n"


def repeated(line: bytes) -> Callable[[int], bytes]:
    return lambda length: line * (length // len(line))


HOSTILE: dict[str, Callable[[int], bytes]] = {
    "brackets": lambda length: b'{"a":' + b"[" * length,
    "closed brackets": lambda length: b'{"a":' + b"[" * (length // 2) + b"]" * (length // 2) + b"}\n",
    "flat lists": one_row(lambda _: b'"a":' + b"[[]]", 9),
    "backslashes": lambda length: b'{"a":"' + b"\\" * (length // 2 * 2) + b'"}\n',
    "open backslashes": repeated(b'{"a":"\\\\\\\n'),
    "quotes": lambda length: b'{"a":"' + b'\\"' * (length // 2) + b'"}\n',
    "bare quotes": lambda length: b'"' * length,
    "spaces": lambda length: b" " * length + b"{" + b" " * length + b"}" + b" " * length,
    "blank lines": lambda length: b" \n" * (length // 2),
    "surrogates": lambda length: b'{"a":"' + b"\\ud83d\\ude00" * (length // 12) + b'"}\n',
    "many keys": one_row(lambda number: b'"%06d":1' % number, 11),
    "keys with escapes": one_row(lambda number: b'"\\u0030%05d":1' % number, 16),
    "long keys": one_row(lambda number: b'"%s%06d":1' % (b"k" * 1000, number), 1011),
    "a repeated key": one_row(lambda _: b'"000001":1', 11),
    "a repeated key with escapes": one_row(lambda _: b'"\\u0030\\u0030\\u0030\\u0030\\u0030\\u0031":1', 41),
    "short rows": repeated(b"{}\n"),
    "rows that end early": repeated(b'{"000001":1,\n'),
}


@pytest.mark.parametrize("shape", HOSTILE)
@pytest.mark.parametrize("action", [WRITE, REMOVE])
def test_the_time_grows_with_the_length_of_the_lines(shape, action):
    def work(data: bytes) -> None:
        wanted = ["a", "000001"]
        if shape in ("many keys", "keys with escapes", "long keys"):  # as many names as keys
            wanted = list(orjson.loads(data))
        found = scan(data, wanted, DEEPEST)
        for key in range(2):
            encode(*decode(data, found, key))
        count = len(found.starts)
        edits = Edits(
            encode(*joined([name.encode() for name in wanted])),
            np.full((count, len(wanted)), action, np.uint8),
            np.tile(np.arange(count + 1), (len(wanted), 1)),
            np.full(count, ord("1"), np.uint8),
        )
        edit(data, found, wanted, edits, DEEPEST)

    assert_linear(work, [HOSTILE[shape]], (100_000, 1_000_000))
