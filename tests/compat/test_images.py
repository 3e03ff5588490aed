"""NeMo Curator's pipelines of pictures and of interleaved documents, after a change of imports."""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from PIL import Image

from dcurate.compat import nemo
from dcurate.compat.nemo.executors import RayClient
from dcurate.media.image.pixels import decode
from tests.images.interleaved.media import flat, noise
from tests.models.vision.tiny_vision import picture, tiny_heads, tiny_vision

pytestmark = pytest.mark.cluster


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    nemo.install()
    yield
    nemo.uninstall()


def of(module: str, *names: str) -> Any:
    """Names of a module of NeMo Curator."""
    found = [getattr(importlib.import_module(f"nemo_curator.{module}"), name) for name in names]
    return found[0] if len(found) == 1 else found


def tar(path: Path, members: dict[str, Any]) -> None:
    with tarfile.open(path, "w") as archive:
        for name, held in members.items():
            data = held if isinstance(held, bytes) else json.dumps(held).encode()
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> str:
    """NeMo Curator's folder of models, with small ones of random weights."""
    folder = tmp_path_factory.mktemp("models")
    tiny_vision(folder / "openai" / "clip-vit-large-patch14", "clip")
    return tiny_heads(folder, 16)


def shards(folder: Path) -> dict[str, bytes]:
    """Two shards with the same keys, and all of their members by shard and name."""
    folder.mkdir()
    held = {}
    for shard in range(2):
        members: dict[str, Any] = {}
        for number in range(4):
            ending = ("jpg", "png")[number % 2]
            data = picture(10 * shard + number % 3, kind={"jpg": "JPEG", "png": "PNG"}[ending])
            members |= {f"{number:03d}.{ending}": data, f"{number:03d}.txt": f"picture {number}".encode()}
            members[f"{number:03d}.json"] = {"url": f"u{number}"}
        tar(folder / f"{shard:05d}.tar", members)
        held |= {
            f"{shard:05d}/{name}": data if isinstance(data, bytes) else json.dumps(data).encode()
            for name, data in members.items()
        }
    return held


def test_the_tutorial_of_curation_keeps_names_captions_and_bytes(
    client: RayClient, tmp_path: Path, models: str
) -> None:
    held = shards(tmp_path / "in")
    pipeline = of("pipeline", "Pipeline")(name="image_curation", description="Curate images")
    pipeline.add_stage(
        of("stages.file_partitioning", "FilePartitioningStage")(
            file_paths=str(tmp_path / "in"), files_per_partition=1, file_extensions=[".tar"]
        )
    )
    pipeline.add_stage(
        of("stages.image.io.image_reader", "ImageReaderStage")(
            dali_batch_size=3, num_threads=16, num_gpus_per_worker=0.25
        )
    )
    pipeline.add_stage(
        of("stages.image.embedders.clip_embedder", "ImageEmbeddingStage")(
            model_dir=models, model_inference_batch_size=2
        )
    )
    pipeline.add_stage(
        of("stages.image.filters.aesthetic_filter", "ImageAestheticFilterStage")(
            model_dir=models, score_threshold=-99.0
        )
    )
    pipeline.add_stage(
        of("stages.image.filters.nsfw_filter", "ImageNSFWFilterStage")(model_dir=models, score_threshold=1.1)
    )
    out = str(tmp_path / "out")
    pipeline.add_stage(
        of("stages.image.io.image_writer", "ImageWriterStage")(out, images_per_tar=2, remove_image_data=True)
    )
    made = pipeline.run(of("backends.xenna", "XennaExecutor")())
    assert sum(task._metadata["num_images"] for task in made) == 8
    found = {}
    for path in Path(out).glob("*.tar"):
        rows = pq.read_table(path.with_suffix(".parquet")).to_pylist()
        with tarfile.open(path) as archive:
            members = {name: archive.extractfile(name).read() for name in archive.getnames()}
        for row in rows:
            shard = row["original_path"].rpartition("/")[0].rpartition("/")[2].removesuffix(".tar")
            key = row["member_name"].partition(".")[0]
            found |= {f"{shard}/{name}": data for name, data in members.items() if name.startswith(f"{key}.")}
            assert row["image_id"] == f"{shard}_{key}"
    assert found == held


def test_the_tutorial_of_deduplication_drops_pictures_that_look_alike(
    client: RayClient, tmp_path: Path, models: str
) -> None:
    shards(tmp_path / "in")
    reading = [
        of("stages.file_partitioning", "FilePartitioningStage")(str(tmp_path / "in"), file_extensions=[".tar"]),
        of("stages.image.io.image_reader", "ImageReaderStage")(dali_batch_size=10),
    ]
    embedding = [
        of("stages.image.embedders", "ImageEmbeddingStage")(model_dir=models),
        of("stages.image.io.convert", "ConvertImageBatchToDocumentBatchStage")(fields=["image_id", "embedding"]),
        of("stages.text.io.writer.parquet", "ParquetWriter")(path=str(tmp_path / "embeddings")),
    ]
    pipeline = of("pipeline", "Pipeline")
    pipeline(name="embed", stages=[*reading, *embedding]).run()
    workflow = of("stages.deduplication.semantic", "SemanticDeduplicationWorkflow")(
        input_path=str(tmp_path / "embeddings"),
        output_path=str(tmp_path / "removal"),
        id_field="image_id",
        embedding_field="embedding",
        n_clusters=2,
        eps=0.01,
    )
    workflow.run()
    removal = of("stages.image.deduplication.removal", "ImageDuplicatesRemovalStage")(
        str(tmp_path / "removal/duplicates")
    )
    writer = of("stages.image.io.image_writer", "ImageWriterStage")(str(tmp_path / "out"))
    pipeline(name="drop", stages=[*reading, removal, writer]).run()
    rows = [row for path in (tmp_path / "out").glob("*.parquet") for row in pq.read_table(path).to_pylist()]
    dropped = pd.read_parquet(tmp_path / "removal" / "duplicates")["id"].tolist()
    assert dropped
    assert len(rows) + len(dropped) == 8
    assert not {row["image_id"] for row in rows} & {*dropped}


def test_pictures_whose_pixels_were_changed_are_encoded(tmp_path: Path) -> None:
    shards(tmp_path / "in")
    task = of("tasks", "FileGroupTask")(dataset_name="x", data=[str(tmp_path / "in" / "00000.tar")])
    [batch] = of("stages.image.io.image_reader", "ImageReaderStage")().process(task)
    first, second, *_ = batch.data
    assert (first.image_id, first.metadata["caption"], first.metadata["url"]) == ("00000_000", "picture 0", "u0")
    before = second.image_data.copy()
    first.image_data[:] = 255
    own = of("tasks", "ImageObject")(image_id="mine", image_data=np.zeros((4, 5, 3), np.uint8))
    batch.data = [first, second, own]
    made = of("stages.image.io.image_writer", "ImageWriterStage")(str(tmp_path / "out")).process(batch)
    with tarfile.open(made.data[0]) as archive:
        members = {name: archive.extractfile(name).read() for name in archive.getnames()}
    assert sorted(members) == [
        "000.jpg",
        "000.json",
        "000.txt",
        "001.json",
        "001.png",
        "001.txt",
        "mine.jpg",
    ]
    assert decode(members["000.jpg"]).pixels.min() == 255
    assert (decode(members["001.png"]).pixels == before).all()
    assert Image.open(io.BytesIO(members["mine.jpg"])).size == (5, 4)


def test_names_that_are_not_utf_8_are_written_byte_for_byte(tmp_path: Path) -> None:
    members = {"caf\udce9.png": picture(1, kind="PNG"), "caf\udce9.txt": b"tea"}
    tar(tmp_path / "in.tar", members)
    task = of("tasks", "FileGroupTask")(dataset_name="x", data=[str(tmp_path / "in.tar")])
    [batch] = of("stages.image.io.image_reader", "ImageReaderStage")().process(task)
    made = of("stages.image.io.image_writer", "ImageWriterStage")(str(tmp_path / "out")).process(batch)
    with tarfile.open(made.data[0]) as archive:
        assert {name: archive.extractfile(name).read() for name in archive.getnames()} == members


DOCUMENT = {"texts": ["Hi there", None, None, "end"], "images": [None, "wide.png", "flat.png", None], "n": [1, None]}


def test_interleaved_documents_are_read_filtered_and_written(client: RayClient, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    tar(tmp_path / "in" / "a.tar", {"s.json": DOCUMENT, "wide.png": noise(30, 20), "flat.png": flat(30, 20)})
    reader, writer = of("stages.interleaved.io", "InterleavedWebdatasetReader", "InterleavedWebdatasetWriterStage")
    shape = of("stages.interleaved", "InterleavedAspectRatioFilterStage")
    blur, ratio = of(
        "stages.interleaved.filter", "InterleavedBlurFilterStage", "InterleavedImageToTextRatioFilterStage"
    )
    stages = [reader(str(tmp_path / "in")), shape(), blur(), ratio(max_ratio=1.0), writer(str(tmp_path / "out"))]
    made = of("pipeline", "Pipeline")(name="interleaved", stages=stages).run()
    [path] = [path for task in made for path in task.data]
    with tarfile.open(path) as archive:
        record = json.load(archive.extractfile("s.json"))  # type: ignore[arg-type]
        [image] = [name for name in archive.getnames() if not name.endswith(".json")]
        assert hashlib.sha256(archive.extractfile(image).read()).digest() == hashlib.sha256(noise(30, 20)).digest()
    assert record == {
        "sample_id": "s",
        "texts": ["Hi there", None, "end"],
        "images": [None, image, None],
        "n": [1, None],
    }
    parquet = of("stages.interleaved.io", "InterleavedParquetWriterStage")(str(tmp_path / "parquet"))
    again = of("pipeline", "Pipeline")(name="again", stages=[reader(str(tmp_path / "out")), parquet]).run()
    table = pq.read_table(again[0].data[0])
    assert table["position"].to_pylist() == [-1, 0, 1, 2]
    assert table["binary_content"].to_pylist()[2] == noise(30, 20)


def test_a_filter_of_ones_own_has_nemo_curators_base(tmp_path: Path) -> None:
    base, batch = of("stages.interleaved.stages", "BaseInterleavedFilterStage"), of("tasks", "InterleavedBatch")

    class Sizes(base):  # type: ignore[misc, valid-type]
        def content_keep_mask(self, task: Any, df: pd.DataFrame) -> pd.Series:
            mask = pd.Series(True, index=df.index)
            for index, data in self.iter_materialized_bytes(task, df, df["modality"] == "image"):
                mask.loc[index] = data is not None and len(data) > 200
            return mask

    tar(tmp_path / "a.tar", {"s.json": DOCUMENT, "wide.png": noise(30, 20), "flat.png": flat(3, 2)})
    task = of("tasks", "FileGroupTask")(dataset_name="x", data=[str(tmp_path / "a.tar")])
    read = of("stages.interleaved.io.readers", "InterleavedWebdatasetReaderStage")().process(task)
    assert (read.num_items, read.count(modality="image"), len(read.to_pyarrow())) == (1, 2, 5)
    left = Sizes().process(read)
    assert isinstance(left, batch)
    assert left.to_pandas()["position"].tolist() == [-1, 0, 1, 2]
    assert left.parse_source_ref(left.to_pandas()["source_ref"].tolist()[2])["member"] == "wide.png"


def document(tmp_path: Path, record: dict[str, Any], pictures: dict[str, bytes] | None = None, name: str = "s") -> str:
    """A tar of one sample."""
    path = tmp_path / f"{name}.tar"
    tar(path, {f"{name}.json": record, **(pictures or {})})
    return str(path)


def read_documents(*paths: str, **settings: Any) -> Any:
    reader = of("stages.interleaved.io.readers.webdataset", "InterleavedWebdatasetReaderStage")(**settings)
    return reader.process(of("tasks", "FileGroupTask")(dataset_name="d", data=list(paths)))


def test_an_image_without_a_member_is_the_picture_called_as_the_sample(tmp_path: Path) -> None:
    record = {"pdf": "doc.pdf", "texts": [None, None], "images": ["page 1", "page 2"]}
    path = document(tmp_path, record, {"doc.pdf.png": picture(3)})
    rows = read_documents(path, sample_id_field="pdf").to_pandas()
    refs = [json.loads(ref)["member"] for ref in rows.loc[rows["modality"] == "image", "source_ref"]]
    assert refs == ["doc.pdf.png", "doc.pdf.png"]


def test_values_of_texts_and_images_keep_their_types_and_shared_columns_are_written(tmp_path: Path) -> None:
    record = {
        "texts": ["a", None, "b"],
        "images": [None, "s.0.png", None],
        "score": [0.5, 2],
        "size": [7],
        "boxes": [[1, 2]],
    }
    path = document(tmp_path, record, {"s.0.png": picture(3)})
    batch = read_documents(path, per_text_fields=("score",), per_image_fields=("size", "boxes"))
    rows = batch.to_pandas()
    assert rows["score"].dropna().tolist() == [0.5, 2.0]
    assert rows["size"].dropna().tolist() == [7]
    assert rows["boxes"].dropna().tolist() == ["[1, 2]"]
    rows["both"] = [None, 1, 2, 3]
    of("stages.interleaved.io", "InterleavedWebdatasetWriterStage")(path=str(tmp_path / "out")).process(
        batch.with_rows(rows)
    )
    [out] = (tmp_path / "out").glob("*.tar")
    with tarfile.open(out) as archive:
        written = json.load(archive.extractfile("s.json"))  # type: ignore[arg-type]
    assert (written["score"], written["size"], written["both"]) == ([0.5, 2.0], [7], [1, 2, 3])


def test_fields_are_checked_as_nemo_curator_does(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("WARNING")  # clusters that ran before silence its handler
    path = document(tmp_path, {"texts": ["a"], "images": [None], "label": "x"})
    with pytest.raises(ValueError, match="fields contains reserved keys"):
        read_documents(path, fields=("sample_id",))
    with pytest.raises(TypeError, match="'label' must be a list, got str"):
        read_documents(path, per_text_fields=("label",))
    assert read_documents(path, fields=("none",)).to_pandas()["none"].isna().all()
    assert "Requested fields not found in source sample" in caplog.text


def test_batches_are_cut_between_samples_and_name_their_files(tmp_path: Path) -> None:
    paths = [document(tmp_path, {"texts": ["a"], "images": [None]}, name=name) for name in ("one", "two")]
    batches = read_documents(*paths, max_batch_bytes=1)
    assert [batch._metadata["source_files"] for batch in batches] == [
        [f"{path}::split_{number:05d}"] for number, path in enumerate(paths)
    ]
    (tmp_path / "none.tar").write_bytes(bytes(10240))
    empty = read_documents(str(tmp_path / "none.tar"), fields=("url",))
    assert (len(empty.data), "url" in empty.get_columns()) == (0, True)
