"""Audio folders and Parquet of Hugging Face come back as they were, and `datasets` reads them."""

import json

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dcurate import ParquetReader, ParquetWriter, PipelineError
from dcurate.audio import AudioFolderReader, AudioFolderWriter, NemoManifestReader
from dcurate.media import PackMedia, UnpackMedia, fetch
from dcurate.media.refs import refs_of
from tests.audio.layouts.test_nemo import FirstHalf, reasons, run


@pytest.fixture
def folder(tmp_path):
    inner = tmp_path / "in" / "part"
    inner.mkdir(parents=True)
    for name in ("a.wav", "b.wav"):
        (inner / name).write_bytes(f"sound of {name}".encode())
    return tmp_path / "in"


def load(path):
    """The examples that the reader of `datasets` makes, before it decodes them, which needs FFmpeg."""
    builder = datasets.load_dataset_builder("audiofolder", data_dir=str(path), cache_dir=f"{path}.cache")
    [split] = builder._split_generators(datasets.StreamingDownloadManager(data_dir=str(path)))
    return [example for _, example in builder._generate_examples(**split.gen_kwargs)]


LINES = '{"file_name": "a.wav", "text": "\\u00e9", "n": 1.50}\n{"n": 2, "text": "cut", "file_name": "b.wav"}\n'


def test_a_folder_comes_back_with_all_bytes(folder, tmp_path):
    (folder / "part" / "metadata.jsonl").write_text(LINES)
    run(AudioFolderReader(str(folder)), AudioFolderWriter(str(tmp_path / "out")))
    [metadata] = (tmp_path / "out").rglob("metadata.jsonl")
    assert metadata.read_text() == LINES
    assert {path.name: path.read_bytes() for path in metadata.parent.glob("*.wav")} == {
        "a.wav": b"sound of a.wav",
        "b.wav": b"sound of b.wav",
    }


def test_datasets_reads_the_same_of_both(folder, tmp_path):
    (folder / "part" / "metadata.jsonl").write_text(LINES)
    run(AudioFolderReader(str(folder)), AudioFolderWriter(str(tmp_path / "out")))
    before, after = load(folder), load(tmp_path / "out")
    for rows in (before, after):
        for row in rows:
            with open(row["audio"], "rb") as file:
                row["audio"] = file.read()
    assert before == after
    assert [row["text"] for row in after] == ["é", "cut"]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_metadata_may_be_csv_or_parquet(folder, suffix):
    rows = pa.table({"file_name": ["b.wav", "a.wav"], "text": ["x", "y"]})
    if suffix == "csv":
        (folder / "part" / "metadata.csv").write_text("file_name,text\nb.wav,x\na.wav,y\n")
    else:
        pq.write_table(rows, folder / "part" / "metadata.parquet")
    [batch] = run(AudioFolderReader(str(folder)))
    assert batch.to_arrow().drop_columns(["media_ref"]).equals(rows)
    assert fetch(batch.to_arrow()) == [b"sound of b.wav", b"sound of a.wav"]


def test_segments_are_kept_with_the_recording_once(folder, tmp_path):
    lines = LINES + '{"n": 3, "text": "cut", "file_name": "b.wav"}\n'
    (folder / "part" / "metadata.jsonl").write_text(lines)
    run(AudioFolderReader(str(folder)), FirstHalf(), AudioFolderWriter(str(tmp_path / "out")))
    [batch] = run(AudioFolderReader(str(tmp_path / "out")))
    assert [(ref.start_s, ref.stop_s) for ref in refs_of(batch.to_arrow())] == [(None, None), (0.0, 1.0), (0.0, 1.0)]
    assert len(list((tmp_path / "out").rglob("*.wav"))) == 2


def test_rows_of_no_recording_are_in_quarantine_with_their_reason(folder, tmp_path):
    rows: list[dict[str, object]] = [{"file_name": name} for name in ("a.wav", "c.wav", "../../x.wav", None, "a.wav/")]
    rows += [{"file_name": "a.wav", "audio_start_s": 2.0, "audio_stop_s": stop} for stop in (1.0, -1.0, 2.0)]
    (folder / "part" / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run(AudioFolderReader(str(folder)), AudioFolderWriter(str(tmp_path / "out")))
    assert reasons(tmp_path) == {"missing": 1, "outside of root": 1, "no path": 1, "bad segment": 3}


def test_names_of_files_stay_in_their_folder_and_differ(folder, tmp_path):
    rows = [
        {"audio_filepath": f"part/{name}", "file_name": file}
        for name, file in (("a.wav", "/x.wav"), ("b.wav", "X.wav"))
    ]
    (folder / "m.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run(NemoManifestReader(str(folder / "m.json")), AudioFolderWriter(str(tmp_path / "out")))
    assert sorted(path.name for path in (tmp_path / "out").rglob("*.wav")) == ["X_1.wav", "x.wav"]


def test_parquet_with_bytes_comes_back_and_datasets_knows_the_sound(folder, tmp_path):
    (folder / "part" / "metadata.jsonl").write_text(LINES)
    run(AudioFolderReader(str(folder)), PackMedia("audio", "Audio"), ParquetWriter(str(tmp_path / "one")))
    run(
        ParquetReader(str(tmp_path / "one")),
        UnpackMedia("audio"),
        PackMedia("audio", "Audio"),
        ParquetWriter(str(tmp_path / "two")),
    )
    [one], [two] = ((tmp_path / name).glob("*.parquet") for name in ("one", "two"))
    before, after = pq.read_table(one), pq.read_table(two)
    assert after.select(before.column_names).equals(before)
    found = datasets.Dataset.from_parquet(str(two), cache_dir=str(tmp_path / "cache"))
    assert isinstance(found.features["audio"], datasets.Audio)
    cells = found.cast_column("audio", datasets.Audio(decode=False))["audio"]
    assert [cell["bytes"] for cell in cells] == [b"sound of a.wav", b"sound of b.wav"]


def test_settings_without_effect_are_refused():
    with pytest.raises(PipelineError, match="'compression' cannot be set"):
        AudioFolderWriter("out", compression="gzip")
    with pytest.raises(PipelineError, match="must have 'file_name'"):
        AudioFolderReader("in", fields=["text"])
