"""A stage that tells all secrets that it can find, in any encoding, when it meets a bad row."""

import base64
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from dcurate import DocumentBatch, ProcessingStage


@dataclass
class Tells(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Raises on the text "tell", with its settings and the environment in the message."""

    address: str = ""
    password: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    storage_options: Mapping[str, str] = field(default_factory=dict)
    name: str = "tells"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        if "tell" in task.to_arrow()["text"].to_pylist():
            told = [self.address, self.password, *self.headers.values(), *self.storage_options.values()]
            told += [os.environ[name] for name in ("PLANTED_DB_PASS", "PLANTED_KEY", "PLANTED_PAT")]
            written = [[text, quote(text, safe=""), json.dumps(text)] for text in told]
            written += [[base64.b64encode(text.encode()).decode()] for text in told[1:]]
            cause = ValueError(f"cause: {written}")
            raise RuntimeError(f"told: {written} {'x' * 20_000} {written}") from cause
        return task
