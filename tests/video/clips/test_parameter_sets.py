"""Parameter sets are renumbered and nothing else."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate.video.clips.nal_units import Bits, escaped, golomb, joined, unescaped, units
from dcurate.video.clips.parameter_sets import H264Sets, H265Sets
from tests.video.clips.made import Made, av, video

_BYTES = st.binary(max_size=60) | st.lists(st.sampled_from([0, 1, 2, 3, 255]), max_size=60).map(bytes)


@given(data=_BYTES)
def test_what_is_escaped_has_no_start_code_and_comes_back(data):
    made = escaped(data)
    assert unescaped(made) == data
    assert all(code not in made for code in (b"\0\0\0", b"\0\0\1", b"\0\0\2"))


@given(numbers=st.lists(st.integers(0, 10**6)))
def test_numbers_come_back_from_their_code(numbers):
    text = "".join(format(bits, f"0{count}b") for bits, count in map(golomb, numbers))
    data = int(text + "0" * (-len(text) % 8) or "0", 2).to_bytes((len(text) + 7) // 8 or 1, "big")
    bits = Bits(data)
    assert [bits.number() for _ in numbers] == numbers


@given(parts=st.lists(st.binary(min_size=1, max_size=20)), length=st.sampled_from([1, 2, 4]))
def test_units_come_back_from_a_packet(parts, length):
    assert list(units(joined(parts, length), length)) == parts


@pytest.mark.parametrize(
    ("codec", "kind", "options"),
    [
        ("libx264", H264Sets, {}),
        ("libx264", H264Sets, {"profile": "baseline"}),
        ("libx265", H265Sets, {"x265-params": "log-level=none"}),
    ],
)
def test_renumbered_frames_decode_to_the_same_pixels(codec, kind, options):
    with av.open(
        io.BytesIO(video(Made(codec, form="h264" if codec == "libx264" else "hevc", frames=8, options=options)))
    ) as film:
        packets = [bytes(packet) for packet in film.demux(film.streams.video[0]) if packet.size]
        name = film.streams.video[0].codec_context.name
    sets = kind(b"")
    ids = sets.fresh()
    first, found = sets.packet(packets[0], ids)
    data = [joined([unit for units_ in found.values() for unit in units_], None) + first]
    data += [sets.packet(packet, ids)[0] for packet in packets[1:]]
    assert all(found.values())
    assert {sets._id(unit) for units_ in found.values() for unit in units_} == set(ids.values())
    assert decoded(name, data) == decoded(name, packets)


def decoded(name: str, packets: list[bytes]) -> list[bytes]:
    context = av.CodecContext.create(name, "r")
    made = []
    for data in [*packets, None]:
        made += context.decode(None if data is None else av.Packet(data))
    assert len(made) == 8
    return [frame.to_ndarray().tobytes() for frame in made]


def test_numbers_in_use_are_not_given_again():
    data = video(Made(options={"g": "10"}, frames=5))
    with av.open(io.BytesIO(data)) as film:
        record = bytes(film.streams.video[0].codec_context.extradata)
    sets = H264Sets(record)
    assert sets.used == {7: {0}, 8: {0}}
    assert sets.joined_with({7: [], 8: []}) == record
    sets.used[8] |= set(range(15, 31))
    with pytest.raises(ValueError, match="uses all numbers"):
        sets.fresh()
