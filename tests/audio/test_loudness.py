"""Loudness against pyloudnorm, and on the test signals of EBU Tech 3341 and 3342."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyloudnorm
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dcurate.audio.loudness import Loudness, k_weighting, loudness_gain


def sines(*parts: tuple[float, float], rate: int = 48_000) -> Any:
    """A stereo sine of 1 kHz, of so many dB of full scale for so many seconds each."""
    sizes = np.concatenate([np.full(round(seconds * rate), 10 ** (level / 20)) for level, seconds in parts])
    samples = (sizes * np.sin(2 * np.pi * 1000 * np.arange(len(sizes)) / rate)).astype(np.float32)
    return np.stack([samples, samples])


def measured(channels: Any, rate: int = 48_000, window: int = 65_536) -> Loudness:
    loudness = Loudness(rate, len(channels))
    for start in range(0, channels.shape[1], window):
        loudness.take(np.ascontiguousarray(channels[:, start : start + window]))
    return loudness


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([(-23, 20)], -23),  # 1
        ([(-33, 20)], -33),  # 2
        ([(-36, 10), (-23, 60), (-36, 10)], -23),  # 3
        ([(-72, 10), (-36, 10), (-23, 60), (-36, 10), (-72, 10)], -23),  # 4
        ([(-26, 20), (-20, 20.1), (-26, 20)], -23),  # 5
    ],
)
@pytest.mark.parametrize("rate", [16_000, 44_100, 48_000])
def test_integrated_loudness_of_ebu_tech_3341(parts: Any, expected: float, rate: int) -> None:
    assert measured(sines(*parts, rate=rate), rate).integrated() == pytest.approx(expected, abs=0.1)


def test_surround_channels_weigh_more_and_the_low_frequency_channel_nothing() -> None:
    """Signal 6 of EBU Tech 3341: -28 dB left and right, -24 in the centre, -30 in both at the sides."""
    left, centre, side = (sines((level, 20))[0] for level in (-28, -24, -30))
    loud = sines((0, 20))[0]
    assert measured(np.stack([left, left, centre, side, side])).integrated() == pytest.approx(-23, abs=0.1)
    assert measured(np.stack([left, left, centre, loud, side, side])).integrated() == pytest.approx(-23, abs=0.1)


@pytest.mark.parametrize(
    ("levels", "expected"),
    [((-20, -30), 10), ((-20, -15), 5), ((-40, -20), 20), ((-50, -35, -20, -35, -50), 15)],
)
def test_loudness_range_of_ebu_tech_3342(levels: Any, expected: float) -> None:
    assert measured(sines(*((level, 20) for level in levels))).range() == pytest.approx(expected, abs=1)


def test_the_filters_are_those_of_the_standard() -> None:
    assert k_weighting(48_000) == pytest.approx(
        [1.53512485958697, -2.69169618940638, 1.19839281085285, -1.69065929318241, 0.73248077421585,
         -1.99004745483398, 0.99007225036621], abs=1e-12,
    )  # fmt: skip


@example(11_025, 1, 0.5, 1_000, 0)
@given(
    st.sampled_from([8_000, 11_025, 16_000, 22_050, 44_100, 48_000, 96_000]),
    st.sampled_from([1, 2, 3, 5]),  # pyloudnorm takes the fourth channel of four for one at a side
    st.floats(0.41, 5),
    st.sampled_from([1_000, 5_001, 65_536]),
    st.integers(0, 2**32 - 1),
)
def test_loudness_is_that_of_pyloudnorm(rate: int, channels: int, seconds: float, window: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    count = round(seconds * rate)
    points = np.arange(0, count + rate, rate // 4)
    sizes = np.interp(np.arange(count), points, draw.uniform(0, 0.3, len(points)))
    samples = (draw.standard_normal((channels, count)) * sizes).astype(np.float32)
    meter = pyloudnorm.Meter(rate, filter_class="DeMan")
    tenths = ((count + 1) * 10 - 1) // rate  # that end within the samples: pyloudnorm counts a block that is not full
    whole = samples[:, : tenths * rate // 10]
    expected = meter.integrated_loudness(whole.T.astype(np.float64))
    assert measured(samples, rate, window).integrated() == pytest.approx(max(-70.0, expected), abs=0.01)


def test_silence_and_short_sounds() -> None:
    assert measured(np.zeros((1, 48_000), np.float32)).integrated() == -70
    assert measured(np.zeros((1, 480_000), np.float32)).range() is None
    assert measured(sines((-23, 0.2))).integrated() == pytest.approx(-23, abs=0.2)
    assert measured(sines((-23, 2.9))).range() is None
    assert Loudness(48_000, 1).integrated() is None


def test_rates_without_filters_have_no_loudness() -> None:
    for rate in (1, 3_999, 1_000_001):
        loudness = measured(np.ones((1, 5_000), np.float32), rate)
        assert (loudness.integrated(), loudness.range()) == (None, None)


@pytest.mark.parametrize("target", [-23.0, -16.0, -30.0])
def test_a_gain_makes_a_recording_as_loud_as_wanted(target: float) -> None:
    samples = sines((-27, 5))
    gain = loudness_gain(measured(samples).integrated(), -27.0, target)
    assert measured((samples * 10 ** (gain / 20)).astype(np.float32)).integrated() == pytest.approx(target, abs=0.05)


def test_a_gain_leaves_the_true_peak_below_its_limit() -> None:
    assert loudness_gain(-30.0, -3.0, -14.0, max_true_peak=-1.0) == 2.0
    assert loudness_gain(-10.0, 1.0, -14.0, max_true_peak=-1.0) == -4.0
    assert loudness_gain(-14.0, 1.0, -14.0, max_true_peak=-1.0) == -2.0
    assert loudness_gain(None, -3.0) == 0.0
