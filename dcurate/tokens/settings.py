"""What decides the bytes of files of tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dcurate.errors import PipelineError, listed, nearest
from dcurate.tokens.layout import PACKINGS
from dcurate.tokens.tokenizer import SpecialIds, TextEncoder, TokenizerSource, kind_of_ids

#: Types of ids that each format has, smallest first; the first that holds all ids is used.
KINDS: dict[str, tuple[str, ...]] = {
    "megatron": ("uint16", "int32", "int64"),
    "ds": ("uint16", "uint32"),
    "memmap": ("uint16", "uint32"),
    "npy": ("uint16", "uint32", "int32", "int64"),
    "mds": ("uint16", "int32", "uint32", "int64"),
    "litdata": ("uint16", "int32", "uint32", "int64"),
    "parquet": ("uint16", "int32", "uint32", "int64"),
}
#: Formats whose files begin with offsets of 32 bits.
_SMALL = ("mds", "litdata")


@dataclass(frozen=True)
class TokenSettings:
    """What decides the bytes of files of tokens; see `dcurate.TokenWriter`."""

    tokenizer: TokenizerSource
    format: str
    text_field: str
    id_field: str | None
    loss_ranges_field: str | None
    shard_tokens: int
    add_bos: bool | str
    add_eos: bool | str
    packing: str
    sequence_length: int | None
    dtype: str | None
    unit: str = "document"

    def __post_init__(self) -> None:
        asks = self.tokenizer.asks
        for name, known in (("format", tuple(KINDS)), ("packing", PACKINGS)):
            value = getattr(self, name)
            if value not in known:
                raise PipelineError(
                    f"{asks}: {name}={value!r} is not one of {listed(known)}{nearest(str(value), known)}"
                )
        for name in ("shard_tokens", "sequence_length"):
            number = getattr(self, name)
            if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
                raise PipelineError(f"{asks}: {name}={number!r} must be a whole number of at least 1")
        if (self.packing == "none") != (self.sequence_length is None):
            raise PipelineError(
                f"{asks}: packing={self.packing!r} and sequence_length={self.sequence_length!r}; packing='concat' and "
                "'best_fit' need a sequence_length, and without packing there is none"
            )
        if self.sequence_length is not None and self.sequence_length > self.shard_tokens:
            raise PipelineError(
                f"{asks}: sequence_length={self.sequence_length} is more than shard_tokens={self.shard_tokens}; "
                "give larger shards"
            )
        if self.dtype is not None and self.dtype not in KINDS[self.format]:
            raise PipelineError(
                f"{asks}: dtype={self.dtype!r} is not one of {listed(KINDS[self.format])}, which "
                f"format={self.format!r} has"
            )
        if self.format in _SMALL and self.shard_tokens > 2**29:
            raise PipelineError(
                f"{asks}: a shard of format={self.format!r} must stay below 4 GiB; give shard_tokens=2**29 at most"
            )

    def rules(self, encoder: TextEncoder) -> tuple[SpecialIds, str]:
        """Return the special ids and the type of ids for a tokenizer.

        Raises:
            PipelineError: it does not have a token that is asked for, or its ids do not fit.
        """
        special = SpecialIds.of(encoder, self.tokenizer, self.add_bos, self.add_eos)
        return special, kind_of_ids(encoder, self.tokenizer, self.dtype, KINDS[self.format])

    def deciding(self) -> dict[str, Any]:
        """Return what decides the bytes, as plain values: of the tokenizer its content, not its place."""
        values = {name: value for name, value in vars(self).items() if name != "tokenizer"}
        special = self.tokenizer.special_in_text
        return {**values, "tokenizer": self.tokenizer.digest(), "special_in_text": special}
