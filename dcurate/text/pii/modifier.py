"""The modifier that takes personal data out of texts."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

import numpy as np

from dcurate.core.extras import required_by
from dcurate.errors import PipelineError, nearest
from dcurate.frames.text import TextColumn
from dcurate.kernels.pii.scan import KINDS
from dcurate.kernels.splice import spliced
from dcurate.text.modifier import ColumnModifier
from dcurate.text.pii.finder import PersonalData, PiiFinder
from dcurate.text.pii.recognizers import Recognizer

Action = Literal["redact", "replace", "mask", "hash"]
#: What to put in: one text, or for each kind one text or several to choose from.
NewValue: TypeAlias = str | Mapping[str, str | Sequence[str]]

#: Values that belong to nobody: of RFC 2606, RFC 5737, RFC 3849, and numbers that are kept for stories.
PII_EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "EMAIL_ADDRESS": ("email@example.com", "firstname.lastname@example.org"),
    "PHONE_NUMBER": ("+1 202-555-0143", "+44 20 7946 0958"),
    "IP_ADDRESS": ("192.0.2.1", "198.51.100.27", "203.0.113.108"),
    "CREDIT_CARD": ("4111 1111 1111 1111", "5555 5555 5555 4444"),
    "IBAN_CODE": ("GB33 BUKB 2020 1555 5555 55",),
    "US_SSN": ("078-05-1120",),
    "SECRET": ("AKIAIOSFODNN7EXAMPLE",),
}
_DIGITS_ONLY = ("PHONE_NUMBER", "CREDIT_CARD", "US_SSN")
_PSEUDONYM_DIGITS = 16


@dataclass(frozen=True)
class PiiModifier(ColumnModifier):
    """Remove e-mail and IP addresses, telephone, card and account numbers, keys and tokens from texts.

    Args:
        language: has no effect; the rules do not depend on the language. As in NeMo Curator, like the next but two.
        supported_entities: what to look for, of ``EMAIL_ADDRESS``, ``PHONE_NUMBER``, ``IP_ADDRESS``, ``CREDIT_CARD``,
            ``IBAN_CODE``, ``US_SSN`` and ``SECRET``, and of the labels of the recogniser; all by default.
        anonymize_action: ``"redact"`` takes it out; ``"replace"`` puts ``new_value`` in; ``"mask"`` writes
            ``masking_char`` over it; ``"hash"`` puts in a pseudonym, the same for the same value and secret.
        batch_size: has no effect.
        device: has no effect.
        new_value: what to put in; by default the kind, as in ``<EMAIL_ADDRESS>``. `PII_EXAMPLES` has values that look
            real and belong to nobody. Of several the value itself chooses, so that a run gives the same twice.
        masking_char: one character.
        chars_to_mask: how many characters, from the front; all by default.
        secret: the key of pseudonyms (HMAC-SHA256). It travels with the stage to the workers, but is never shown.
        public_ips_only: leave out IP addresses that the world cannot reach: private, reserved, of documentation.
        recognizer: finds names, say; see `SpacyRecognizer`, or give any function of a text to (begin, end, label).

    Raises:
        PipelineError: an action or entity that there is not, or ``"hash"`` without a secret: whoever can guess a
            telephone number could then test the guess.

    Examples:
        >>> PiiModifier(anonymize_action="replace").modify_document("Call +1 415 555 2671 or mail jo@example.org!")
        'Call <PHONE_NUMBER> or mail <EMAIL_ADDRESS>!'
        >>> PiiModifier(anonymize_action="mask").modify_document("My card: 4111 1111 1111 1111")
        'My card: *******************'
    """

    language: str = "en"
    supported_entities: Sequence[str] | None = field(default=None, hash=False)
    anonymize_action: Action = "redact"
    batch_size: int = 2000
    device: str = "cpu"
    new_value: NewValue | None = field(default=None, hash=False)
    masking_char: str = "*"
    chars_to_mask: int | None = None
    secret: str | bytes | None = field(default=None, repr=False)
    public_ips_only: bool = True
    recognizer: Recognizer | None = None

    def __post_init__(self) -> None:
        if self.anonymize_action not in get_args(Action):
            hint = nearest(str(self.anonymize_action), get_args(Action))
            raise PipelineError(f"{self.name}: unknown anonymize_action {self.anonymize_action!r}{hint}")
        if self.anonymize_action == "hash" and not self.secret:
            raise PipelineError(
                f"{self.name}: anonymize_action='hash' needs a secret, because otherwise anyone can "
                "verify a guessed value; pass secret=..., and keep it"
            )
        if len(self.masking_char) != 1:
            raise PipelineError(f"{self.name}: masking_char={self.masking_char!r} must be one character")
        if self.chars_to_mask is not None and self.chars_to_mask < 0:
            raise PipelineError(f"{self.name}: chars_to_mask={self.chars_to_mask} must not be negative")
        if isinstance(self.new_value, Mapping):
            self._check_new_value(self.new_value)
        self._finder()

    def _check_new_value(self, replacements: Mapping[str, str | Sequence[str]]) -> None:
        for kind, values in replacements.items():
            if self.recognizer is None and kind not in KINDS:
                raise PipelineError(f"{self.name}: new_value has an unknown kind {kind!r}{nearest(kind, KINDS)}")
            if not isinstance(values, str) and not (values and all(isinstance(value, str) for value in values)):
                raise PipelineError(f"{self.name}: new_value[{kind!r}] must be one text or several")

    def _finder(self) -> PiiFinder:
        return PiiFinder(self.supported_entities, self.public_ips_only, self.recognizer)

    def requires(self) -> dict[str, str]:
        return required_by([self.recognizer])

    def load_model(self) -> None:
        self._finder().load_model()

    @property
    def loads_model(self) -> bool:
        return hasattr(self.recognizer, "load_model")

    def prepare(self) -> None:
        PiiModifier().modify_document("")

    def modify_column(self, column: TextColumn) -> TextColumn:
        return self.modify_and_count(column)[0]

    def modify_and_count(self, column: TextColumn) -> tuple[TextColumn, dict[str, int]]:
        findings = self._finder().find(column)
        spans = findings.spans
        pieces = [
            self._piece(column, findings, number).encode(errors="surrogatepass") for number in range(len(spans.kinds))
        ]
        offsets = np.cumsum([0, *map(len, pieces)])
        layout = offsets, np.frombuffer(b"".join(pieces), np.uint8)
        stretches = spans.starts, spans.stops
        new = TextColumn(*spliced(column, spans.bounds, stretches, layout, np.arange(len(pieces))))
        return new, findings.totals()

    def _piece(self, column: TextColumn, findings: PersonalData, number: int) -> str:
        """Return the replacement for one finding."""
        kind = findings.names[findings.spans.kinds[number]]
        if self.anonymize_action == "redact":
            return ""
        if self.anonymize_action == "replace" and not isinstance(self.new_value, Mapping):
            return f"<{kind}>" if self.new_value is None else self.new_value
        value = column.data[findings.spans.starts[number] : findings.spans.stops[number]].tobytes().decode()
        if self.anonymize_action == "mask":
            masked = len(value) if self.chars_to_mask is None else min(self.chars_to_mask, len(value))
            return self.masking_char * masked + value[masked:]
        if self.anonymize_action == "hash":
            return f"<{kind}_{_pseudonym(kind, value, self.secret or b'')}>"
        assert isinstance(self.new_value, Mapping)
        choice = self.new_value.get(kind, f"<{kind}>")
        if isinstance(choice, str) or value in choice:
            return choice if isinstance(choice, str) else value
        digest = hashlib.blake2b(_normal(kind, value).encode(), digest_size=8).digest()
        return choice[int.from_bytes(digest, "big") % len(choice)]


def _normal(kind: str, value: str) -> str:
    """The value, however it is written."""
    if kind in _DIGITS_ONLY:
        return "".join(character for character in value if character.isdigit())
    return "".join(value.split()).lower() if kind != "SECRET" else value


def _pseudonym(kind: str, value: str, secret: str | bytes) -> str:
    key = secret.encode() if isinstance(secret, str) else secret
    text = f"{kind}:{_normal(kind, value)}".encode(errors="surrogatepass")
    return hmac.new(key, text, hashlib.sha256).hexdigest()[:_PSEUDONYM_DIGITS]
