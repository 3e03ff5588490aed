"""AEGIS on a CPU: verdicts of a Llama-shaped model with random weights, beside a plain loop over `generate`.

    python -m benchmarks.classifiers dcurate/bundled/sample/part-0[0-5].jsonl --documents 24 --json FILE

Both are given the same prompts (AEGIS's policy and up to 6,000 characters of a text), the same model with a LoRA
adapter, one thread, batches of up to 8 prompts sorted by length, and write six tokens for each, about a verdict's
length. The loop does what NeMo Curator's AegisModel does: it pads prompts on the left and goes through the whole of
each. dcurate goes through the policy once and then through what differs. Loading is not counted. How much that saves
depends on the lengths of texts and not on the weights; the tokenizer is trained on the spot, and the tokens of the
policy are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from benchmarks.measure import job, machine, measure, save, table, versions
from benchmarks.models_peers import Timer, texts_of
from dcurate import DocumentBatch, JsonlReader, Resources
from dcurate.models import AegisClassifier
from dcurate.models.classifiers.aegis_prompt import before, format_aegis

SHAPES = {"small": (512, 8, 8, 1376), "tiny": (32, 2, 4, 48)}
WRITTEN, BATCH, CHARACTERS = 6, 8, 6000


def made(folder: Path, shape: str, texts: Sequence[str]) -> tuple[str, str]:
    """Folders of a language model and of an adapter for it."""
    hidden, layers, heads, between = SHAPES[shape]
    learner = Tokenizer(models.BPE(unk_token="<unk>"))
    learner.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(
        vocab_size=16_000, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False, limit_alphabet=500
    )
    learner.train_from_iterator([*texts, before()], trainer)
    learner.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 1)])
    learner.decoder = decoders.Metaspace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=learner, model_max_length=8192, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )
    tokenizer.save_pretrained(folder / "llama")
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=between,
        max_position_embeddings=8192,
    )
    model = LlamaForCausalLM(config)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.1)
    model.save_pretrained(folder / "llama")
    settings = LoraConfig(r=16, lora_alpha=32, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    get_peft_model(model, settings).save_pretrained(str(folder / "adapter"))
    return str(folder / "llama"), str(folder / "adapter")


def ours(llama: str, adapter: str, source: str) -> dict[str, Any]:
    """The stages of `AegisClassifier`, one after the other."""
    stages = AegisClassifier(
        adapter,
        base_model=llama,
        keep_raw_output=True,
        max_new_tokens=WRITTEN,
        model_inference_batch_size=BATCH,
        device="cpu",
    ).decompose()
    stages[2] = stages[2].with_(resources=Resources(cpus=1))
    vars(stages[2])["max_batch_tokens"] = 1 << 30
    for stage in stages:
        stage.setup()
    rows: Any = DocumentBatch(data=pa.table({"text": texts_of(source)}))
    with Timer() as timer:
        for stage in stages:
            rows = stage.process(rows)
    return {**timer.figures(), "answers": rows.to_arrow()["_aegis_raw_pred"].to_pylist()}


def plain_loop(llama: str, adapter: str, source: str) -> dict[str, Any]:
    """Tokenise, sort, pad on the left, `generate`, decode what was written."""
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(llama)
    model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(llama), adapter).eval()
    texts = texts_of(source)
    with Timer() as timer, torch.inference_mode():
        ids = [
            tokenizer(format_aegis(text[:CHARACTERS]), truncation=True, max_length=4096)["input_ids"] for text in texts
        ]
        order = np.argsort([-len(row) for row in ids], kind="stable")
        answers = [""] * len(ids)
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            longest = max(len(ids[row]) for row in rows)
            padded = torch.tensor([[0] * (longest - len(ids[row])) + ids[row] for row in rows])
            mask = torch.tensor([[0] * (longest - len(ids[row])) + [1] * len(ids[row]) for row in rows])
            found = model.generate(
                input_ids=padded, attention_mask=mask, max_new_tokens=WRITTEN, do_sample=False, pad_token_id=0
            )
            for row, text in zip(
                rows, tokenizer.batch_decode(found[:, longest:], skip_special_tokens=True), strict=True
            ):
                answers[row] = text
    return {**timer.figures(), "answers": answers}


def drawn(paths: Sequence[str], documents: int) -> list[str]:
    """Texts of files, spread evenly over them."""
    texts: list[str] = []
    for path in paths:
        reader = JsonlReader(path, on_bad_line="quarantine")
        for split in reader.splits():
            texts += reader.process(split).to_arrow()["text"].to_pylist()
    return [texts[place] for place in np.linspace(0, len(texts) - 1, min(documents, len(texts))).astype(int)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help="JSONL with a column text")
    parser.add_argument("--documents", type=int, default=24)
    parser.add_argument("--shape", default="small", choices=SHAPES)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        texts = drawn(options.files, options.documents)
        source = folder / "texts.jsonl"
        source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        llama, adapter = made(folder, options.shape, texts)
        env = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        given = {"llama": llama, "adapter": adapter, "source": str(source)}
        found = {
            run.__name__: measure(job(f"benchmarks.classifiers:{run.__name__}", **given), env=env).result
            for run in (plain_loop, ours)
        }
        tokenizer = AutoTokenizer.from_pretrained(llama)
        lengths = [len(tokenizer(format_aegis(text[:CHARACTERS]))["input_ids"]) for text in texts]
        policy = len(tokenizer(before())["input_ids"])
    wanted = found["plain_loop"].pop("answers")
    same = [one == other for one, other in zip(found["ours"].pop("answers"), wanted, strict=True)]
    figures: dict[str, Any] = {
        "documents": len(texts),
        "policy_tokens": policy,
        "prompt_tokens_percentiles": np.percentile(lengths, [5, 50, 95]).tolist(),
        **found,
        "answers_equal": float(np.mean(same)),
        "times": found["plain_loop"]["cpu_s"] / found["ours"]["cpu_s"],
        "machine": machine(),
        "versions": versions("torch", "transformers", "peft", "dcurate"),
    }
    print(f"{len(texts)} prompts; tokens of the policy: {policy}, of whole prompts (5 %, 50 %, 95 %): "
          f"{figures['prompt_tokens_percentiles']}")  # fmt: skip
    names = {"plain_loop": "generate, the whole prompt", "ours": "AegisClassifier, the policy once"}
    lines = [
        [title, len(texts) / found[key]["cpu_s"], found[key]["cpu_s"], found[key]["wall_s"]]
        for key, title in names.items()
    ]
    print(table(["", "docs/CPU-s", "CPU s", "wall s"], lines))
    print(f"answers equal: {figures['answers_equal']:.1%}; {figures['times']:.1f} times as many documents a CPU-second")
    save(options.json, figures)


if __name__ == "__main__":
    main()
