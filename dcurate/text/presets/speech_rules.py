"""Rules for recordings of speech with published thresholds, over the columns of the stages of `dcurate.audio`."""

from __future__ import annotations

from dcurate.text.number_filter import NumberRangeFilter

_INFO, _SIGNALS, _RATES = "AudioInfo()", "AudioSignals()", "ErrorRates()"

Filters = tuple[NumberRangeFilter, ...]


def speech_emilia(field: str = "dnsmos_ovrl") -> Filters:
    """Emilia's rules for segments: 3 to 30 seconds, and a DNSMOS P.835 overall score of at least 3.

    From He et al., "Emilia" (2024), section 3. Its rules for languages and for the mean duration of phones need a
    recogniser.

    Args:
        field: the column with the score, as `Dnsmos` makes it.

    Examples:
        >>> [(rule.name, rule.min_value, rule.max_value) for rule in speech_emilia()]
        [('audio_decoded_s', 3, 30), ('dnsmos_ovrl', 3.0, None)]
    """
    return (
        NumberRangeFilter("audio_decoded_s", min_value=3, max_value=30, made_by=_SIGNALS),
        NumberRangeFilter(field, min_value=3.0, made_by="Dnsmos()"),
    )


def speech_full_band(min_bandwidth_hz: int = 10_000) -> Filters:
    """Dcurate's own rule for recordings of full band: their sound reaches 10,000 Hz, whatever the sample rate says.

    It is in place of NeMo Curator's ``BandFilterStage``, whose classifier parts ``full_band`` from ``narrow_band`` by
    energies below and above 10 kHz. Telephone sound that was resampled to 48 kHz has a bandwidth of 4,000 Hz. A filter
    that falls off gently is passed up to 1,600 Hz above its corner. Silence of a file counts as half its sample rate.

    Args:
        min_bandwidth_hz: the lowest bandwidth to keep, in Hz.

    Examples:
        >>> [(rule.name, rule.min_value) for rule in speech_full_band()]
        [('audio_bandwidth_hz', 10000)]
    """
    return (NumberRangeFilter("audio_bandwidth_hz", min_value=min_bandwidth_hz, made_by=_SIGNALS),)


def speech_nemo() -> Filters:
    """NeMo Curator's limits for segments of speech: 2 to 60 seconds, a rate from 16,000 Hz, a bandwidth from 8,000 Hz.

    The duration is that of its ``VADSegmentationStage``; rate and bandwidth are those of its ``ALMDataBuilderStage``,
    measured by the formula of its ``BandwidthEstimationStage``.

    Examples:
        >>> [(rule.name, rule.min_value, rule.max_value) for rule in speech_nemo()][1:]
        [('audio_sample_rate', 16000, None), ('audio_bandwidth_hz', 8000, None)]
    """
    return (
        NumberRangeFilter("audio_decoded_s", min_value=2, max_value=60, made_by=_SIGNALS),
        NumberRangeFilter("audio_sample_rate", min_value=16_000, made_by=_INFO),
        NumberRangeFilter("audio_bandwidth_hz", min_value=8_000, made_by=_SIGNALS),
    )


def speech_nemo_wer(max_wer: float = 5.5) -> Filters:
    """NeMo Curator's limit for two transcripts of a recording: a word error rate of at most 5.5 %.

    It is the ``wer_threshold`` of the pipeline in its tutorial FLEURS, in per cent; `ErrorRates` has shares of 1.

    Args:
        max_wer: the highest word error rate to keep, in per cent.

    Examples:
        >>> speech_nemo_wer()[0].max_value
        0.055
    """
    return (NumberRangeFilter("wer", max_value=max_wer / 100, made_by=_RATES),)


def speech_quality() -> Filters:
    """Dcurate's own rules, for what no one wants: cut files, silence, clipping, offsets, lost channels, dropouts.

    The thresholds are loose, and not published elsewhere: whole files; less than 95 % silence; a loudness from -55
    LUFS; clipping in at most 1 % of the samples; an offset of at most 0.05; at most 20 % exact zeros; no channels in
    opposite phase; a signal-to-noise ratio from 0 dB by the distribution of amplitudes.

    Examples:
        >>> [rule.name for rule in speech_quality()][:4]
        ['audio_truncated', 'audio_silence', 'audio_loudness_lufs', 'audio_clipped']
    """
    return (
        NumberRangeFilter("audio_truncated", max_value=0, made_by=_SIGNALS),
        NumberRangeFilter("audio_silence", max_value=0.95, made_by=_SIGNALS),
        NumberRangeFilter("audio_loudness_lufs", min_value=-55, made_by=_SIGNALS),
        NumberRangeFilter("audio_clipped", max_value=0.01, made_by=_SIGNALS),
        NumberRangeFilter("audio_dc_offset", max_value=0.05, made_by=_SIGNALS),
        NumberRangeFilter("audio_zeros", max_value=0.2, made_by=_SIGNALS),
        NumberRangeFilter("audio_opposite_phase", max_value=0, made_by=_SIGNALS),
        NumberRangeFilter("audio_wada_snr_db", min_value=0, made_by=_SIGNALS),
    )
