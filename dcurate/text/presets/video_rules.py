"""Rules for films and clips with published thresholds, over the columns of `VideoInfo` and `VideoSignals`."""

from __future__ import annotations

from dcurate.text.number_filter import NumberRangeFilter

_INFO, _SIGNALS = "VideoInfo()", "VideoSignals()"

Filters = tuple[NumberRangeFilter, ...]


def video_nemo() -> Filters:
    """NeMo Curator's limits for motion: a mean from 0.00098, and from 0.000001 in each patch of 256 x 256 pixels.

    They are the defaults of its ``MotionFilterStage``. It drops clips without vectors, too, as of VP9 and AV1: here
    they are kept, as nothing is known against them.

    Examples:
        >>> [(rule.name, rule.min_value) for rule in video_nemo()]
        [('video_motion_global_mean', 0.00098), ('video_motion_per_patch_min_256', 1e-06)]
    """
    return (
        NumberRangeFilter("video_motion_global_mean", min_value=0.00098, made_by=_SIGNALS),
        NumberRangeFilter("video_motion_per_patch_min_256", min_value=0.000001, made_by=_SIGNALS),
    )


def video_openvid(min_side: int = 512) -> Filters:
    """OpenVid-1M's limit that needs no model: frames of at least 512 x 512 pixels.

    From Nan et al., "OpenVid-1M" (2024, arXiv:2407.02371). Its other rules are shares of a data set (such as the best
    fifth by aesthetic score), and need models: of aesthetics, of optical flow and of clarity.

    Args:
        min_side: pixels of the width and of the height, at least.

    Examples:
        >>> [(rule.name, rule.min_value) for rule in video_openvid()]
        [('video_width', 512), ('video_height', 512)]
    """
    return (
        NumberRangeFilter("video_width", min_value=min_side, made_by=_INFO),
        NumberRangeFilter("video_height", min_value=min_side, made_by=_INFO),
    )


def video_panda() -> Filters:
    """Panda-70M's limits for clips: 2.5 to 60 seconds, and no cut within.

    The durations are those of ``event_stitching.py`` in its repository, with which it was collected (Chen et al.,
    "Panda-70M", 2024); it shortens longer clips to 60 seconds, and then takes a tenth off both ends. It splits at cuts
    and joins what is alike by a model; without one, a clip is what has no cut.

    Examples:
        >>> [(rule.name, rule.min_value, rule.max_value) for rule in video_panda()]
        [('video_duration_s', 2.5, 60.0), ('video_cuts_per_minute', None, 0.0)]
    """
    return (
        NumberRangeFilter("video_duration_s", min_value=2.5, max_value=60.0, made_by=_INFO),
        NumberRangeFilter("video_cuts_per_minute", max_value=0.0, made_by=_SIGNALS),
    )


def video_quality() -> Filters:
    """Dcurate's own rules, for what no one wants: cut files, black, frozen, framed, flickering or blank films.

    The thresholds are loose, and not published elsewhere: whole files; black for at most half of the time; frozen for
    at most 80 %; bars on at most half of the area; a flicker of at most 0.05; a brightness of 0.03 to 0.97; a contrast
    of at least 0.02; a variance of the Laplacian from 5.

    Examples:
        >>> [rule.name for rule in video_quality()][:4]
        ['video_cut_off', 'video_black', 'video_frozen', 'video_letterbox']
    """
    return (
        NumberRangeFilter("video_cut_off", max_value=0, made_by=_SIGNALS),
        NumberRangeFilter("video_black", max_value=0.5, made_by=_SIGNALS),
        NumberRangeFilter("video_frozen", max_value=0.8, made_by=_SIGNALS),
        NumberRangeFilter("video_letterbox", max_value=0.5, made_by=_SIGNALS),
        NumberRangeFilter("video_flicker", max_value=0.05, made_by=_SIGNALS),
        NumberRangeFilter("video_brightness", min_value=0.03, max_value=0.97, made_by=_SIGNALS),
        NumberRangeFilter("video_contrast", min_value=0.02, made_by=_SIGNALS),
        NumberRangeFilter("video_sharpness", min_value=5, made_by=_SIGNALS),
    )
