"""References without a range: a member is found by its name in every container, or is a fault, never other bytes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dcurate import BatchKey, DocumentBatch, InlineExecutor, MediaReader, Pipeline
from dcurate.images import (
    FilterInterleavedByAspectRatio,
    ImageInfo,
    InterleavedParquetReader,
    InterleavedParquetWriter,
    InterleavedWebDatasetWriter,
)
from dcurate.isolate.errors import MediaFault
from dcurate.media import containers, directory
from dcurate.media.heads import heads
from dcurate.media.refs import Ref, fetch, ref_array, refs_of
from tests.images.interleaved.media import noise, referring, table
from tests.media.archives import put_lines, put_warc, put_zip, tar_of

BODIES = {f"f{number}.png": noise(4 + 60 * number, 8, number) for number in range(5)}
CONTAINERS = [
    "seekable.zip",
    "streamed.zip",
    "plain.tar",
    "packed.tar.gz",
    "packed.tgz",
    "shard",
    "a.warc",
    "b.warc.gz",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("containers")
    put_zip(folder / "seekable.zip", BODIES)
    put_zip(folder / "streamed.zip", BODIES, seekable=False)
    plain = tar_of(BODIES.items())
    for name in ("plain.tar", "shard"):
        (folder / name).write_bytes(plain)
    for name in ("packed.tar.gz", "packed.tgz"):
        (folder / name).write_bytes(gzip.compress(plain))
    put_warc(folder / "a.warc", BODIES)
    put_warc(folder / "b.warc.gz", BODIES)
    put_lines(folder / "lines.jsonl", BODIES)
    return folder


def one(ref: Ref, **settings: Any) -> bytes | MediaFault:
    [data] = fetch(pa.table({"media_ref": ref_array([ref])}), **settings)
    return data


def members(path: Path) -> dict[str, Ref]:
    """References as a reader of the container makes them, by the name of the picture."""
    if path.name == "shard":
        return {name: ref._replace(path=str(path)) for name, ref in members(path.with_name("plain.tar")).items()}
    reader = MediaReader(str(path))
    [batch] = [reader.process(split) for split in reader.splits()]
    assert isinstance(batch, DocumentBatch)
    rows = batch.to_arrow()
    refs = zip(rows.to_pylist(), refs_of(rows), strict=True)
    return {row["file_name"]: ref for row, ref in refs if ref is not None and row["file_name"] in BODIES}


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_member_is_found_with_any_part_of_its_range_missing(name: str, folder: Path) -> None:
    refs = members(folder / name)
    assert refs.keys() == BODIES.keys()
    for file, ref in refs.items():
        for given_ref in (
            ref,
            ref._replace(offset=None, size=None),
            ref._replace(size=None),
            ref._replace(offset=None),
        ):
            assert one(given_ref) == BODIES[file]
            rows = pa.table({"media_ref": ref_array([given_ref])})
            [(_, [head])] = heads(rows, lambda data: True)
            assert not isinstance(head, MediaFault)
            assert BODIES[file].startswith(head.data)
        gone = one(ref._replace(member="none", offset=None, size=None))
        assert gone == MediaFault("missing", f"{str(folder / name)!r} has no member 'none'")
        elsewhere = one(ref._replace(offset=1, size=None))
        assert isinstance(elsewhere, MediaFault)
        assert elsewhere.reason == "missing"


@given(
    ref=st.builds(
        Ref,
        path=st.sampled_from([*CONTAINERS, "lines.jsonl", "none.tar"]),
        member=st.none() | st.sampled_from([*BODIES, "none", ""]),
        offset=st.none() | st.integers(0, 3000),
        size=st.none() | st.integers(1, 3000),
        stream=st.none() | st.integers(0, 3),
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_reference_gives_a_file_of_no_bytes(ref: Ref, folder: Path) -> None:
    data = one(ref._replace(path=str(folder / ref.path)))
    assert isinstance(data, MediaFault) or data
    if isinstance(data, bytes) and ref.member is not None and ref.size is None:
        assert data == BODIES[ref.member]


def test_a_range_of_a_file_goes_to_its_end_if_it_has_no_size(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"0123456789")
    path = str(tmp_path / "a.bin")
    assert [one(Ref(path)), one(Ref(path, None, 7)), one(Ref(path, None, None, 2))] == [b"0123456789", b"789", b"01"]
    beyond = one(Ref(path, None, 11))
    assert isinstance(beyond, MediaFault)
    assert beyond.reason == "bad reference"


def test_a_line_of_json_lines_needs_its_range(folder: Path) -> None:
    assert one(Ref(str(folder / "lines.jsonl"), "content")) == MediaFault(
        "bad reference", "a line of JSON Lines is found by its offset and size alone; give both"
    )


def test_a_member_that_is_damaged_or_not_a_file_is_that_fault(tmp_path: Path) -> None:
    whole = tar_of(BODIES.items())
    (tmp_path / "cut.tar").write_bytes(whole[:600])
    (tmp_path / "bad.zip").write_bytes(b"no archive")
    cut, bad = one(Ref(str(tmp_path / "cut.tar"), "f0.png")), one(Ref(str(tmp_path / "bad.zip"), "f0.png"))
    assert isinstance(cut, MediaFault)
    assert isinstance(bad, MediaFault)
    assert (cut.reason, bad.reason) == ("truncated", "damaged archive")
    large = one(Ref(str(tmp_path / "whole.tar"), "f4.png"))
    assert isinstance(large, MediaFault)
    assert large.reason == "missing"
    (tmp_path / "whole.tar").write_bytes(whole)
    small = one(Ref(str(tmp_path / "whole.tar"), "f4.png"), limit=10)
    assert isinstance(small, MediaFault)
    assert small.reason == "too large"


def test_a_container_is_listed_once_while_it_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[str] = []

    def counted(*arguments: Any) -> Any:
        listed.append(arguments[1])
        return containers.of_tar(*arguments)

    monkeypatch.setattr(directory, "of_tar", counted)
    path = tmp_path / "a.tar"
    path.write_bytes(tar_of(BODIES.items()))
    refs = ref_array([Ref(str(path), name) for name in BODIES])
    for _ in range(3):
        assert fetch(pa.table({"media_ref": refs})) == list(BODIES.values())
    assert len(listed) == 1
    path.write_bytes(tar_of([("f0.png", b"other, and longer")]))
    assert one(Ref(str(path), "f0.png")) == b"other, and longer"
    assert len(listed) == 2


def test_every_stage_that_follows_references_finds_members_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(tar_of(BODIES.items()))
    path = str(tmp_path / "a.tar")
    names = [*BODIES, "none.png"]
    pictures = DocumentBatch(data=pa.table({"media_ref": ref_array([Ref(path, name) for name in names])}))
    seen = ImageInfo().process(pictures)
    assert seen.to_arrow()["image_width"].to_pylist() == [4, 64, 124, 184, 244]
    assert sum(rejection.rows for rejection in seen.rejections) == 1

    refs = [json.dumps({"path": path, "member": name, "byte_offset": None, "byte_size": None}) for name in names]
    rows = referring(table(*((f"s{number}", 0, "image", None) for number in range(6))), *refs)
    rows = rows.set_column(3, "content_type", pa.array(["image/png"] * 6))
    batch = DocumentBatch(data=rows, key=BatchKey("rows"))
    kept = FilterInterleavedByAspectRatio(min_aspect_ratio=0.1, max_aspect_ratio=50.0).process(batch)
    assert kept.to_arrow()["sample_id"].to_pylist()[:2] == ["s0", "s1"]
    for writer in (InterleavedParquetWriter, InterleavedWebDatasetWriter):
        out = str(tmp_path / writer.__name__)
        stages: list[Any] = [writer(out, on_materialize_error="keep")]
        Pipeline("write", stages=stages).run(InlineExecutor(), [batch], observers=[])
        if writer is InterleavedParquetWriter:
            reader = InterleavedParquetReader(out)
            [read] = [reader.process(split) for split in reader.splits()]
            assert read.to_arrow()["binary_content"].to_pylist() == [*BODIES.values(), None]
            assert read.to_arrow()["materialize_error"].to_pylist() == [
                *[None] * 5,
                f"missing: {path!r} has no member 'none.png'",
            ]
