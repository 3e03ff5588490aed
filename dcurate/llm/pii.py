"""Personal data that a model finds in texts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dcurate.core.stage import Spec
from dcurate.endpoints.generate import Generate, Result
from dcurate.errors import PipelineError
from dcurate.frames.columns import values, with_text

#: What is looked for, if nothing else is said.
LABELS = (
    "name",
    "email",
    "phone_number",
    "street_address",
    "date_of_birth",
    "government_id",
    "bank_account",
    "credit_card",
    "password",
    "medical_record",
)

FINDER = (
    "You find personal data in texts. Personal data is what tells of a particular private person, of these kinds: "
    '{kinds}. Answer with one JSON object and nothing else: {{"entities": [{{"type": "<kind>", "text": "<exactly as it '
    'stands in the text>"}}]}}, with an empty list where there is none. Change no letter of what you find.'
)


@dataclass
class LLMPii(Generate):
    """Remove personal data found by a model: names and addresses, for example, which follow no rule.

    The model only names what it finds; each place where that occurs in the text is then replaced, so nothing else of
    the text changes. What it names that is not there is counted (``not_in_text``). For e-mail addresses, numbers and
    keys `PiiModifier` is exact, and costs nothing.

    Args:
        text_field: the column with the texts; it is replaced.
        labels: kinds of data, in words that a model understands.
        replacement: the text to insert; ``{label}`` for the kind.
        entities_field: a column for the entities found, as JSON; None for none.

    Other arguments are those of `Generate`.

    Examples:
        >>> from dcurate.endpoints.openai_client import AsyncOpenAIClient
        >>> client = AsyncOpenAIClient(base_url="http://localhost:8000/v1")
        >>> LLMPii(client=client, model="llama", entities_field="found").outputs()[1]
        ['text', 'found']
    """

    text_field: str = "text"
    labels: Sequence[str] = LABELS
    replacement: str = "{{{label}}}"
    entities_field: str | None = None
    name: str = "llm_pii"

    def __post_init__(self) -> None:
        if not self.labels or isinstance(self.labels, str):
            raise PipelineError(f"{self.name}: labels={self.labels!r} must be a list, such as ['name', 'email']")
        instructions = FINDER.replace("{kinds}", ", ".join(self.labels))
        self.system_prompt = instructions if self.system_prompt is None else self.system_prompt
        self.prompt = "{document}" if self.prompt is None else self.prompt
        self.input_field = self.text_field
        self.schema = {"entities": {"type": "array", "items": {"type": "object"}}}
        super().__post_init__()

    @property
    def _added(self) -> list[str]:
        return [self.text_field, *([self.entities_field] if self.entities_field is not None else [])]

    def outputs(self) -> Spec:
        return ["data"], self._added

    def _with_results(self, table: Any, results: list[Result]) -> Any:
        entities = [self._known(result[0]["entities"]) if isinstance(result, list) else [] for result in results]
        texts = values(table, self.text_field)
        missing = sum(
            entity["text"] not in (text or "") for text, all_ in zip(texts, entities, strict=True) for entity in all_
        )
        self._log_metrics({"entities": sum(map(len, entities)), "not_in_text": missing})
        taken = [
            None if text is None else redacted(text, all_, self.replacement)
            for text, all_ in zip(texts, entities, strict=True)
        ]
        table = with_text(table, self.text_field, taken)
        if self.entities_field is None:
            return table
        return with_text(table, self.entities_field, [json.dumps(all_, ensure_ascii=False) for all_ in entities])

    def _known(self, entities: Sequence[Any]) -> list[dict[str, str]]:
        """The entities found, of the requested kinds."""
        return [
            {"type": str(entity["type"]), "text": str(entity["text"])}
            for entity in entities
            if isinstance(entity, dict) and entity.get("type") in self.labels and str(entity.get("text") or "").strip()
        ]


def redacted(text: str, entities: Sequence[Mapping[str, str]], replacement: str) -> str:
    """Replace all occurrences of entities in a text; of overlapping ones the longest first.

    Examples:
        >>> names = [{"type": "name", "text": "Ann"}, {"type": "name", "text": "Ann Lee"}]
        >>> redacted("Ann met Ann Lee.", names, "<{label}>")
        '<name> met <name>.'
    """
    kinds = {entity["text"]: entity["type"] for entity in entities}
    if not kinds:
        return text
    longest_first = sorted(kinds, key=len, reverse=True)
    pattern = "|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in longest_first)
    return re.sub(pattern, lambda match: replacement.format(label=kinds[match.group()]), text)
