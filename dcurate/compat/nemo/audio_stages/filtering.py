"""Recordings of a folder, and the stages of `AudioDataFilterStage`, with NeMo Curator's names and arguments."""

from __future__ import annotations

import copy
import itertools
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from dcurate.compat.nemo.audio_stages.rows import AudioTask
from dcurate.compat.nemo.audio_stages.sound import MonoConversionStage, TimestampMapperStage, VADSegmentationStage
from dcurate.compat.nemo.missing import MissingError
from dcurate.compat.nemo.stages import CompositeStage, ProcessingStage, Resources, Spec
from dcurate.compat.nemo.tasks import EmptyTask

_log = logging.getLogger("dcurate.compat.nemo")

DNS_READSPEECH_URL = (
    "https://dnschallengepublic.blob.core.windows.net/dns5archive/V5_training_dataset/Track1_Headset/"
    "read_speech.tgz.partaa"
)
SAMPLE_RATE_48KHZ = 48000

_DEFAULTS: dict[str, dict[str, Any]] = {
    "mono_conversion": {"output_sample_rate": 48000, "strict_sample_rate": True, "cpus": 1.0},
    "vad": {
        "enable": True,
        "min_duration_sec": 2.0,
        "max_duration_sec": 60.0,
        "threshold": 0.5,
        "min_interval_ms": 500,
        "speech_pad_ms": 300,
        "cpus": 1.0,
        "gpus": 0.1,
    },
    "band_filter": {"enable": True, "band_value": "full_band", "cpus": 1.0, "gpus": 0.0},
    "utmos": {"enable": True, "mos_threshold": 3.4, "cpus": 1.0, "gpus": 0.1},
    "sigmos": {
        "enable": True,
        "noise_threshold": 4.0,
        "ovrl_threshold": 3.5,
        **dict.fromkeys(f"{name}_threshold" for name in ("sig", "col", "disc", "loud", "reverb")),
        "cpus": 1.0,
        "gpus": 0.1,
    },
    "concatenation": {"silence_duration_sec": 0.5, "cpus": 1.0},
    "speaker_separation": {
        "enable": True,
        "exclude_overlaps": True,
        "min_duration": 0.8,
        "gap_threshold": 0.1,
        "buffer_time": 0.5,
        "cpus": 1.0,
        "gpus": 0.3,
    },
    "timestamp_mapper": {"passthrough_keys": None, "cpus": 1.0},
}
#: Parts of the composite with models that dcurate does not have, and what does the same.
_MISSING = {
    "band_filter": "AudioSignals has bandwidths, which a ColumnFilter limits",
    "utmos": "dcurate.audio.Dnsmos scores recordings",
    "sigmos": "dcurate.audio.Dnsmos scores recordings",
    "speaker_separation": "dcurate.audio finds no speakers",
}


@dataclass
class CreateInitialManifestReadSpeechStage(ProcessingStage[EmptyTask, AudioTask]):
    """Make a task of each WAV file in a folder, as DNS Challenge's read speech is laid out.

    Nothing is downloaded: a folder without WAV files is an error that says where they come from.

    Args:
        raw_data_dir: the folder.
        max_samples: files at most; below 1 for all.
        auto_download: taken, and without effect where there are files.
        filepath_key, text_key: keys of the path and of the empty text.

    Raises:
        FileNotFoundError: from `process`: there are no files.
    """

    raw_data_dir: str
    max_samples: int = 5000
    auto_download: bool = True
    filepath_key: str = "audio_filepath"
    text_key: str = "text"
    name: str = "CreateInitialManifestReadSpeech"
    batch_size: int = 1

    def outputs(self) -> Spec:
        return [], [self.filepath_key, self.text_key]

    def process(self, _: EmptyTask) -> list[AudioTask]:
        """Return the tasks, by their paths."""
        files = sorted(
            os.path.abspath(os.path.join(folder, name))
            for folder, _, names in os.walk(self.raw_data_dir)
            for name in names
            if name.endswith(".wav")
        )
        if not files:
            raise FileNotFoundError(
                f"no WAV files are in {self.raw_data_dir}; download {DNS_READSPEECH_URL} and unpack it there"
            )
        chosen = files[: self.max_samples] if self.max_samples > 0 else files
        return [AudioTask(data=self._row(path), dataset_name="DNS-ReadSpeech", filepath_key=self.filepath_key)
                for path in chosen]  # fmt: skip

    def _row(self, path: str) -> dict[str, Any]:
        words = os.path.splitext(os.path.basename(path))[0].split("_")
        numbers = dict(reversed(list(itertools.pairwise(words)))) if len(words) >= 6 else {}
        return {
            self.filepath_key: path,
            self.text_key: "",
            "sample_rate": SAMPLE_RATE_48KHZ,
            "book_id": numbers.get("book", ""),
            "reader_id": numbers.get("reader", ""),
        }


def load_config(config_path: str | Path | None = None) -> dict[str, Any]:
    """Return the settings of `AudioDataFilterStage`: the defaults, with those of a YAML file over them.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: a setting is out of range.
    """
    settings = copy.deepcopy(_DEFAULTS)
    if config_path is None:
        return settings
    if not Path(config_path).is_file():
        raise FileNotFoundError(f"Config file not found: {config_path}")
    merged = _merged(settings, yaml.safe_load(Path(config_path).read_text("utf-8")) or {})
    vad, rate = merged["vad"], merged["mono_conversion"]["output_sample_rate"]
    if vad["enable"] and not (vad["min_duration_sec"] < vad["max_duration_sec"] and 0 <= vad["threshold"] <= 1):
        raise ValueError(
            f"vad.min_duration_sec ({vad['min_duration_sec']}) must be less than vad.max_duration_sec "
            f"({vad['max_duration_sec']}), and vad.threshold ({vad['threshold']}) must be in [0, 1]"
        )
    if not isinstance(rate, int) or rate <= 0:
        raise ValueError(f"mono_conversion.output_sample_rate must be a positive integer, got {rate}")
    return merged


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    made = dict(base)
    for name, value in over.items():
        held = made.get(name)
        made[name] = _merged(held, value) if isinstance(held, dict) and isinstance(value, dict) else value
    return made


def get_enabled_stages(cfg: dict[str, Any]) -> list[str]:
    """Return the names of the parts that settings switch on."""
    switched = [name for name in ("vad", "band_filter", "utmos", "sigmos") if cfg.get(name, {}).get("enable", True)]
    speakers = ["concatenation", "speaker_separation"] if cfg.get("speaker_separation", {}).get("enable", True) else []
    return ["mono_conversion", *switched, *speakers, "timestamp_mapper"]


class AudioDataFilterStage(CompositeStage[AudioTask, AudioTask]):
    """Load recordings, find speech in them, and leave of each segment its file and time.

    The filters of quality and the separation of speakers are not here: with them switched on, `decompose` says what
    does the same.

    Args:
        config_path: a YAML file with settings; None for the defaults.
        config: settings over those.
        name: name of the composite.
    """

    def __init__(
        self, config_path: str | Path | None = None, config: dict[str, Any] | None = None, name: str = "AudioDataFilter"
    ) -> None:
        self.name = name
        self._cfg = _merged(load_config(config_path), config or {})

    def decompose(self) -> list[Any]:
        """Return the inner stages.

        Raises:
            MissingError: a part that is not here is switched on.
        """
        enabled = get_enabled_stages(self._cfg)
        for part, use in _MISSING.items():
            if part in enabled:
                raise MissingError(
                    f"the part {part!r} of AudioDataFilterStage is not in dcurate: set enable: false; {use}"
                )
        mono, vad, mapper = (self._cfg[name] for name in ("mono_conversion", "vad", "timestamp_mapper"))
        stages: list[Any] = [
            MonoConversionStage(mono["output_sample_rate"], strict_sample_rate=mono["strict_sample_rate"])
        ]
        if "vad" in enabled:
            settings = ("min_interval_ms", "min_duration_sec", "max_duration_sec", "threshold", "speech_pad_ms")
            stages.append(VADSegmentationStage(**{setting: vad[setting] for setting in settings}, name="VAD"))
        stages.append(
            TimestampMapperStage(mapper.get("passthrough_keys"), resources=Resources(cpus=mapper.get("cpus", 1.0)))
        )
        return stages
