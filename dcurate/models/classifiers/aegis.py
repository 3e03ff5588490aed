"""Classifiers on LlamaGuard: unsafe content (AEGIS), and poisoned instruction data (Instruction Data Guard).

Both need meta-llama/LlamaGuard-7b, which is gated: its terms are to be accepted at the Hugging Face hub. Everything
here has run on CPUs only, with small random weights of the same layout; it is untested on a GPU, and the published
weights were not loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from dcurate.core.stage import NodeInfo, ProcessingStage, Spec, WorkerMetadata
from dcurate.frames.columns import values
from dcurate.frames.document import DocumentBatch
from dcurate.frames.tokens import Tokens, tokens_of, with_tokens
from dcurate.hub.loading import tokenizer_of
from dcurate.hub.weights import Weights, named_after
from dcurate.models.classifiers.aegis_prompt import AEGIS_LABELS, AFTER, format_aegis, parse_response
from dcurate.models.classifiers.base import Classifier
from dcurate.models.classifiers.columns import check_free, put, record_labels
from dcurate.models.classifiers.labels import Label
from dcurate.models.classifiers.llama_guard import (
    AEGIS_VARIANTS,
    INSTRUCTION_DATA_GUARD_MODEL_IDENTIFIER,
    LLAMA_GUARD,
    MAX_SEQ_LENGTH,
    InstructionDataGuardModel,
    RunAegis,
)
from dcurate.models.tokenizer import INPUT_ID_FIELD, Tokenize

#: The column of prompts, where they are made here.
HIDDEN_TEXT_FIELD = "_curator_hidden_text"


@dataclass
class FormatAegisPrompt(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Add the prompt that asks AEGIS about a text; a null text counts as empty.

    Args:
        text_field: the column of texts.
        max_chars: characters of a text that the prompt holds at most; None for all.
        overwrite: replace a column of prompts that is there already instead of refusing.
        name: name of the stage.

    Raises:
        PipelineError: there is a column of prompts already.
    """

    text_field: str
    max_chars: int | None
    overwrite: bool = False
    name: str = "format_aegis_prompt"

    def inputs(self) -> Spec:
        return ["data"], [self.text_field]

    def outputs(self) -> Spec:
        return ["data"], [HIDDEN_TEXT_FIELD]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        check_free(self.name, [HIDDEN_TEXT_FIELD], task.get_columns(), self.overwrite)
        table = task.to_arrow()
        prompts = [format_aegis((text or "")[: self.max_chars]) for text in values(table, self.text_field)]
        return task.with_data(put(table, {HIDDEN_TEXT_FIELD: prompts}))


@dataclass
class AegisTokenizer(Tokenize):
    """Tokenize prompts; a prompt that is too long is truncated in the text, never in the question.

    (NeMo Curator cuts its end, the question itself.)
    """

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        super().setup(worker_metadata)
        assert self._loaded is not None
        (before, with_end), _ = self._loaded.encode(["a", f"a{AFTER}"])
        self._end = np.array(with_end[len(before) :], np.int32)

    def process(self, task: DocumentBatch) -> DocumentBatch:
        made = super().process(task)
        table = made.to_arrow()
        bounds, ids = tokens_of(table, INPUT_ID_FIELD)
        end = self._end
        longest = self.max_seq_length or 0
        full = np.flatnonzero(np.diff(bounds) >= max(longest, len(end) + 1))
        ids = ids.copy()
        for stop in bounds[full + 1]:
            ids[stop - len(end) : stop] = end  # a prompt that just fits ends so anyway
        return made.with_data(with_tokens(table, INPUT_ID_FIELD, Tokens(bounds, ids)))


@dataclass
class ParseAegisResponses(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Make labels of AEGIS's answer tokens.

    Args:
        model: model whose tokenizer decodes the answers.
        cache_dir, hf_token: where it comes from.
        label_field: the column for the label.
        raw_output_field: the column of tokens, which is replaced by texts, or dropped.
        keep_raw_output: whether it becomes one.
        aegis_prompt_field: the column of prompts.
        keep_aegis_prompt_field: whether it stays.
        overwrite: replace a column of labels that is there already instead of refusing.
        name: name of the stage.

    Raises:
        PipelineError: there is a column of labels already.
    """

    model: str = LLAMA_GUARD
    cache_dir: str | None = None
    hf_token: str | None = field(default=None, repr=False)
    label_field: str = "aegis_pred"
    raw_output_field: str = "_aegis_raw_pred"
    keep_raw_output: bool = False
    aegis_prompt_field: str = HIDDEN_TEXT_FIELD
    keep_aegis_prompt_field: bool = False
    overwrite: bool = False
    name: str = "postprocess_aegis_responses"

    def inputs(self) -> Spec:
        return ["data"], [self.raw_output_field]

    def outputs(self) -> Spec:
        kept = [(self.keep_raw_output, self.raw_output_field), (self.keep_aegis_prompt_field, self.aegis_prompt_field)]
        return ["data"], [self.label_field, *(column for keep, column in kept if keep)]

    def dropped_columns(self) -> Sequence[str]:
        return [self.raw_output_field, self.aegis_prompt_field]

    def check_columns(self, columns: Sequence[str]) -> None:
        check_free(self.name, [self.label_field], columns, self.overwrite)

    def settings(self) -> dict[str, Any]:
        settings = super().settings()
        return {name: value for name, value in settings.items() if name not in ("cache_dir", "hf_token", "_tokenizer")}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_tokenizer"}

    @property
    def weights(self) -> Weights:
        """The weights of the tokenizer."""
        return Weights(self.model, None, self.cache_dir, self.hf_token)

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        self.weights.fetch("tokenizer")

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        self._tokenizer = tokenizer_of(self.weights, self.weights.folder("tokenizer"))

    def process(self, task: DocumentBatch) -> DocumentBatch:
        self.check_columns(task.get_columns())
        table = task.to_arrow()
        bounds, ids = tokens_of(table, self.raw_output_field)
        answers = [ids[start:stop].tolist() for start, stop in pairwise(bounds)]
        texts = self._tokenizer.batch_decode(answers, skip_special_tokens=True) if answers else []
        dropped = [] if self.keep_aegis_prompt_field else [self.aegis_prompt_field]
        added = {self.label_field: [parse_response(text) for text in texts]}
        if self.keep_raw_output:
            added[self.raw_output_field] = texts
        else:
            dropped.append(self.raw_output_field)
        return record_labels(task.with_data(put(table, added, dropped)), self.name, [self.label_field])


@dataclass(kw_only=True)
class AegisClassifier(Classifier):
    """Classify a text as safe, or as one of 13 categories of unsafe content (AEGIS, Ghosh et al., 2024).

    The label is ``safe``, ``O1`` to ``O13``, or ``unknown`` where the model answers something else. A prompt of about
    2,000 tokens, with the policy that the model was tuned on, asks LlamaGuard with NVIDIA's adapter about the first
    6,000 characters of a text; of a prompt of more than 4,096 tokens the end of the text is cut. It is by far the
    slowest of the classifiers.

    meta-llama/LlamaGuard-7b is gated: accept its terms at the Hugging Face hub, and pass ``hf_token`` or set
    ``HF_TOKEN``. Arguments that are not named here are those of every classifier (`Classifier`); ``revision`` is of
    the adapter.

    Args:
        aegis_variant: the adapter: NVIDIA's ``...-Defensive-1.0`` or ``...-Permissive-1.0`` at the hub, or a folder.
        base_model: the language model under it, at the hub or a folder.
        label_field: the column for the label.
        raw_output_field: the column for the model's answer, if it is kept.
        keep_raw_output: whether it is.
        aegis_prompt_field: a column that holds prompts already; by default they are made.
        keep_aegis_prompt_field: whether the column of prompts stays.
        max_new_tokens: tokens of an answer at most; a verdict takes about five.

    Examples:
        >>> stage = AegisClassifier(filter_by=["safe"])
        >>> [inner.name for inner in stage.decompose()][:3]
        ['format_aegis_prompt', 'llamaguard_7b_tokenizer', 'aegis_ai_content_safety_llamaguard_defensive_1.0_model']
    """

    model: str = field(init=False)
    aegis_variant: str = field(default=AEGIS_VARIANTS[0], kw_only=False)
    base_model: str = LLAMA_GUARD
    label_field: str = "aegis_pred"
    raw_output_field: str = "_aegis_raw_pred"
    keep_raw_output: bool = False
    max_chars: int | None = 6000
    model_inference_batch_size: int = 64
    aegis_prompt_field: str | None = None
    keep_aegis_prompt_field: bool = False
    max_new_tokens: int = 100

    def __post_init__(self) -> None:
        self.model = self.aegis_variant
        super().__post_init__()

    @property
    def filtered_field(self) -> str:
        return self.label_field

    @property
    def known_labels(self) -> Sequence[Label] | None:
        return AEGIS_LABELS

    def before_model(self) -> list[ProcessingStage[Any, Any]]:
        settings = {**self.tokenizer_settings(), "model": self.base_model, "revision": None}
        settings |= {"max_seq_length": MAX_SEQ_LENGTH, "max_chars": None, "padding_side": "left", "unk_token": True}
        if self.aegis_prompt_field is not None:
            return [Tokenize(**{**settings, "text_field": self.aegis_prompt_field})]
        prompt = FormatAegisPrompt(self.text_field, self.max_chars, self.overwrite)
        return [prompt, AegisTokenizer(**{**settings, "text_field": HIDDEN_TEXT_FIELD})]

    def model_stage(self) -> ProcessingStage[Any, Any]:
        return RunAegis(
            **self.model_settings(),
            max_seq_length=MAX_SEQ_LENGTH,
            base_model=self.base_model,
            raw_output_field=self.raw_output_field,
            max_new_tokens=self.max_new_tokens,
        )

    def after_model(self) -> list[ProcessingStage[Any, Any]]:
        return [
            ParseAegisResponses(
                model=self.base_model,
                cache_dir=self.cache_dir,
                hf_token=self.hf_token,
                label_field=self.label_field,
                raw_output_field=self.raw_output_field,
                keep_raw_output=self.keep_raw_output,
                aegis_prompt_field=self.aegis_prompt_field or HIDDEN_TEXT_FIELD,
                keep_aegis_prompt_field=self.keep_aegis_prompt_field,
                overwrite=self.overwrite,
            )
        ]

    def outputs(self) -> Spec:
        return self.after_model()[0].outputs()


@dataclass(kw_only=True)
class InstructionDataGuardClassifier(Classifier):
    """Detect instruction data poisoned to plant a trigger in a model, with a probability (NVIDIA, English).

    Texts are best of the form ``Instruction: {instruction}. Input: {input}. Response: {response}.``, of which 4,096
    tokens are looked at. A small network judges the state that LlamaGuard with NVIDIA's defensive adapter has after
    the last token. Look at what it flags before anything is deleted: false alarms are expected.

    meta-llama/LlamaGuard-7b is gated: accept its terms at the Hugging Face hub, and pass ``hf_token`` or set
    ``HF_TOKEN``. Arguments that are not named here are those of every classifier (`Classifier`); ``filter_by`` takes
    ``False`` or ``True``, and ``revision`` is of the small network.

    Args:
        aegis_variant: the adapter, at the hub or a folder.
        base_model: the language model under it, at the hub or a folder.
        label_field: the column for whether it is poisoned: the probability is one half or more.
        score_field: the column for the probability.

    Examples:
        >>> InstructionDataGuardClassifier(filter_by=[False]).outputs()[1]
        ['is_poisoned', 'instruction_data_guard_poisoning_score']
    """

    model: str = INSTRUCTION_DATA_GUARD_MODEL_IDENTIFIER
    aegis_variant: str = AEGIS_VARIANTS[0]
    base_model: str = LLAMA_GUARD
    label_field: str = "is_poisoned"
    score_field: str = "instruction_data_guard_poisoning_score"
    model_inference_batch_size: int = 64

    @property
    def filtered_field(self) -> str:
        return self.label_field

    @property
    def wanted(self) -> tuple[Label, ...]:
        """The labels of ``filter_by``; strings are converted to booleans."""
        booleans = {"true": True, "false": False}
        return tuple(booleans.get(str(label).lower(), label) for label in super().wanted)

    @property
    def known_labels(self) -> Sequence[Label] | None:
        return (False, True)

    def before_model(self) -> list[ProcessingStage[Any, Any]]:
        settings = {**self.tokenizer_settings(), "model": self.base_model, "revision": None}
        settings |= {"max_seq_length": MAX_SEQ_LENGTH, "padding_side": "left", "unk_token": True}
        return [Tokenize(**settings)]

    def model_stage(self) -> ProcessingStage[Any, Any]:
        return InstructionDataGuardModel(
            **self.model_settings(),
            max_seq_length=MAX_SEQ_LENGTH,
            base_model=self.base_model,
            adapter_identifier=self.aegis_variant,
            label_field=self.label_field,
            score_field=self.score_field,
            name=named_after(self.aegis_variant, "_model"),
        )
