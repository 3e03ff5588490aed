"""Round trips through the layouts of speech corpora. Part ``layouts`` of ``benchmarks.audio``.

Rows of ``speech.nemo.jsonl`` with the recordings of ``speech-*.tar``, and the cuts of ``speech.cuts.jsonl``, are
written in each layout and read again: by dcurate, and by the layout's own library where there is one. ``rows`` counts
what comes back; ``equal`` says whether all of it is as it was: the lines of manifests and the bytes of recordings to
the byte, other values by value.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import datasets
import lhotse
import orjson
import pyarrow.parquet as pq
import webdataset

from dcurate import (
    InlineExecutor,
    MediaReader,
    ParquetReader,
    ParquetWriter,
    Pipeline,
    ProcessingStage,
    WebDatasetReader,
    WebDatasetWriter,
)
from dcurate.audio import (
    AudioFolderReader,
    AudioFolderWriter,
    LhotseCutReader,
    LhotseCutWriter,
    LhotseSharReader,
    LhotseSharWriter,
    NemoManifestReader,
    NemoManifestWriter,
    NemoTarWriter,
)
from dcurate.media import PackMedia, UnpackMedia, fetch

Figures = dict[str, Any]


def run(folder: Path) -> dict[str, Figures]:
    corpus = _Corpus(folder)
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # Lhotse does not close archives
        out = Path(scratch)
        return {
            "nemo_manifest": _nemo_manifest(corpus, out),
            "nemo_tarred": _nemo_tarred(corpus, out),
            "lhotse_cuts": _lhotse_cuts(folder, out),
            "lhotse_shar": _lhotse_shar(corpus, out),
            "huggingface_folder": _folder(corpus, out),
            "huggingface_parquet": _parquet(corpus, out),
            "webdataset": _webdataset(corpus, out),
            "files": _files(corpus, out),
        }


class _Corpus:
    """The manifest of a folder, its rows, and the bytes of their recordings."""

    def __init__(self, folder: Path) -> None:
        self.manifest = folder / "speech.nemo.jsonl"
        self.lines = self.manifest.read_bytes()
        self.rows = [orjson.loads(line) for line in self.lines.splitlines()]
        self.tars = [str(path) for path in sorted(folder.glob("speech-*.tar"))]
        self.sounds = dict(zip(self.names, _sounds(self.reader()), strict=True))

    @property
    def names(self) -> list[str]:
        return [row["audio_filepath"] for row in self.rows]

    def reader(self) -> NemoManifestReader:
        return NemoManifestReader(str(self.manifest), tar_paths=self.tars)


def _nemo_manifest(corpus: _Corpus, out: Path) -> Figures:
    _run(corpus.reader(), NemoManifestWriter(str(out / "nemo")))
    lines = _joined(out / "nemo", "*.jsonl")
    return _figures(len(lines.splitlines()), lines == corpus.lines)


def _nemo_tarred(corpus: _Corpus, out: Path) -> Figures:
    _run(corpus.reader(), NemoTarWriter(str(out / "tarred")))
    archives = [str(path) for path in (out / "tarred").glob("*.tar")]
    again = NemoManifestReader(str(out / "tarred"), tar_paths=archives)
    rows = [orjson.loads(line) for line in _joined(out / "tarred", "*.json").splitlines()]
    same_sounds = _sounds(again) == list(corpus.sounds.values())
    return _figures(len(rows), same_sounds and _without(rows, "shard_id") == _without(corpus.rows, "shard_id"))


def _lhotse_cuts(folder: Path, out: Path) -> Figures:
    source = folder / "speech.cuts.jsonl"
    reader = LhotseCutReader(str(source))
    _run(reader, LhotseCutWriter(str(out / "cuts")))
    [written] = (out / "cuts").glob("*.jsonl")
    before, after = (list(lhotse.CutSet.from_file(path)) for path in (source, written))
    same_bytes = written.read_bytes() == source.read_bytes()
    return _figures(len(after), same_bytes and before == after and len(_sounds(reader)) == len(before))


def _lhotse_shar(corpus: _Corpus, out: Path) -> Figures:
    _run(corpus.reader(), LhotseSharWriter(str(out / "shar"), language_field="lang"))
    _run(LhotseSharReader(str(out / "shar")), LhotseSharWriter(str(out / "again")))
    same = [_joined(out / "shar", pattern) == _joined(out / "again", pattern) for pattern in ("*.gz", "*.tar")]
    cuts = list(lhotse.CutSet.from_shar(in_dir=out / "shar"))
    sounds = [cut.recording.sources[0].source for cut in cuts]
    texts = [cut.supervisions[0].text for cut in cuts]
    same += [sounds == list(corpus.sounds.values()), texts == [row["text"] for row in corpus.rows]]
    return _figures(len(cuts), all(same))


def _folder(corpus: _Corpus, out: Path) -> Figures:
    _run(corpus.reader(), AudioFolderWriter(str(out / "folder")))
    _run(AudioFolderReader(str(out / "folder")), AudioFolderWriter(str(out / "folder2")))
    builder = datasets.load_dataset_builder("audiofolder", data_dir=str(out / "folder2"), cache_dir=str(out / "cache"))
    [split] = builder._split_generators(datasets.StreamingDownloadManager(data_dir=str(out / "folder2")))
    rows = [row for _, row in builder._generate_examples(**split.gen_kwargs)]
    sounds = {Path(row.pop("audio")).name: row for row in rows}
    files = {path.name: path.read_bytes() for path in (out / "folder2").rglob("*") if path.name in sounds}
    return _figures(len(rows), files == corpus.sounds and list(sounds.values()) == corpus.rows)


def _parquet(corpus: _Corpus, out: Path) -> Figures:
    _run(corpus.reader(), PackMedia("audio", "Audio"), ParquetWriter(str(out / "parquet")))
    again: list[ProcessingStage[Any, Any]] = [
        ParquetReader(str(out / "parquet")),
        UnpackMedia("audio"),
        PackMedia("audio", "Audio"),
    ]
    _run(*again, ParquetWriter(str(out / "parquet2")))
    [before], [after] = ((out / name).glob("*.parquet") for name in ("parquet", "parquet2"))
    names = pq.read_schema(before).names
    found = datasets.Dataset.from_parquet(str(after), cache_dir=str(out / "cache"))
    cells = found.cast_column("audio", datasets.Audio(decode=False))["audio"]
    same = pq.read_table(before).equals(pq.read_table(after).select(names))
    return _figures(len(cells), same and [cell["bytes"] for cell in cells] == list(corpus.sounds.values()))


def _webdataset(corpus: _Corpus, out: Path) -> Figures:
    _run(AudioFolderReader(str(out / "folder")), WebDatasetWriter(str(out / "wds"), members={"txt": "text"}))
    _run(WebDatasetReader(str(out / "wds" / "*.tar")), WebDatasetWriter(str(out / "wds2")))
    paths = [str(path) for path in sorted((out / "wds2").glob("*.tar"))]
    samples = list(webdataset.WebDataset(paths, shardshuffle=False, empty_check=False))
    sounds = {_sound_of(sample) for sample in samples}
    texts = [sample["txt"].decode() for sample in samples]
    same = sounds == set(corpus.sounds.values()) and texts == [row["text"] for row in corpus.rows]
    return _figures(len(samples), same and _joined(out / "wds", "*.tar") == _joined(out / "wds2", "*.tar"))


def _sound_of(sample: dict[str, Any]) -> bytes:
    [sound] = [value for name, value in sample.items() if isinstance(value, bytes) and name != "txt"]
    return sound


def _files(corpus: _Corpus, out: Path) -> Figures:
    (out / "files").mkdir()
    for name, data in corpus.sounds.items():
        (out / "files" / name).write_bytes(data)
    batches = _run(MediaReader(str(out / "files"), kinds=["audio"]))
    found = {
        name: data
        for batch in batches
        for name, data in zip(batch.to_arrow()["file_name"].to_pylist(), fetch(batch.to_arrow()), strict=True)
    }
    return _figures(len(found), found == corpus.sounds)


def _run(*stages: ProcessingStage[Any, Any]) -> Sequence[Any]:
    return list(Pipeline("layouts", stages=list(stages)).run(InlineExecutor(), observers=[]))


def _sounds(reader: ProcessingStage[Any, Any]) -> list[Any]:
    return [data for batch in _run(reader) for data in fetch(batch.to_arrow())]


def _joined(folder: Path, pattern: str) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.glob(pattern)))


def _without(rows: Iterable[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key != name} for row in rows]


def _figures(rows: int, equal: bool) -> Figures:
    return {"rows": rows, "equal": equal}
