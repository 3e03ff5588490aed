"""Interleaved documents from file to rows and back: what is read is written, and nothing gets lost."""

from __future__ import annotations

import datetime
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from dcurate import BatchKey, DataError, DocumentBatch, InlineExecutor, ParquetReader, Pipeline, PipelineError
from dcurate.images import (
    FilterInterleavedByAspectRatio,
    FromInterleaved,
    InterleavedParquetReader,
    InterleavedParquetWriter,
    InterleavedWebDatasetReader,
    InterleavedWebDatasetWriter,
    ToInterleaved,
)
from dcurate.isolate.errors import MediaFault
from dcurate.media.interleaved.materialise import bytes_of
from dcurate.media.interleaved.schema import SourceRef
from tests.images.interleaved.media import flat, noise, places, referring, table

PNG, JPEG = noise(8, 8), noise(8, 8, kind="JPEG")


def tar(path: Path, members: Mapping[str, Any] | list[tuple[str, Any]], mode: str = "w") -> str:
    """A tar of members; what is no bytes is written as JSON."""
    pairs = members.items() if isinstance(members, Mapping) else members
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, held in pairs:
            data = held if isinstance(held, bytes) else json.dumps(held).encode()
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return str(path)


def run(*stages: Any, **options: Any) -> Any:
    return Pipeline("test", stages=list(stages)).run(InlineExecutor(), observers=[], **options)


def rows_of(*stages: Any) -> pa.Table:
    return pa.concat_tables([batch.to_arrow() for batch in run(*stages)])


def quarantine(result: Any) -> dict[str, int]:
    """Rows in quarantine by reason."""
    found: dict[str, int] = {}
    for stage in result.report.stages:
        for reason, count in stage.faulty.items():
            found[reason] = found.get(reason, 0) + count
    return found


def documents(rows: pa.Table) -> dict[str, list[Any]]:
    """Each document: its metadata, and its texts and files in order."""
    images = np.flatnonzero(np.array(rows["modality"].to_pylist()) == "image")
    files = dict(bytes_of(rows, images))
    found: dict[str, list[Any]] = {}
    for number, row in enumerate(rows.to_pylist()):
        held = {
            "metadata": lambda row=row: json.loads(row["text_content"] or "{}"),
            "text": lambda row=row: row["text_content"],
            "image": lambda number=number: files[number],
        }[row["modality"]]()
        if row["modality"] == "metadata":
            held.pop("sample_id", None)
        found.setdefault(row["sample_id"], []).append((row["position"], held, row.get("metadata")))
    return found


OBELICS = {
    "doc-1.json": {
        "images": [None, "0.png", None, "1.jpg"],
        "texts": ["Hello", None, "", None],
        "metadata": [None, {"alt": "A"}, None, {"alt": "B", "n": 2**60}],
        "url": "https://example.org",
        "nested": {"b": [1, None], "a": 0.1},
    },
    "doc-1.0.png": PNG,
    "doc-1.1.jpg": JPEG,
    "folder/two.json": {"texts": ["Only text"], "images": [None]},
}


def test_a_sample_becomes_a_row_of_metadata_and_one_for_each_text_and_image(tmp_path: Path) -> None:
    rows = rows_of(InterleavedWebDatasetReader(tar(tmp_path / "a.tar", OBELICS), fields=["url", "nested"]))
    assert places(rows) == [
        ("doc-1", -1, "metadata"),
        ("doc-1", 0, "text"),
        ("doc-1", 1, "image"),
        ("doc-1", 2, "text"),
        ("doc-1", 3, "image"),
        ("two", -1, "metadata"),
        ("two", 0, "text"),
    ]
    assert rows["url"].to_pylist()[:2] == ["https://example.org", None]
    assert json.loads(rows["nested"][0].as_py()) == OBELICS["doc-1.json"]["nested"]  # type: ignore[index]
    assert rows["metadata"].to_pylist()[2] == '{"alt": "A"}'
    kinds = ["application/json", "text/plain", "image/png", "text/plain", "image/jpeg"]
    assert rows["content_type"].to_pylist()[:5] == kinds
    assert rows["binary_content"].null_count == rows.num_rows
    assert [held for _, held, _ in documents(rows)["doc-1"]][1:] == ["Hello", PNG, "", JPEG]


@pytest.mark.parametrize("ending", [".tar", ".tar.gz", ".tgz"])
def test_compressed_tars_are_the_same(tmp_path: Path, ending: str) -> None:
    path = tar(tmp_path / f"a{ending}", OBELICS, "w" if ending == ".tar" else "w:gz")
    assert [held for _, held, _ in documents(rows_of(InterleavedWebDatasetReader(path)))["doc-1"]][2] == PNG


def test_images_are_named_by_their_member_by_a_field_or_by_an_address(tmp_path: Path) -> None:
    pages = io.BytesIO()
    first, second = (Image.new("L", (size, 1)) for size in (3, 4))
    first.save(pages, "TIFF", save_all=True, append_images=[second])
    members = {
        "a.json": {"texts": [], "images": ["p.png", "https://example.org/x.jpg", "gone.png"], "picture": "p.png"},
        "p.png": PNG,
        "b.json": {"texts": [None, "between", None], "images": ["page 1", None, "page 2"]},
        "b.tiff": pages.getvalue(),
    }
    rows = rows_of(InterleavedWebDatasetReader(tar(tmp_path / "a.tar", members)))
    refs = [SourceRef.of(text) for text in rows["source_ref"].to_pylist()]
    files = dict(bytes_of(rows, np.flatnonzero(np.array(rows["modality"].to_pylist()) == "image")))
    assert files[1] == PNG
    assert (refs[2].path, files[2].reason) == ("https://example.org/x.jpg", "not downloaded")
    assert files[3] == MediaFault("missing", "the tar has no member 'gone.png'")
    assert [(refs[row].member, refs[row].frame_index) for row in (5, 7)] == [("b.tiff", 0), ("b.tiff", 1)]
    assert [Image.open(io.BytesIO(files[row])).size for row in (5, 7)] == [(3, 1), (4, 1)]  # type: ignore[arg-type]
    named = InterleavedWebDatasetReader(str(tmp_path / "a.tar"), image_member_field="picture")
    assert documents(rows_of(named))["a"][3][1] == PNG


def test_what_is_no_sample_goes_to_quarantine(tmp_path: Path) -> None:
    whole = Path(tar(tmp_path / "whole.tar", {"last.json": {"texts": ["x"], "images": ["y.png"]}, "y.png": PNG * 9}))
    members = [
        ("broken.json", b'{"texts": ['),
        ("list.json", b"[1]"),
        ("other.json", {"title": "no lists"}),
        ("odd.json", {"texts": "Hi", "images": []}),
        ("good.json", {"texts": ["Hi"], "images": []}),
        ("../up.json", {"texts": ["Hi"], "images": []}),
    ]
    tar(tmp_path / "a.tar", members)
    (tmp_path / "cut.tar").write_bytes(whole.read_bytes()[:2100])
    whole.unlink()
    result = run(InterleavedWebDatasetReader(str(tmp_path)))
    rows = pa.concat_tables([batch.to_arrow() for batch in result])
    assert rows["sample_id"].unique().to_pylist() == ["good", "last"]
    assert quarantine(result) == {
        "malformed JSON": 2,
        "not an interleaved sample": 2,
        "name leads out of the archive": 1,
    }
    [error] = [error for error in rows["materialize_error"].to_pylist() if error]
    assert error.startswith("truncated: ")


def test_a_sample_is_never_split_over_batches_and_ids_are_unique_in_one(tmp_path: Path) -> None:
    for number in range(3):
        members: dict[str, Any] = {}
        for sample in range(4):
            name = f"doc-{sample}"
            members[f"{name}.json"] = {"texts": [None] * 3, "images": [f"{image}.png" for image in range(3)]}
            members |= {f"{name}.{image}.png": PNG for image in range(3)}
        tar(tmp_path / f"{number}.tar", members)
    for how in ({"max_batch_bytes": 4 * len(PNG)}, {"files_per_partition": 3}, {"blocksize": "2kB"}):
        result = run(InterleavedWebDatasetReader(str(tmp_path), **how))
        counts = [batch.to_arrow()["sample_id"].value_counts().to_pylist() for batch in result]
        assert sum(map(len, counts)) == 12
        assert all(one["counts"] == 4 for each in counts for one in each)
        assert all(batch.to_arrow()["materialize_error"].null_count == batch.num_items for batch in result)


def test_images_in_another_part_of_a_large_tar_are_found(tmp_path: Path) -> None:
    members = {f"x{number}.png": noise(30, 30, number) for number in range(4)}
    members |= {f"s{number}.json": {"texts": [], "images": [f"x{number}.png"]} for number in range(4)}  # type: ignore[misc]
    reader = InterleavedWebDatasetReader(tar(tmp_path / "a.tar", members), blocksize="3kB")
    result = run(reader)
    rows = pa.concat_tables([batch.to_arrow() for batch in result])
    assert len(list(reader.splits())) > 1
    assert [held for [_, (_, held, _)] in documents(rows).values()] == [
        members[f"x{number}.png"] for number in range(4)
    ]


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | WORDS,
    lambda inner: st.lists(inner, max_size=2),
    max_leaves=4,
)
ELEMENTS = st.lists(
    st.tuples(st.one_of(WORDS, st.sampled_from([PNG, JPEG])), st.none() | st.dictionaries(WORDS, VALUES, max_size=2)),
    min_size=1,
    max_size=5,
)
NAMES = WORDS.filter(lambda name: name not in ("texts", "images", "metadata", "sample_id"))
SAMPLES = st.lists(st.tuples(ELEMENTS, st.dictionaries(NAMES, VALUES, max_size=3)), min_size=1, max_size=3)


@settings(max_examples=8, deadline=None)
@given(SAMPLES)
def test_documents_are_equal_after_a_round_trip_through_each_format(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[list[tuple[Any, Any]], dict[str, Any]]]
) -> None:
    folder = tmp_path_factory.mktemp("formats")
    members: list[tuple[str, Any]] = []
    for number, (elements, rest) in enumerate(drawn):
        record = {
            "texts": [held if isinstance(held, str) else None for held, _ in elements],
            "images": [f"{place}.bin" if isinstance(held, bytes) else None for place, (held, _) in enumerate(elements)],
            "metadata": [about for _, about in elements],
        }
        members.append((f"s{number}.json", {**rest, **record}))
        members += [
            (f"s{number}.{place}.bin", held) for place, (held, _) in enumerate(elements) if isinstance(held, bytes)
        ]
    reader = InterleavedWebDatasetReader(tar(folder / "a.tar", members))
    wanted: dict[str, list[Any]] = {
        f"s{number}": [(-1, rest, None)]
        + [
            (place, held, json.dumps(about, ensure_ascii=False) if about is not None else None)
            for place, (held, about) in enumerate(elements)
        ]
        for number, (elements, rest) in enumerate(drawn)
    }
    assert documents(rows_of(reader)) == wanted
    for name, writer, again in (
        ("tar", InterleavedWebDatasetWriter, InterleavedWebDatasetReader),
        ("parquet", InterleavedParquetWriter, InterleavedParquetReader),
    ):
        run(reader, writer(str(folder / name)))
        assert documents(rows_of(again(str(folder / name)))) == wanted
    lists = rows_of(reader, FromInterleaved(images="bytes"))
    back = ToInterleaved(sample_id_field="sample_id").process(DocumentBatch(data=lists)).to_arrow()
    for name, (_, *elements) in documents(back).items():
        assert elements == wanted[name][1:]


def test_written_tars_keep_names_and_are_the_same_each_time(tmp_path: Path) -> None:
    source = tar(tmp_path / "a.tar", OBELICS)
    for name in ("one", "two"):
        run(InterleavedWebDatasetReader(source), InterleavedWebDatasetWriter(str(tmp_path / name)))
    [one], [two] = (list((tmp_path / name).glob("*.tar")) for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()
    with tarfile.open(one) as archive:
        assert archive.getnames() == ["doc-1.json", "doc-1.0.png", "doc-1.1.jpg", "two.json"]
        record = json.load(archive.extractfile("doc-1.json"))  # type: ignore[arg-type]
    assert record["images"] == [None, "doc-1.0.png", None, "doc-1.1.jpg"]


def test_columns_that_a_stage_changed_are_written(tmp_path: Path) -> None:
    rows = table(
        ("a/b", -1, "metadata", '{"url": "old", "n": 3}'), ("a/b", 0, "image", PNG), url=["new", None], n=["3", None]
    )
    write(InterleavedWebDatasetWriter(str(tmp_path / "out")), rows)
    [path] = (tmp_path / "out").glob("*.tar")
    with tarfile.open(path) as archive:
        assert archive.getnames() == ["a%2Fb.json", "a%2Fb.0.bin"]
        record = json.load(archive.extractfile("a%2Fb.json"))  # type: ignore[arg-type]
    assert (record["url"], record["n"], record["sample_id"]) == ("new", 3, "a/b")


def write(writer: Any, rows: pa.Table) -> Any:
    return run(writer, initial_tasks=[DocumentBatch(key=BatchKey("x"), data=rows)])


GONE = table(("a", 0, "text", "Hi"), ("a", 1, "image", PNG), ("a", 2, "image", None), ("b", 0, "text", "Ho"))


@pytest.mark.parametrize("writer", [InterleavedWebDatasetWriter, InterleavedParquetWriter])
def test_images_that_cannot_be_had_are_dealt_with_as_asked(tmp_path: Path, writer: Any) -> None:
    reader: Any = InterleavedWebDatasetReader if writer is InterleavedWebDatasetWriter else InterleavedParquetReader
    for how, left, lost in (
        ("drop_sample", ["b"], 3),
        ("drop_row", ["a", "a", "b"], 1),
        ("keep", ["a", "a", "a", "b"], 0),
    ):
        out = str(tmp_path / how)
        result = write(writer(out, on_materialize_error=how), GONE)
        stage = result.report.stages[-1]
        assert (stage.rows_out, sum(stage.faulty.values())) == (4 - lost, lost)
        rows = rows_of(reader(out)).to_pylist()
        assert [row["sample_id"] for row in rows if row["modality"] != "metadata"] == left
    with pytest.raises(DataError, match="an image of sample 'a' cannot be had"):
        write(writer(str(tmp_path / "error"), on_materialize_error="error"), GONE)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (table(("a", -1, "metadata", "not json"), ("a", 0, "text", "Hi")), "bad metadata"),
        (table(("a", -1, "metadata", "[1]"), ("a", 0, "text", "Hi")), "bad metadata"),
        (table(("a", 0, "text", "Hi"), ("a", 2**31 - 1, "text", "Hi")), "positions too far apart"),
        (referring(table(("a", 0, "image", PNG)), "{bad"), "bad reference"),
    ],
)
@pytest.mark.parametrize("kind", ["tar", "lists"])
def test_a_sample_that_no_record_can_hold_goes_to_quarantine(tmp_path: Path, rows: Any, reason: str, kind: str) -> None:
    """The others are written."""
    both = pa.concat_tables([rows, table(("b", 0, "text", "Ho"))])
    if kind == "tar":
        stage = write(InterleavedWebDatasetWriter(str(tmp_path), on_materialize_error="keep"), both).report.stages[-1]
        assert stage.faulty == {reason: rows.num_rows}
    else:
        made = FromInterleaved().process(DocumentBatch(data=both))
        assert made.num_items == 1
        assert {(gone.reason, gone.rows) for gone in made.rejections} == {(reason, rows.num_rows)}


def test_parquet_is_nemo_curators_and_is_cut_between_samples(tmp_path: Path) -> None:
    rows = table(*[(f"s{number // 3}", number % 3, "text", f"text {number}" * 50) for number in range(30)])
    pq.write_table(
        rows.drop_columns(["materialize_error"]), tmp_path / "a.parquet", row_group_size=4, compression="none"
    )
    reader = InterleavedParquetReader(str(tmp_path / "a.parquet"), blocksize="3kB", max_batch_bytes="5kB")
    result = run(reader)
    assert len(list(reader.splits())) > 1
    counts = [batch.to_arrow()["sample_id"].value_counts().to_pylist() for batch in result]
    assert sum(map(len, counts)) == 10
    assert all(one["counts"] == 3 for each in counts for one in each)
    read = pa.concat_tables([batch.to_arrow() for batch in result])
    assert read.schema == rows.schema
    assert read.equals(rows)
    judged = rows_of(InterleavedParquetReader(str(tmp_path)), FilterInterleavedByAspectRatio())
    assert judged.num_rows == rows.num_rows
    chosen = rows_of(InterleavedParquetReader(str(tmp_path), fields=["sample_id"]))
    assert chosen.column_names == rows.column_names


def test_obelics_and_mmc4_are_read_from_rows_of_lists(tmp_path: Path) -> None:
    source = pa.table(
        {
            "images": [[None, "https://example.org/a.png"], ["b.png"]],
            "metadata": ['[null, {"w": 3}]', None],
            "texts": [["Hi", None], None],
            "n": pa.array([1, None], pa.int16()),
        }
    )
    pq.write_table(source, tmp_path / "a.parquet")
    rows = rows_of(ParquetReader(str(tmp_path)), ToInterleaved())
    assert [place[1:] for place in places(rows)] == [
        (-1, "metadata"),
        (0, "text"),
        (1, "image"),
        (-1, "metadata"),
        (0, "image"),
    ]
    assert (rows["n"].type, rows["n"].to_pylist()[0]) == (pa.int16(), 1)
    back = FromInterleaved(sample_id_field=None).process(DocumentBatch(data=rows)).to_arrow()
    assert back["images"].to_pylist() == source["images"].to_pylist()
    assert [None if text is None else json.loads(text) for text in back["metadata"].to_pylist()] == [
        [None, {"w": 3}],
        None,
    ]
    info = [{"raw_url": "https://example.org/b.png", "matched_text_index": 1}]
    mmc4 = DocumentBatch(
        data=pa.table({"text_list": [["one", "two"], ["x"]], "image_info": [info, None], "url": ["u", "v"]})
    )
    made = ToInterleaved("mmc4").process(mmc4).to_arrow()
    assert [kind for _, _, kind in places(made)] == ["metadata", "text", "image", "text", "metadata", "text"]
    assert made["url"].to_pylist()[0] == "u"


def test_filters_work_on_images_by_reference(tmp_path: Path) -> None:
    members = {"a.json": {"texts": ["Hi", None, None], "images": [None, "w.png", "n.png"]}}
    path = tar(tmp_path / "a.tar", {**members, "w.png": flat(90, 30), "n.png": flat(40, 30)})
    result = run(
        InterleavedWebDatasetReader(path),
        FilterInterleavedByAspectRatio(),
        InterleavedParquetWriter(str(tmp_path / "out")),
    )
    assert result.report.stages[1].dropped == {"aspect_ratio": 1}
    rows = rows_of(InterleavedParquetReader(str(tmp_path / "out")))
    assert places(rows) == [("a", -1, "metadata"), ("a", 0, "text"), ("a", 1, "image")]
    assert rows["binary_content"].to_pylist()[2] == flat(40, 30)


def test_settings_that_would_cut_samples_are_refused() -> None:
    for wrong in ({"max_rows_per_file": 3}, {"on_materialize_error": "ignore"}):
        with pytest.raises(PipelineError):
            InterleavedWebDatasetWriter("out", **wrong)
    with pytest.raises(PipelineError, match="would cut samples"):
        InterleavedParquetWriter("out", partition_cols=["modality"])
    with pytest.raises(PipelineError, match="'position' is a column of interleaved rows"):
        InterleavedWebDatasetReader("in", fields=["position"])
    with pytest.raises(PipelineError, match="form='mint'"):
        ToInterleaved("mint")  # type: ignore[arg-type]


COLUMNS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text('a5[]{}"\\:,.é \u2028', max_size=5),
    st.recursive(
        st.none() | st.booleans() | st.integers(-5, 5) | st.text("a5", max_size=2),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab", max_size=1), inner, max_size=2),
        max_leaves=4,
    ),
)


@st.composite
def samples_with_lists(draw: st.DrawFn, mixed: bool = True) -> list[dict[str, Any]]:
    """Samples with a list of values for each text and image: of one kind for all, or of any."""
    own = [st.none() | st.integers(0, 9), st.floats(0, 1), st.text("a5", max_size=2), st.lists(st.integers(0, 9))]
    kinds = [draw(st.sampled_from([*([COLUMNS] if mixed else []), *own])) for _ in range(2)]
    records = []
    for number in range(draw(st.integers(1, 3))):
        texts = draw(st.lists(st.booleans(), max_size=4))
        record: dict[str, Any] = {
            "texts": ["Hi" if is_text else None for is_text in texts],
            "images": [None if is_text else f"{place}.bin" for place, is_text in enumerate(texts)],
        }
        for name, kind, count in (("score", kinds[0], sum(texts)), ("label", kinds[1], len(texts) - sum(texts))):
            record[name] = draw(st.lists(kind, min_size=count, max_size=count))
        record["sample_id"] = f"s{number}"
        records.append(record)
    return records


def same(value: Any) -> Any:
    """A value by which 1 and 1.0 are equal, and 1 and true are not."""
    if isinstance(value, list):
        return [same(one) for one in value]
    if isinstance(value, dict):
        return {name: same(one) for name, one in value.items()}
    return (isinstance(value, bool), value)


@settings(max_examples=25, deadline=None)
@given(
    records_and_through=st.tuples(samples_with_lists(), st.just(""))
    | st.tuples(samples_with_lists(mixed=False), st.just("parquet")),
    named=st.booleans(),
)
def test_typed_values_of_texts_and_images_stay_from_tar_to_tar(
    tmp_path_factory: pytest.TempPathFactory, records_and_through: tuple[list[dict[str, Any]], str], named: bool
) -> None:
    records, through = records_and_through
    folder = tmp_path_factory.mktemp("typed")
    members: list[tuple[str, Any]] = []
    for record in records:
        members.append((f"{record['sample_id']}.json", record))
        members += [(f"{record['sample_id']}.{name}", PNG) for name in record["images"] if name]
    lists: dict[str, Any] = {"per_text_fields": ["score"], "per_image_fields": ["label"]}
    reader: Any = InterleavedWebDatasetReader(tar(folder / "a.tar", members), **lists)
    if through:
        run(reader, InterleavedParquetWriter(str(folder / "rows")))
        reader = InterleavedParquetReader(str(folder / "rows"))
    run(reader, InterleavedWebDatasetWriter(str(folder / "out"), **(lists if named else {})))
    again = written(folder / "out")
    assert again.keys() == {record["sample_id"] for record in records}
    for record in records:
        for name in ("score", "label"):
            made = again[record["sample_id"]].get(name, [None] * len(record[name]))
            assert same(made) == same(record[name])


def written(folder: Path) -> dict[str, dict[str, Any]]:
    """The records of the tars in a folder, by their ids."""
    found = {}
    for path in folder.glob("*.tar"):
        with tarfile.open(path) as archive:
            for name in archive.getnames():
                if name.endswith(".json"):
                    record = json.load(archive.extractfile(name))  # type: ignore[arg-type]
                    found[record["sample_id"]] = record
    return found


MODALITIES = (("s", -1, "metadata", "{}"), ("s", 0, "text", "Hi"), ("s", 1, "image", PNG), ("s", 2, "text", "Ho"))


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([None, 0.5, None, 7.0], [0.5, 7.0]),
        ([None, None, [1, 2], None], [[1, 2]]),
        ([None, "a", "b", None], ["a", "b", None]),
        ([None, float("nan"), None, 1.0], [None, 1.0]),
        ([None, None, datetime.date(2026, 1, 2), None], ["2026-01-02"]),
        ([None, None, {"k": 1}, None], [{"k": 1}]),
        (["all", None, None, None], "all"),
        ([None, None, None, None], None),
    ],
    ids=str,
)
def test_a_column_that_nobody_named_is_written(tmp_path: Path, values: list[Any], wanted: Any) -> None:
    rows = table(*MODALITIES, mine=values)
    write(InterleavedWebDatasetWriter(str(tmp_path / "out")), rows)
    assert written(tmp_path / "out")["s"].get("mine") == wanted
    [lists] = FromInterleaved(images="bytes").process(DocumentBatch(data=rows)).to_arrow().to_pylist()
    made = lists.get("mine")
    assert (json.loads(made) if isinstance(wanted, list) else made) == wanted


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (["all", 0.5, None, None], "one column for a sample and its parts"),
        ([None, b"bytes", None, None], "a value that JSON cannot hold"),
    ],
    ids=str,
)
def test_a_column_that_cannot_be_written_is_not_lost(tmp_path: Path, values: list[Any], reason: str) -> None:
    texts = [None if value is None else str(value) for value in values]
    rows = table(*MODALITIES, mine=texts if reason.startswith("one") else values)
    result = write(InterleavedWebDatasetWriter(str(tmp_path / "out")), rows)
    assert quarantine(result) == {reason: 4}
    lists = FromInterleaved(images="bytes").process(DocumentBatch(data=rows))
    assert (lists.num_items, [rejection.reason for rejection in lists.rejections]) == (0, [reason])


def test_values_of_a_text_and_an_image_at_one_position_are_both_written_or_refused(tmp_path: Path) -> None:
    rows: tuple[tuple[str, int, str, str | bytes | None], ...] = (("s", 0, "text", "Hi"), ("s", 0, "image", PNG))
    write(InterleavedWebDatasetWriter(str(tmp_path / "same")), table(*rows, mine=[1, 1]))
    assert written(tmp_path / "same")["s"]["mine"] == [1]
    result = write(InterleavedWebDatasetWriter(str(tmp_path / "other")), table(*rows, mine=[1, 2]))
    assert quarantine(result) == {"two values at one position": 2}


def test_a_list_of_another_length_stays_with_the_sample(tmp_path: Path) -> None:
    record = {"texts": ["a", "b"], "images": [None, None], "score": [1, 2, 3], "sample_id": "s"}
    reader = InterleavedWebDatasetReader(tar(tmp_path / "a.tar", [("s.json", record)]), per_text_fields=["score"])
    assert rows_of(reader)["score"].to_pylist() == [None] * 3
    run(reader, InterleavedWebDatasetWriter(str(tmp_path / "out"), per_text_fields=["score"]))
    assert written(tmp_path / "out")["s"]["score"] == [1, 2, 3]
