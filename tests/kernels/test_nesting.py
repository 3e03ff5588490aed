from __future__ import annotations

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dcurate.kernels.nesting import line_ends, line_ends_interpreted

VALUES = st.recursive(
    st.none() | st.integers(-9, 9) | st.text(st.sampled_from('ab{}[]"\\\n\r é'), max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("a{[\\", max_size=2), inner, max_size=4),
    max_leaves=30,
)
BREAKS = st.sampled_from([b"\n", b"\r\n", b"\n\n", b" \n\t", b"\n \r\n"])


def depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


@settings(deadline=None)
@given(st.lists(st.tuples(st.dictionaries(st.text("ab", max_size=2), VALUES, max_size=3), BREAKS)), st.integers(1, 8))
def test_lines_are_counted_unless_one_is_deeper_than_the_limit(rows, limit):
    data = b"".join(orjson.dumps(row) + end for row, end in rows)
    deep = any(depth(row) > limit for row, _ in rows)
    assert line_ends(data, limit) == (-1 if deep else data.count(b"\n"))


@settings(deadline=None)
@given(st.lists(st.sampled_from([b"{", b"}", b"[", b"]", b'"', b"\\", b"\n", b" ", b"1", b",", b'{"a":']), max_size=60))
@example([b'{"a":', b"[", b"\n", b"[", b"\n", b"[", b"1", b"]", b"]", b"]", b"}"])
def test_data_that_is_let_pass_is_never_deeper_for_a_parser_that_stops_at_the_first_error(pieces):
    data = b"".join(pieces)
    if line_ends(data, 2) < 0:
        return
    # Every prefix that a parser may have taken in is closed in turn: it holds that many levels.
    for end in range(len(data) + 1):
        for closing in (b"1]]]}}}", b"]", b"1}}}", b"}}}", b"1]]]}", b"]]]}", b"]}}", b"1]}]}"):
            for start in (0, *(place + 1 for place in range(end) if data[place : place + 1] == b"\n")):
                for size in range(1, len(closing) + 1):
                    try:
                        assert depth(orjson.loads(data[start:end] + closing[:size])) <= 2
                    except orjson.JSONDecodeError:
                        continue


@given(
    st.lists(
        st.sampled_from(
            [b"{", b"}", b"[", b"]", b'"', b"\\", b"\n", b" ", b"\r", b"\t", b"\xff", b'{"a":', b'{"b":1}\n']
        )
    )
)
@example([b'{"', b"\\"])
def test_without_a_kernel_the_number_is_the_same(pieces):
    data = b"".join(pieces)
    for limit in (0, 1, 2, 100):
        assert line_ends_interpreted(data, limit) == line_ends(data, limit)


@pytest.mark.parametrize("before", [0, 1, 230, 239, 240, 241, 5000])
@pytest.mark.parametrize("after", [0, 239, 5000])
def test_a_deep_line_is_found_wherever_it_stands(before, after):
    texts = [
        b'{"t": "%s"}' % (b"x" * before),
        b'{"t": ' + b"[" * 50 + b"]" * 50 + b"}",
        b'{"t": "%s"}' % (b"y" * after),
    ]
    data = b"\n".join(texts)
    assert line_ends(data, 51) == 2
    assert line_ends(data, 50) == -1


@pytest.mark.parametrize("text", [b"[" * 500, b'\\"' * 50 + b"{[" * 99, b"\\\\\\\\", b"{" * 7 + b"\\n" * 300])
def test_brackets_in_texts_are_no_levels(text):
    assert line_ends(b'{"a": "%s"}\n' % text * 3, 1) == 3


@pytest.mark.parametrize(
    "data", [b'{"a":\n1}\n', b'[\n{"a": 1}\n]\n', b'{"a": 1}\nx\n', b'x\n{"a": 1}\n', b'{"a": "\n"}']
)
def test_line_ends_that_do_not_stand_between_objects_are_noticed(data):
    assert line_ends(data, 40) == -1
