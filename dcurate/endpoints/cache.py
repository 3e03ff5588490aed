"""A disk cache of paid answers."""

from __future__ import annotations

import base64
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from dcurate.endpoints.config import Answer
from dcurate.errors import DataError, PipelineError

_FILE = "answers.sqlite"
_TABLES = """
CREATE TABLE IF NOT EXISTS answers (key BLOB PRIMARY KEY, answer BLOB NOT NULL, written REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_age ON answers (written);
CREATE TABLE IF NOT EXISTS spent (model TEXT PRIMARY KEY, prompt_tokens INTEGER, completion_tokens INTEGER);
"""
_SPEND = """
INSERT INTO spent VALUES (?, ?, ?) ON CONFLICT (model) DO UPDATE SET
prompt_tokens = prompt_tokens + excluded.prompt_tokens,
completion_tokens = completion_tokens + excluded.completion_tokens
"""
#: Number of answers between two checks of the size.
_LOOK_EVERY = 256
#: When it is too large, it is made smaller by this share.
_FREED = 0.1
_LOCKED_S = 60.0


@dataclass(frozen=True)
class AnswerCache:
    """A folder that caches answers, so that a resumed or repeated run does not pay for them again.

    An answer is found by model, messages and settings. All processes of a machine may share a folder; give each machine
    one on a disk of its own, since SQLite's locks do not hold on network drives.

    Args:
        folder: made if it is not there.
        max_bytes: total size of the answers; when there are more, the oldest are forgotten.

    Raises:
        PipelineError: ``max_bytes`` is not above zero.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with AnswerCache(folder).open() as answers:
        ...         answers.put(b"question", Answer(("42",), prompt_tokens=3, completion_tokens=1))
        ...         answers.get(b"question").texts
        ('42',)
    """

    folder: str
    max_bytes: int = 10 * 2**30

    def __post_init__(self) -> None:
        if self.max_bytes < 1:
            raise PipelineError(f"AnswerCache: max_bytes={self.max_bytes} must be above zero")

    def open(self) -> Answers:
        """Open the cache on this machine.

        Raises:
            DataError: the folder cannot be written.
        """
        return Answers(Path(self.folder), self.max_bytes)


class Answers:
    """An open cache; for one thread at a time."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = sqlite3.connect(
                folder / _FILE, timeout=_LOCKED_S, isolation_level=None, check_same_thread=False
            )
            self._file.execute("PRAGMA journal_mode=WAL")
            # What a process has written outlives it; only a machine that loses power may lose the last answers.
            self._file.execute("PRAGMA synchronous=NORMAL")
            self._file.executescript(_TABLES)
        except (OSError, sqlite3.Error) as error:
            raise DataError(
                f"answers cannot be stored in {str(folder)!r}: {error}; name a folder on a local disk"
            ) from error
        self.folder = str(folder)
        self._max_bytes = max_bytes
        self._written = 0

    def get(self, key: bytes) -> Answer | None:
        """The cached answer to a request, if any."""
        row = self._did("SELECT answer FROM answers WHERE key = ?", key)
        if row is None:
            return None
        texts, prompt, completion, vectors = orjson.loads(row[0])
        numbers = tuple(map(base64.b85decode, vectors))
        return Answer(tuple(texts), prompt, completion, requests=0, cached=True, vectors=numbers)

    def put(self, key: bytes, answer: Answer, model: str = "") -> None:
        """Store an answer and what it took; both are visible to the next process as soon as this returns.

        Args:
            key: key of the request.
            answer: the answer.
            model: the model that gave it.
        """
        vectors = [base64.b85encode(vector).decode() for vector in answer.vectors]
        content = orjson.dumps([answer.texts, answer.prompt_tokens, answer.completion_tokens, vectors])
        self._did("BEGIN IMMEDIATE")
        try:
            self._did("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", key, content, time.time())
            self._did(_SPEND, model, answer.prompt_tokens, answer.completion_tokens)
            self._did("COMMIT")
        except DataError:
            if self._file.in_transaction:
                self._did("ROLLBACK")
            raise
        self._written += 1
        if self._written % _LOOK_EVERY == 0:
            self.forget_oldest()

    def spent(self) -> dict[str, tuple[int, int]]:
        """Return the tokens of prompts and of answers that each model took, also for answers that were forgotten."""
        rows = self._rows("SELECT model, prompt_tokens, completion_tokens FROM spent ORDER BY model")
        return {model: (prompt, completion) for model, prompt, completion in rows}

    def forget_oldest(self) -> None:
        """Evict the oldest answers, if there are too many bytes of them."""
        count, size = self._did("SELECT count(*), total(length(answer)) FROM answers")
        if size <= self._max_bytes:
            return
        unwanted = int(count * min(1.0, 1 - self._max_bytes / size + _FREED))
        oldest = "SELECT key FROM answers ORDER BY written LIMIT ?"
        self._did(f"DELETE FROM answers WHERE key IN ({oldest})", unwanted)

    def _did(self, statement: str, *values: Any) -> Any:
        """Execute a statement; returns the first row of its result."""
        return next(iter(self._rows(statement, *values)), None)

    def _rows(self, statement: str, *values: Any) -> list[Any]:
        """Execute a statement; returns the rows of its result."""
        try:
            return self._file.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise DataError(
                f"answers cannot be stored in {self.folder!r}: {error}; free space there, or name another folder"
            ) from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Answers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
