"""Manifests of NeMo come back as they were, and every line is a row or in quarantine with its reason."""

import json
import tarfile
from collections import Counter
from dataclasses import dataclass

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import DataError, InlineExecutor, JsonlReader, Pipeline, PipelineError, ProcessingStage
from dcurate.audio import NemoManifestReader, NemoManifestWriter, NemoTarWriter
from dcurate.media import Ref, fetch, ref_array
from dcurate.media.refs import refs_of
from tests.media.archives import tar_of


def run(*stages):
    return Pipeline("layouts", stages=list(stages)).run(InlineExecutor(), observers=[])


def rows_of(*stages):
    return [row for batch in run(*stages) for row in batch.to_arrow().to_pylist()]


def written(folder, pattern="*.jsonl"):
    return b"".join(path.read_bytes() for path in sorted(folder.glob(pattern)))


def reasons(folder):
    lines = [line for path in folder.rglob("*quarantine*/*.jsonl") for line in path.read_text().splitlines()]
    return Counter(json.loads(line)["_dcurate_reason"] for line in lines)


@dataclass
class FirstHalf(ProcessingStage):
    """Makes the rows mean the first second of what they meant, where the text says so."""

    name: str = "first_half"

    def process(self, batch):
        rows = batch.to_arrow()
        refs = [
            ref._replace(start_s=ref.start_s or 0.0, stop_s=(ref.start_s or 0.0) + 1.0) if text == "cut" else ref
            for ref, text in zip(refs_of(rows), rows["text"].to_pylist(), strict=True)
        ]
        place = rows.column_names.index("media_ref")
        return batch.with_data(rows.set_column(place, "media_ref", ref_array(refs)))


@pytest.fixture
def corpus(tmp_path):
    folder = tmp_path / "in"
    (folder / "wav").mkdir(parents=True)
    for name in ("a.wav", "b.wav"):
        (folder / "wav" / name).write_bytes(f"sound of {name}".encode())
    return folder


LINES = [
    '{"audio_filepath": "wav/a.wav", "duration": 4.7500, "text": "é\\u00e9", "extra": {"n": [1, 2.50], "z": null}}',
    '{"audio_filepath": "./wav/b.wav",   "duration": 1e1, "offset": 0.1, "text": "cut"}',
    '{"text": "twice", "offset": 0.10, "duration": 0.2, "audio_filepath": "wav/b.wav", "id": 12345678901234567890}',
    '{"text": "twice", "offset": 0.10, "duration": 0.2, "audio_filepath": "wav/b.wav", "id": 12345678901234567890}',
]


def test_a_manifest_comes_back_byte_for_byte(corpus, tmp_path):
    (corpus / "m.json").write_text("\n".join(LINES) + "\n")
    run(NemoManifestReader(str(corpus / "m.json")), NemoManifestWriter(str(tmp_path / "out")))
    assert written(tmp_path / "out") == (corpus / "m.json").read_bytes()


def test_references_mean_the_recording_and_the_segment(corpus):
    (corpus / "m.json").write_text("\n".join(LINES))
    [batch] = run(NemoManifestReader(str(corpus / "m.json")))
    refs = refs_of(batch.to_arrow())
    assert [(ref.start_s, ref.stop_s) for ref in refs] == [
        (None, None),
        (0.1, 10.1),
        (0.1, pytest.approx(0.3)),
        (0.1, pytest.approx(0.3)),
    ]
    assert fetch(batch.to_arrow())[:2] == [b"sound of a.wav", b"sound of b.wav"]


def test_only_what_a_stage_changed_is_written_anew(corpus, tmp_path):
    (corpus / "m.json").write_text("\n".join(LINES) + "\n")
    run(NemoManifestReader(str(corpus / "m.json")), FirstHalf(), NemoManifestWriter(str(tmp_path / "out")))
    before, after = map(json.loads, LINES), map(json.loads, written(tmp_path / "out").splitlines())
    for old, new in zip(before, after, strict=True):
        if old["text"] == "cut":
            old["duration"] = 1.0
        assert {name: value for name, value in new.items() if value is not None} == {
            name: value for name, value in old.items() if value is not None
        }


def test_paths_are_written_in_full_where_that_is_asked_for(corpus, tmp_path):
    (corpus / "m.json").write_text("\n".join(LINES) + "\n")
    run(NemoManifestReader(str(corpus / "m.json")), NemoManifestWriter(str(tmp_path / "out"), path_form="full"))
    again = rows_of(NemoManifestReader(str(tmp_path / "out"), root=str(tmp_path)))
    assert [row["audio_filepath"] for row in again] == [
        str(corpus / "wav" / name) for name in ("a.wav", *["b.wav"] * 3)
    ]


BAD: dict[str, dict[str, object]] = {
    "missing": {"audio_filepath": "wav/none.wav"},
    "no path": {"audio_filepath": None},
    "outside of root": {"audio_filepath": "/etc/passwd"},
    "bad segment": {"audio_filepath": "wav/a.wav", "offset": -0.5, "duration": 1.0},
}


@pytest.mark.parametrize(
    ("reason", "row"),
    [
        *BAD.items(),
        ("missing", {"audio_filepath": "wav"}),
        ("missing", {"audio_filepath": "x" * 5000}),
        ("missing", {"audio_filepath": "none.tar/a.wav"}),
        ("outside of root", {"audio_filepath": "../../etc/passwd"}),
        ("outside of root", {"audio_filepath": "s3://bucket/a.wav"}),
        ("outside of root", {"audio_filepath": "wav/a.wav\0"}),
        ("no path", {"audio_filepath": ""}),
        ("no path", {"text": "no column"}),
        ("bad segment", {"audio_filepath": "wav/a.wav", "offset": 1.0, "duration": 0}),
        ("bad segment", {"audio_filepath": "wav/a.wav", "offset": 1.0, "duration": -3}),
        ("bad segment", {"audio_filepath": "wav/a.wav", "offset": "soon", "duration": 1}),
        ("bad segment", {"audio_filepath": "wav/a.wav", "offset": 1e308, "duration": True}),
    ],
)
def test_a_line_that_means_no_recording_is_in_quarantine_with_its_reason(corpus, tmp_path, reason, row):
    good = {"audio_filepath": "wav/a.wav", "text": "good"}
    (corpus / "m.json").write_text(f"{json.dumps(good)}\n{json.dumps(row)}\n")
    run(NemoManifestReader(str(corpus / "m.json")), NemoManifestWriter(str(tmp_path / "out")))
    assert written(tmp_path / "out") == json.dumps(good).encode() + b"\n"
    assert reasons(tmp_path) == {reason: 1}


@given(kinds=st.lists(st.sampled_from(["good", *BAD]), max_size=12), blocksize=st.sampled_from([None, 60]))
def test_every_line_is_written_or_in_quarantine(tmp_path_factory, kinds, blocksize):
    folder = tmp_path_factory.mktemp("law")
    (folder / "wav").mkdir()
    (folder / "wav" / "a.wav").write_bytes(b"sound")
    good: dict[str, object] = {"audio_filepath": "wav/a.wav"}
    rows = [{**BAD.get(kind, good), "n": n} for n, kind in enumerate(kinds)]
    (folder / "m.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [{"audio_filepath": "wav/a.wav"}, *rows]))
    run(NemoManifestReader(str(folder / "m.jsonl"), blocksize=blocksize), NemoManifestWriter(str(folder / "out")))
    kept = [json.loads(line) for line in written(folder / "out").splitlines()]
    assert sorted(row["n"] for row in kept if "n" in row) == [n for n, kind in enumerate(kinds) if kind == "good"]
    assert reasons(folder) == Counter(kind for kind in kinds if kind != "good")


def test_manifests_without_recordings_can_be_worked_on(corpus, tmp_path):
    (corpus / "m.json").write_text('{"audio_filepath": "gone.wav"}\n')
    run(NemoManifestReader(str(corpus), on_missing="keep"), NemoManifestWriter(str(tmp_path / "out")))
    assert written(tmp_path / "out") == b'{"audio_filepath": "gone.wav"}\n'


def test_fields_leave_out_columns_but_not_the_segment(corpus):
    (corpus / "m.json").write_text("\n".join(LINES))
    rows = rows_of(NemoManifestReader(str(corpus / "m.json"), fields=["text"]))
    assert [set(row) for row in rows] == [{"text", "media_ref"}] * 4
    assert [row["media_ref"]["start_s"] for row in rows] == [None, 0.1, 0.1, 0.1]


def test_a_manifest_with_references_of_its_own_is_refused(corpus):
    (corpus / "m.json").write_text('{"audio_filepath": "wav/a.wav", "media_ref": 1}\n')
    with pytest.raises(DataError, match="has a column 'media_ref' already"):
        run(NemoManifestReader(str(corpus / "m.json")))


def shards(folder, names):
    for number, name in enumerate(names):
        (folder / name).write_bytes(tar_of([(f"{number}.wav", b"sound %d" % number)]))


@pytest.mark.parametrize(
    ("names", "pattern", "ids"),
    [
        (["audio_0.tar", "audio_1.tar"], "audio__OP_0..1_CL_.tar", [0, 1]),
        (["audio_07.tar", "audio_08.tar"], "audio_{07..08}.tar", [7, 8]),
        (["left.tar", "right.tar"], "{left,right}.tar", [0, 1]),
    ],
)
def test_shard_ids_mean_the_number_in_a_name_or_the_place(corpus, tmp_path, names, pattern, ids):
    shards(corpus, names)
    lines = [{"audio_filepath": f"{n}.wav", "shard_id": shard} for n, shard in enumerate(ids)]
    lines.append({"audio_filepath": "0.wav", "shard_id": 99})
    (corpus / "m.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    reader = NemoManifestReader(str(corpus / "m.json"), tar_paths=str(corpus / pattern))
    [batch] = run(reader)
    assert fetch(batch.to_arrow()) == [b"sound 0", b"sound 1"]
    run(reader, NemoManifestWriter(str(tmp_path / "out")))
    assert reasons(tmp_path) == {"no shard": 1}


def test_sharded_manifests_go_with_the_archives_of_their_number(corpus):
    shards(corpus, ["audio_0.tar", "audio_1.tar"])
    for number in range(2):
        (corpus / f"manifest_{number}.json").write_text(json.dumps({"audio_filepath": f"{number}.wav"}))
    reader = NemoManifestReader(
        str(corpus / "manifest__OP_0..1_CL_.json"), tar_paths=str(corpus / "audio__OP_0..1_CL_.tar")
    )
    assert [data for batch in run(reader) for data in fetch(batch.to_arrow())] == [b"sound 0", b"sound 1"]


def test_segments_of_one_member_are_named_with_sub(corpus):
    (corpus / "audio_0.tar").write_bytes(tar_of([("x.wav", b"sound")]))
    lines = [
        {"audio_filepath": f"x-sub{number}.wav", "offset": number, "duration": 1, "shard_id": 0} for number in (1, 2)
    ]
    (corpus / "m.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    [batch] = run(NemoManifestReader(str(corpus / "m.json"), tar_paths=str(corpus / "audio_0.tar")))
    assert [ref and ref[:2] for ref in refs_of(batch.to_arrow())] == [(str(corpus / "audio_0.tar"), "x.wav")] * 2
    assert fetch(batch.to_arrow()) == [b"sound", b"sound"]


def test_a_tarred_dataset_holds_each_recording_once_and_is_read_back(corpus, tmp_path):
    (corpus / "m.json").write_text("\n".join(LINES) + "\n")
    out = tmp_path / "out"
    run(NemoManifestReader(str(corpus / "m.json")), NemoTarWriter(str(out)))
    [archive] = out.glob("*.tar")
    with tarfile.open(archive) as tar:
        assert {member.name: tar.extractfile(member).read() for member in tar} == {
            "wav_a.wav": b"sound of a.wav",
            "wav_b.wav": b"sound of b.wav",
        }
    [batch] = run(NemoManifestReader(str(out), tar_paths=str(archive)))
    assert fetch(batch.to_arrow()) == [b"sound of a.wav", *[b"sound of b.wav"] * 3]
    new = [json.loads(line) for line in written(out, "*.json").splitlines()]
    for old, row in zip(map(json.loads, LINES), new, strict=True):
        assert {**row, "audio_filepath": None, "shard_id": None} == {**old, "audio_filepath": None, "shard_id": None}


def test_rows_of_bytes_become_a_tarred_dataset(tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"file_name": "a/x.wav"}\n{"file_name": "a_x.wav"}\n{"file_name": null}\n')

    @dataclass
    class Load(ProcessingStage):
        name: str = "load"

        def process(self, batch):
            return batch.with_data(batch.to_arrow().append_column("bytes", pa.array([b"1", b"2", b"3"])))

    run(JsonlReader(str(rows)), Load(), NemoTarWriter(str(tmp_path / "out")))
    [archive] = (tmp_path / "out").glob("*.tar")
    with tarfile.open(archive) as tar:
        members = {member.name: tar.extractfile(member).read() for member in tar}
    assert list(members.values()) == [b"1", b"2", b"3"]
    assert list(members)[:2] == ["a_x.wav", "a_x_1.wav"]


def test_a_recording_that_goes_while_it_is_written_costs_its_rows_alone(corpus, tmp_path):
    (corpus / "m.json").write_text("\n".join(LINES[:2]) + "\n")
    reader = NemoManifestReader(str(corpus / "m.json"), on_missing="keep")
    (corpus / "wav" / "b.wav").unlink()
    run(reader, NemoTarWriter(str(tmp_path / "out")))
    assert [json.loads(line)["audio_filepath"] for line in written(tmp_path / "out", "*.json").splitlines()] == [
        "wav_a.wav"
    ]
    assert reasons(tmp_path) == {"missing": 1}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NemoManifestReader("m", root=""), "root='' must be a folder"),
        (lambda: NemoManifestReader("m", on_missing="drop"), "on_missing='drop'"),  # type: ignore[arg-type]
        (lambda: NemoManifestReader("m", tar_paths=3), "tar_paths=3 must be archives"),  # type: ignore[arg-type]
        (lambda: NemoManifestReader("m", tar_paths="a{0..99999999}.tar"), "stands for more than 1,000,000 names"),
        (lambda: NemoManifestWriter("m", path_form="short"), "path_form='short'"),  # type: ignore[arg-type]
        (lambda: NemoTarWriter("m", compression="gzip"), "'compression' cannot be set"),
        (lambda: NemoTarWriter("m", path_form="full"), "'path_form' cannot be set"),
    ],
)
def test_wrong_settings_are_refused(make, message):
    with pytest.raises(PipelineError, match=message):
        make()


def test_rows_without_recordings_are_refused(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"text": "x"}\n')
    for writer in (NemoManifestWriter, NemoTarWriter):
        with pytest.raises(PipelineError, match="needs a column 'media_ref'"):
            run(JsonlReader(str(tmp_path / "rows.jsonl")), writer(str(tmp_path / "out")))


def test_a_member_of_an_archive_is_written_as_a_path_on_behind_it(tmp_path):
    assert Ref("/data/a.tar", "b.wav").member == "b.wav"
    (tmp_path / "a.tar").write_bytes(tar_of([("b.wav", b"sound")]))
    (tmp_path / "m.json").write_text('{"audio_filepath": "a.tar/b.wav"}\n')
    reader = NemoManifestReader(str(tmp_path / "m.json"))
    run(reader, NemoManifestWriter(str(tmp_path / "out"), path_form="full"))
    assert json.loads(written(tmp_path / "out"))["audio_filepath"] == f"{tmp_path}/a.tar/b.wav"
