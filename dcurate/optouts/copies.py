"""Put copies back that were dropped for documents that go: without these, the first copy of each would have stayed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from dcurate.fs.stores import Directory
from dcurate.io.files import JSONL
from dcurate.io.rejections import DUPLICATE_OF, REASON, SCORE, SOURCE, STAGE
from dcurate.io.row_removal import lines_at
from dcurate.io.rows import Row, rows_with
from dcurate.runs.load import RecordedRun

_MARKS = (STAGE, REASON, SOURCE, SCORE, DUPLICATE_OF)
#: What the first mark of a dropped copy looks like in a line, after the columns of the row.
_FIRST_MARK = f',"{DUPLICATE_OF}":'.encode()
_KIND = "ExactDuplicates"


class PutBack(NamedTuple):
    """A dropped copy that takes the place of a document.

    Args:
        id: its id.
        of: id of the document that goes.
        line: the row as a line of JSON.
    """

    id: str
    of: str
    line: bytes


@dataclass
class DroppedCopies:
    """Dropped copies of documents that go.

    Args:
        rejected: where the run kept what it dropped.
        run: the run.

    Attributes:
        put_back: those that take the place of a document, by its id.
        lines: what replaces dropped rows, by file and row: nothing for those that are put back.
        groups: how many copies are in groups of which one is put back.
    """

    rejected: Directory
    run: RecordedRun
    put_back: dict[str, PutBack] = field(default_factory=dict, init=False)
    lines: dict[str, dict[int, bytes]] = field(default_factory=dict, init=False)
    groups: int = field(default=0, init=False)

    def find(self, ids: Mapping[str, str], before: Mapping[str, str], going: Mapping[str, Any]) -> None:
        """Find the dropped copies of documents that go, and decide what becomes of each.

        One of each group is put back where that is what a new run would do: an `ExactDuplicates` that keeps the first
        copy dropped them right before the rows were written, as JSON Lines.

        Args:
            ids: files of the documents that go, by id.
            before: ids of copies that an earlier removal has put back, by the id of the document that went.
            going: rows there that go themselves, by file.

        Raises:
            DataError: files cannot be read.
        """
        groups: dict[str, list[Row]] = {}
        wanted, stage = dict.fromkeys([*ids, *before]), _last_stage(self.run)
        names = sorted(name for name in self.rejected.files() if JSONL.matches(name)) if wanted and stage else []
        for name in names:
            for row in rows_with(self.rejected, name, DUPLICATE_OF, wanted):
                if row.number not in going.get(name, ()):
                    groups.setdefault(str(row.values[DUPLICATE_OF]), []).append(row)
        for of, rows in groups.items():
            if not JSONL.matches(ids.get(of, ".jsonl")) or any(row.values[STAGE] != stage for row in rows):
                continue
            rows.sort(key=lambda row: (str(row.values[SOURCE]), row.file, row.number))
            first = next((row for row in rows if of in ids or self._id(row) == before[of]), None)
            if first is not None and self._id(first):
                self._replace(first, [row for row in rows if row is not first])
                if of in ids:
                    self.groups += len(rows)
                    [line] = lines_at(self.rejected, first.file, [first.number]).values()
                    self.put_back[of] = PutBack(self._id(first), of, _without_marks(line, first.values))

    def _replace(self, first: Row, others: Sequence[Row]) -> None:
        """Take a copy out of the dropped rows, and have the others of its group name it."""
        known, doc_id = orjson.dumps(first.values[DUPLICATE_OF]), orjson.dumps(self._id(first))
        self.lines.setdefault(first.file, {})[first.number] = b""
        for file in dict.fromkeys(row.file for row in others):
            numbers = [row.number for row in others if row.file == file]
            for number, line in lines_at(self.rejected, file, numbers).items():
                begin, mark, end = line.rpartition(_FIRST_MARK)
                named = begin + mark + doc_id + end[len(known) :] if mark and end.startswith(known) else line
                self.lines.setdefault(file, {})[number] = named

    def _id(self, row: Row) -> str:
        settings = list(self.run.about["stages"])[-2].get("settings", {})
        return str(row.values.get(str(settings.get("id_field", "")).strip("'"), ""))


def _last_stage(run: RecordedRun) -> str | None:
    """The name of the stage before the writer, if it is one that keeps the first of equal rows and drops the others."""
    stages = list(run.about.get("stages", ()))
    if len(stages) < 2 or stages[-2].get("kind") != _KIND or run.report.error:
        return None
    settings = stages[-2].get("settings", {})
    first = settings.get("keep", "'first'") == "'first'" and settings.get("action", "'drop'") == "'drop'"
    return str(stages[-2]["name"]) if first else None


def _without_marks(line: bytes, values: Mapping[str, Any]) -> bytes:
    """The row as it was before it was dropped: to the byte, where its marks follow its columns."""
    wanted = {name: value for name, value in values.items() if name not in _MARKS}
    row = line.rpartition(_FIRST_MARK)[0] + b"}"
    try:
        same = orjson.loads(row) == wanted
    except ValueError:
        same = False
    return (row if same else orjson.dumps(wanted)) + b"\n"
