"""`Mixture`: the tokens of each source that were asked, to within a document."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import DataError, InlineExecutor, JsonlReader, JsonlWriter, Pipeline, PipelineError, TokenWriter
from dcurate.cli import cli
from dcurate.tokens import ImportanceWeights, Mixture, Source, fit_importance
from dcurate.tokens.draws import drawn, draws_of
from dcurate.tokens.shares import Ask, asked, taken, tokens_of
from tests.tokens.conftest import texts
from tests.tokens.test_rewrite import spans
from tests.tokens.test_writer import expected, write

NAMES = ("web", "books", "code")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root: Path = tmp_path_factory.mktemp("sources")
    for seed, (name, count) in enumerate(zip(NAMES, (120, 40, 60), strict=True)):
        rows = [{"id": f"{name}-{n}", "text": text} for n, text in enumerate(texts(count, seed))]
        write(root / name, [*rows, {"id": f"{name}-none", "text": ""}])
    return root


def lengths(root: Path, tokenizer: str) -> dict[str, int]:
    """The tokens of each document, with its EOS."""
    rows = [json.loads(line) for path in root.rglob("*.jsonl") for line in path.read_text().splitlines()]
    rows = [row for row in rows if row["text"]]
    return dict(zip((row["id"] for row in rows), map(len, expected(tokenizer, [r["text"] for r in rows])), strict=True))


def mixed(root: Path, tokenizer: str, output: Path, asks: dict[str, dict[str, Any]], budget: int, **more: Any) -> Any:
    made = {name: Source(str(root / name), **ask) for name, ask in asks.items()}
    stages: list[Any] = [
        Mixture(made, budget, tokenizer, **more),
        TokenWriter(str(output), tokenizer, shard_tokens=2000),
    ]
    return Pipeline("mix", stages=stages).run(InlineExecutor(), observers=[])


@pytest.mark.parametrize(
    ("asks", "budget"),
    [
        ({"web": {"share": 0.6}, "books": {"share": 0.3}, "code": {"share": 0.1}}, 1500),
        ({"web": {"weight": 3}, "books": {"tokens": "1.5k"}, "code": {"weight": 1}}, 4000),
        ({"web": {"weight": 1}, "books": {"share": 0.8, "max_epochs": 1.5}, "code": {"tokens": 200}}, 4000),
    ],
    ids=["shares", "weights", "runs-out"],
)
def test_each_source_gives_its_tokens_to_within_a_document(
    asks: Any, budget: int, sources: Path, tokenizer: str, tmp_path: Path
) -> None:
    result = mixed(sources, tokenizer, tmp_path / "out", asks, budget)
    sizes = lengths(sources, tokenizer)
    there = {name: sum(size for doc, size in sizes.items() if doc.startswith(name)) for name in asks}
    gets = taken({name: Source("x", **ask).ask for name, ask in asks.items()}, budget, there)
    assert sum(gets.values()) == budget
    found = spans(str(tmp_path / "out"))
    got = Counter(dict.fromkeys(asks, 0))
    epochs: dict[str, list[int]] = {}
    for span in found:
        got[span["doc"].partition("-")[0]] += span["end"] - span["start"]
        epochs.setdefault(span["doc"], []).append(span["epoch"])
        assert span["source"] in ("00.jsonl", "01.jsonl", "02.jsonl")
    for name in asks:
        longest = max(size for doc, size in sizes.items() if doc.startswith(name))
        assert abs(got[name] - gets[name]) <= longest / 2
        copies = gets[name] // there[name]
        own = [epochs.get(doc, []) for doc in sizes if doc.startswith(name)]
        assert {tuple(one) for one in own} <= {tuple(range(copies)), tuple(range(copies + 1))}
        [said] = [line for line in result.report.notices if line.startswith(f"{name}: ")]
        assert f" {got[name]:,} drawn, in {got[name] / there[name]:.2f} epochs of {there[name]:,}; " in said
    half = Counter(span["doc"].partition("-")[0] for span in found[: len(found) // 2])
    everything = Counter(span["doc"].partition("-")[0] for span in found)
    assert all(abs(half[name] - everything[name] / 2) <= 8 for name in asks)


def test_the_seed_decides_and_neither_files_nor_batches_do(sources: Path, tokenizer: str, tmp_path: Path) -> None:
    asks = {"web": {"share": 0.5}, "books": {"share": 0.5}}
    orders = []
    for number, (seed, batches) in enumerate([(1, 1), (1, 7), (2, 1)]):
        mixed(sources, tokenizer, tmp_path / str(number), asks, 1800, seed=seed, npartitions=batches)
        orders.append([(span["doc"], span["epoch"]) for span in spans(str(tmp_path / str(number)))])
    assert orders[0] == orders[1]
    assert sorted(orders[0]) != sorted(orders[2])


def test_documents_with_larger_weights_are_drawn_more_often_and_counts_may_be_a_column(tmp_path: Path) -> None:
    rows = [{"id": n, "n": 10, "text": "x", "likes": 3.0 if n % 2 else -3.0} for n in range(400)]
    write(tmp_path / "in", rows)
    weighted = Source(JsonlReader(str(tmp_path / "in")), weight=1, log_weights_field="likes")
    stages: list[Any] = [Mixture({"all": weighted}, 2000, tokens_field="n"), JsonlWriter(str(tmp_path / "out"))]
    Pipeline("mix", stages=stages).run(InlineExecutor(), observers=[])
    lines = [line for path in (tmp_path / "out").glob("*.jsonl") for line in path.read_text().splitlines()]
    found = [json.loads(line) for line in lines]
    assert len(found) == len({row["id"] for row in found}) == 200
    assert sum(row["likes"] > 0 for row in found) > 180
    assert set(found[0]) == {"id", "n", "text", "likes"}


def test_importance_weights_prefer_what_is_like_the_target(tmp_path: Path) -> None:
    words = {True: ["proof", "theorem", "lemma"], False: ["sale", "shoes", "cheap"]}
    rows = [{"id": n, "text": " ".join([*words[n % 2 == 0], "of", "the"] * 3), "n": 1} for n in range(60)]
    everything = write(tmp_path / "in", rows)
    target = write(tmp_path / "target", rows[::2], 1)
    fit_importance(target, JsonlReader(everything), str(tmp_path / "model.npz"))
    stages: list[Any] = [JsonlReader(everything), ImportanceWeights(str(tmp_path / "model.npz"))]
    Pipeline("weigh", stages=[*stages, JsonlWriter(str(tmp_path / "weighed"))]).run(InlineExecutor(), observers=[])
    chosen = Source(str(tmp_path / "weighed"), weight=1, log_weights_field="log_weight")
    stages = [Mixture({"all": chosen}, 30, tokens_field="n"), JsonlWriter(str(tmp_path / "out"))]
    Pipeline("mix", stages=stages).run(InlineExecutor(), observers=[])
    lines = [line for path in (tmp_path / "out").glob("*.jsonl") for line in path.read_text().splitlines()]
    assert sorted(json.loads(line)["id"] for line in lines) == list(range(0, 60, 2))
    (tmp_path / "model.npz").write_bytes(b"PK other")
    with pytest.raises(DataError, match=r"is not a model of fit_importance\(\)"):
        ImportanceWeights(str(tmp_path / "model.npz")).setup()
    with pytest.raises(DataError, match="no model at 'none.npz'; make one"):
        ImportanceWeights("none.npz").setup()


def test_a_plan_says_about_what_comes(sources: Path, tokenizer: str, tmp_path: Path) -> None:
    recipe = tmp_path / "mix.yaml"
    recipe.write_text(
        f"""
name: mix
stages:
  - Mixture:
      budget: 3k
      tokenizer: {tokenizer}
      sources:
        web: {{input: {sources}/web, weight: 1}}
        books: {{input: {sources}/books, share: 0.25, max_epochs: 2}}
  - JsonlWriter: {{path: {tmp_path}/out}}
"""
    )
    done = CliRunner().invoke(cli, ["plan", str(recipe)])
    assert done.exit_code == 0, done.output
    assert "mixture: 3,000 tokens\nweb: 2,250 tokens requested, about 2,250 drawn, in " in done.output
    there = sum(size for doc, size in lengths(sources, tokenizer).items() if doc.startswith("books"))
    assert (
        f"books: 750 tokens requested, about 750 drawn, in {750 / there:.2f} epochs of about {there:,}; " in done.output
    )


def test_what_cannot_be_mixed_is_refused(sources: Path, tokenizer: str, tmp_path: Path) -> None:
    wrong: list[tuple[dict[str, dict[str, Any]], str]] = [
        ({"web": {"share": 0.6}}, r"ask for 600 tokens, less than the budget of 1,000; raise"),
        ({"web": {"share": 0.6}, "books": {"tokens": 500}}, r"ask for 1,100 tokens, more than the budget of 1,000"),
        ({"web": {}}, r"takes one of share=, tokens= and weight=; none of them was given"),
        ({"web": {"share": 1, "weight": 1}}, r"takes one of .*; share and weight was given"),
        ({"web": {"tokens": "many"}}, r"tokens='many' is not a number of tokens; give one such as"),
        ({"web": {"weight": 1, "max_epochs": 0}}, r"max_epochs=0 of a source must be a number above zero"),
        ({"web": {"weight": 1, "min_tokens": 900}, "code": {"weight": 1, "min_tokens": 900}}, r"min_tokens= of the"),
    ]
    for asks, said in wrong:
        with pytest.raises(PipelineError, match=said):
            mixed(sources, tokenizer, tmp_path / "out", asks, 1000)
    with pytest.raises(PipelineError, match="source 'web' takes no 'shares'; did you mean 'share'"):
        Mixture({"web": {"input": "x", "shares": 1}}, 10, tokenizer)
    with pytest.raises(PipelineError, match="give a tokenizer=, by which tokens are counted, or a tokens_field="):
        Mixture({"web": {"input": "x", "share": 1}}, 10)
    write(tmp_path / "empty", [{"id": "a", "text": ""}], 1)
    with pytest.raises(DataError, match="source 'empty' has no tokens, and is asked for 1,000"):
        mixed(tmp_path, tokenizer, tmp_path / "x", {"empty": {"weight": 1}}, 1000)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_sources_share_the_budget(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 5))
    budget = data.draw(st.integers(1, 10**6))
    asks = {
        str(n): Ask(
            weight=data.draw(st.floats(0.1, 10)),
            max_epochs=data.draw(st.sampled_from([0.5, 1, 4])),
            min_tokens=data.draw(st.integers(0, budget // 10)),
        )
        for n in range(count)
    }
    available = {name: data.draw(st.integers(0, 10**6)) for name in asks}
    gets = taken(asks, budget, available)
    caps = {name: int(ask.max_epochs * available[name]) for name, ask in asks.items()}
    assert sum(gets.values()) == min(budget, sum(caps.values()))
    assert all(gets[name] <= caps[name] for name in asks)
    assert all(gets[name] >= min(ask.min_tokens, caps[name]) for name, ask in asks.items())
    assert sum(asked(asks, budget).values()) == budget
    free = [name for name in asks if asks[name].min_tokens < gets[name] < caps[name]]
    levels = [gets[name] / (asks[name].weight or 1) for name in free]
    assert all(abs(level - levels[0]) <= 20 for level in levels)


def test_sources_share_a_budget_of_a_few_tokens() -> None:
    halves = {name: Ask(weight=1.0, max_epochs=0.5) for name in "ab"}
    assert taken(halves, 1, {"a": 0, "b": 2}) == {"a": 0, "b": 1}
    one, other = Ask(weight=0.3125, max_epochs=0.5), Ask(weight=0.3125, max_epochs=4)
    asks = {"a": one, "b": Ask(weight=1.0, max_epochs=1), "c": Ask(weight=4.0, max_epochs=0.5), "d": other}
    assert taken(asks, 66, {"a": 58, "b": 17, "c": 0, "d": 6}) == {"a": 25, "b": 17, "c": 0, "d": 24}


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(0, 4000), st.integers(1, 4), st.booleans())
@settings(max_examples=80, deadline=None)
def test_what_is_drawn_is_nearest_to_the_target(sizes: list[int], target: int, files: int, repeated: bool) -> None:
    rng = np.random.default_rng(len(sizes))
    keys = rng.integers(0, 2**63, (len(sizes), 2), dtype=np.uint64)
    keys[1::2] = keys[:-1:2] if repeated else keys[1::2]
    draws, tokens = draws_of(keys), np.array(sizes)
    found = drawn(lambda: [(draws[n::files], tokens[n::files]) for n in range(files)], target)
    assert abs(found.tokens - target) <= max(sizes) / 2
    rows = Counter[int]()
    for part in range(3):
        order = np.argsort(keys[:, 0], kind="stable")
        rows.update(order[found.placed(keys[order], draws[order], part, 3).rows].tolist())
    assert sum(rows.values()) == found.wanted
    assert max(rows.values(), default=0) - min((rows[n] for n in range(len(sizes))), default=0) <= 1
    if not repeated:
        assert sum(sizes[n] * times for n, times in rows.items()) == found.tokens


def test_numbers_of_tokens_are_read() -> None:
    assert [tokens_of(one, "x") for one in ("2", "1_000", "1.5k", "3M", "1,000,000", "2B", "1T", 7)] == [
        *(2, 1000, 1500, 3 * 10**6, 10**6, 2 * 10**9, 10**12, 7)
    ]
