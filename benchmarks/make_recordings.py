"""Build the bundled sample of recordings: real prompts of a telephone, joined, copied and with noise.

``python -m benchmarks.make_recordings --corpus DIR --output DIR`` reads ``speech-*.tar`` and ``speech.nemo.jsonl``, as
they are in the set of recordings that `benchmarks.audio` measures, and writes seven recordings, a page under the name
of another, and a README with the licence. The same corpus and versions of libraries give the same files, byte for byte,
but for the serial numbers of Ogg.
"""

from __future__ import annotations

import argparse
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile

SEED = 20261128
RATE = 8_000
#: Seconds of pause before, between and after prompts.
PAUSE_S = 1.0

#: The prompts of each recording, by their names in Asterisk.
PROMPTS = {
    "conference.ogg": ["confbridge-begin-glorious-b", "confbridge-only-participant"],
    "voicemail.ogg": ["vm-rec-busy", "vm-savemessage"],
    "directory.opus": ["dir-nomore", "conf-roll-callcomplete"],
    "system.flac": ["tt-weasels", "something-terribly-wrong"],
    "noisy.ogg": ["demo-thanks", "confbridge-rest-talk-vol-out"],
}
#: The recording that is there twice, and its copy in another codec.
COPY = ("conference.ogg", "conference-again.mp3")
#: Container, codec and level of compression, 0 to 1, by ending.
FORMATS = {
    "ogg": ("OGG", "VORBIS", 0.7),
    "opus": ("OGG", "OPUS", 0.95),
    "mp3": ("MP3", "MPEG_LAYER_III", 0.7),
    "flac": ("FLAC", "PCM_16", 1.0),
}

Sound = npt.NDArray[np.float64]


def read_prompts(corpus: Path) -> tuple[dict[str, Sound], dict[str, str]]:
    """The prompts of the corpus, at 8,000 samples a second, and their texts, by name."""
    with (corpus / "speech.nemo.jsonl").open(encoding="utf-8") as lines:
        texts = {name_of(row["audio_filepath"]): row["text"] for row in map(json.loads, lines)}
    wanted = {name for names in PROMPTS.values() for name in names}
    prompts: dict[str, Sound] = {}
    for path in sorted(corpus.glob("speech-*.tar")):
        with tarfile.open(path) as tar:
            for member in tar:
                if name_of(member.name) in wanted:
                    prompts[name_of(member.name)], rate = soundfile.read(io.BytesIO(read(tar, member)))
                    assert rate == RATE
    return prompts, texts


def name_of(path: str) -> str:
    """The name of a prompt in Asterisk."""
    return Path(path).stem.removeprefix("en_")


def read(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    """The content of a member that is a file."""
    file = tar.extractfile(member)
    assert file is not None
    return file.read()


def make(prompts: Mapping[str, Sound]) -> dict[str, Sound]:
    """The sound of each recording: prompts between pauses with faint noise, as a telephone has it."""
    rng = np.random.default_rng(SEED)
    pause = np.zeros(round(PAUSE_S * RATE))
    sounds: dict[str, Sound] = {}
    for file, names in PROMPTS.items():
        sound = np.concatenate([pause, *(part for name in names for part in (prompts[name], pause))])
        sounds[file] = sound + rng.normal(0, 1e-4, len(sound))
    noisy = sounds["noisy.ogg"]
    level = np.sqrt(np.mean(np.concatenate([prompts[name] for name in PROMPTS["noisy.ogg"]]) ** 2))
    sounds["noisy.ogg"] = noisy + rng.normal(0, level / 10 ** (5 / 20), len(noisy))
    sounds[COPY[1]] = 0.5 * sounds[COPY[0]][RATE // 2 :]
    sounds["hold.flac"] = rng.normal(0, 1e-4, 4 * RATE)
    return sounds


def write(sounds: Mapping[str, Sound], output: Path) -> None:
    """Write the recordings, and a page under the name of another."""
    output.mkdir(parents=True, exist_ok=True)
    for file, sound in sounds.items():
        kind, subtype, level = FORMATS[file.partition(".")[2]]
        soundfile.write(output / file, sound.clip(-1, 1), RATE, format=kind, subtype=subtype, compression_level=level)
    (output / "missing.mp3").write_bytes(b"<html><title>404 Not Found</title></html>\n")


def readme(texts: Mapping[str, str]) -> str:
    """The README of the sample."""
    rows = "\n".join(
        f"| `{file}` | {number} | `{name}` | {texts[name]} |"
        for file, names in PROMPTS.items()
        for number, name in enumerate(names)
    )
    return f"""# The sample of recordings

Eight small files for a first run on speech. Made by `benchmarks/make_recordings.py` (seed {SEED}); do not edit by hand.

## Licence

The prompts are of the Asterisk core sounds in English 1.6.1. Copyright 2003-2010 Allison Smith, who spoke them
(www.theivrvoice.com), with financial contributions by Digium, Inc. Licence: Creative Commons Attribution-ShareAlike 3.0
(CC BY-SA 3.0, https://creativecommons.org/licenses/by-sa/3.0/). Source:
https://downloads.asterisk.org/pub/telephony/sounds/.

Changes: prompts were joined with pauses of {PAUSE_S:g} s, noise was added, and they were encoded again. The
recordings in this folder are under the same licence, CC BY-SA 3.0, not under that of dcurate.

## Prompts

| file | number | prompt | text |
|---|---|---|---|
{rows}

## Other files

| file | what |
|---|---|
| `noisy.ogg` | in white noise, 5 dB below the speech |
| `{COPY[1]}` | `{COPY[0]}` without its first half second, half as loud, in another codec |
| `hold.flac` | 4 s without speech |
| `missing.mp3` | a web page that says "not found" |
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the bundled sample of recordings.")
    parser.add_argument("--corpus", type=Path, required=True, help="folder with speech-*.tar and speech.nemo.jsonl")
    parser.add_argument("--output", type=Path, required=True, help="folder to write to")
    options = parser.parse_args()
    prompts, texts = read_prompts(options.corpus)
    write(make(prompts), options.output)
    (options.output / "README.md").write_text(readme(texts), encoding="utf-8")


if __name__ == "__main__":
    main()
