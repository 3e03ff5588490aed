"""`MegatronTokenizerWriter`, as NeMo Curator names it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dcurate.core.batch import FileGroup
from dcurate.core.stage import CompositeStage, Stage
from dcurate.errors import PipelineError
from dcurate.frames.document import DocumentBatch
from dcurate.io import output
from dcurate.tokens.special import SpecialInText
from dcurate.tokens.writer import TokenWriter

_OWN_ARGUMENTS = {"cache_dir": "cache_dir", "token": "hf_token"}


@dataclass
class MegatronTokenizerWriter(CompositeStage[DocumentBatch, FileGroup]):
    """Write documents as tokens for Megatron, ``.bin`` and ``.idx``, with the arguments of NeMo Curator.

    NeMo Curator writes a pair of files for each batch; here files have up to 2^27 tokens, in the order of the source,
    see `TokenWriter`, which also has further formats and packing.

    Args:
        path: the directory to write to, local or a URL.
        write_kwargs: ``storage_options`` for fsspec.
        mode: what to do about existing files: ``"error"``, ``"overwrite"``, ``"ignore"`` or ``"append"``.
        tokenizer: an id at the Hugging Face hub, a folder, or a file such as ``tokenizer.json``.
        cache_dir: where files of the hub are kept.
        hf_token: for a model that is not public.
        text_field: the column of texts.
        tokenization_batch_size: argument of NeMo Curator; texts are tokenised in calls of bounded size here, and this
            changes nothing.
        append_eod: whether each document ends with the EOS token. NeMo Curator leaves it out with a warning where the
            tokenizer has none; here that is an error.
        transformers_init_kwargs: more arguments of the tokenizer's ``from_pretrained``.
        special_in_text: see `TokenWriter`; NeMo Curator makes special tokens of texts, as ``"token"`` does.
        name: name of the stage.

    Raises:
        PipelineError: no ``tokenizer``; or what `TokenWriter` refuses.

    Examples:
        >>> writer = MegatronTokenizerWriter("tokens", tokenizer="gpt2", append_eod=True)
        >>> [stage.name for stage in writer.decompose()]
        ['megatron_tokenizer_writer_tokens', 'megatron_tokenizer_writer_shards', 'megatron_tokenizer_writer']
    """

    path: str
    write_kwargs: dict[str, Any] = field(default_factory=dict)
    mode: output.Mode = "error"
    tokenizer: str | None = None
    cache_dir: str | None = None
    hf_token: str | None = field(default=None, repr=False)
    text_field: str = "text"
    tokenization_batch_size: int = 1000
    append_eod: bool = False
    transformers_init_kwargs: dict[str, Any] = field(default_factory=dict)
    special_in_text: SpecialInText = "text"
    name: str = "megatron_tokenizer_writer"

    def __post_init__(self) -> None:
        if not self.tokenizer:
            raise PipelineError(f"{self.name}: tokenizer must name a tokenizer, such as 'gpt2'")
        for argument, stage_argument in _OWN_ARGUMENTS.items():
            if argument in self.transformers_init_kwargs:
                raise PipelineError(
                    f"{self.name}: give {stage_argument}= to the stage, not in transformers_init_kwargs"
                )
        if "local_files_only" in self.transformers_init_kwargs:
            raise PipelineError(f"{self.name}: leave out local_files_only; workers never use the network")
        self.decompose()

    def decompose(self) -> list[Stage]:
        writer = TokenWriter(
            self.path,
            self.tokenizer or "",
            text_field=self.text_field,
            add_eos=self.append_eod,
            mode=self.mode,
            storage_options=self.write_kwargs.get("storage_options"),
            transformers_init_kwargs=self.transformers_init_kwargs,
            cache_dir=self.cache_dir,
            hf_token=self.hf_token,
            special_in_text=self.special_in_text,
            name=self.name,
        )
        return writer.decompose()
