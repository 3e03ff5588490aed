"""A shared prompt prefix, which a language model processes once and not for each prompt.

Untested on a GPU: it has run on CPUs only.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dcurate.text.optional import needed


def common_beginning(one: Sequence[int], other: Sequence[int]) -> list[int]:
    """The longest common prefix of two token sequences.

    Examples:
        >>> common_beginning([1, 7, 9], [1, 7, 8, 9])
        [1, 7]
    """
    shared = 0
    while shared < min(len(one), len(other)) and one[shared] == other[shared]:
        shared += 1
    return list(one[:shared])


@dataclass
class Prefix:
    """The tokens of a prefix, and the model's cached states for them.

    Args:
        tokens: of the beginning.
    """

    tokens: Sequence[int]
    _states: Any = field(default=None, repr=False, compare=False)

    def inputs(self, encoder: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments for ``generate``: with the cached states of the prefix, if all rows have it, otherwise unchanged.

        Of rows that are padded on the left the beginning is put in front, and the padding between it and the rest.

        Args:
            encoder: the language model without its last layer, which is run over the beginning the first time.
            inputs: ``input_ids`` and ``attention_mask`` of shape (rows, longest), padded on the left.
        """
        plain = {name: inputs[name] for name in ("input_ids", "attention_mask")}
        torch = needed("torch", "a language model", "models")
        ids, lengths = plain["input_ids"], plain["attention_mask"].sum(dim=1)
        known, columns = len(self.tokens), ids.shape[1]
        if not known or int(lengths.min()) <= known:
            return plain
        shared = torch.tensor(self.tokens, device=ids.device)
        starts = columns - lengths
        begins = ids.gather(1, starts[:, None] + torch.arange(known, device=ids.device))
        if not bool((begins == shared).all()):
            return plain
        longest = int(lengths.max()) - known
        own = torch.arange(longest, device=ids.device) >= (longest - (lengths - known))[:, None]
        rest = ids[:, columns - longest :] * own
        return {
            "input_ids": torch.cat([shared.expand(len(ids), known), rest], dim=1),
            "attention_mask": torch.cat([torch.ones_like(begins), own.long()], dim=1),
            "past_key_values": self._begun(encoder, shared, len(ids)),
        }

    def _begun(self, encoder: Any, shared: Any, rows: int) -> Any:
        if self._states is None:
            self._states = encoder(input_ids=shared[None], use_cache=True).past_key_values
        states = copy.deepcopy(self._states)  # generation appends to it in place
        states.batch_repeat_interleave(rows)
        return states
