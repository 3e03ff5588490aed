"""`SideTexts` and `ParseSegments`: texts from beside recordings, and what of them has times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from dcurate.audio.layouts.subtitles import FORMATS
from dcurate.core.stage import ProcessingStage, Spec
from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames.columns import values
from dcurate.frames.document import DocumentBatch
from dcurate.io.files import is_names
from dcurate.isolate.errors import MediaFault
from dcurate.media.beside import beside, texts_of_refs
from dcurate.media.cues import TextSegment
from dcurate.media.faults import quarantined
from dcurate.media.refs import REF, refs_of
from dcurate.media.stage import with_columns

#: The type of a column of segments.
SEGMENTS = pa.list_(
    pa.struct([("start", pa.float64()), ("end", pa.float64()), ("text", pa.string()), ("speaker", pa.string())])
)
_FIELDS = ("start", "end", "text", "speaker")


@dataclass
class SideTexts(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Add the texts that lie beside recordings, under the same name with another ending, as columns.

    Beside ``talk.wav`` they are ``talk.txt`` and the like; in an archive they are other members of the same sample. A
    recording without one has null. Texts are UTF-8, or UTF-16 if their first bytes say so; other bytes become U+FFFD.
    `ParseSegments` makes segments of those with times. `WebDatasetReader` reads the texts of its samples itself.

    Args:
        suffixes: the endings, without a dot; each, in lower case, is the name of a column.
        storage_options: for fsspec.
        name: name of the stage.

    Raises:
        PipelineError: no endings.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from dcurate.media.refs import Ref, ref_array
        >>> folder = tempfile.TemporaryDirectory()
        >>> _ = Path(folder.name, "a.txt").write_text("hello")
        >>> rows = pa.table({"media_ref": ref_array([Ref(f"{folder.name}/a.wav"), Ref(f"{folder.name}/b.wav")])})
        >>> SideTexts(["txt"]).process(DocumentBatch(data=rows)).to_arrow()["txt"].to_pylist()
        ['hello', None]
        >>> folder.cleanup()
    """

    suffixes: Sequence[str] = ("txt",)
    storage_options: Mapping[str, Any] | None = None
    name: str = "side_texts"

    def __post_init__(self) -> None:
        if not is_names(self.suffixes) or any(suffix.startswith(".") for suffix in self.suffixes):
            raise PipelineError(
                f"{self.name}: suffixes={self.suffixes!r} must be endings without a dot, such as ['txt']"
            )

    def inputs(self) -> Spec:
        return ["data"], [REF]

    def outputs(self) -> Spec:
        return ["data"], [suffix.lower() for suffix in self.suffixes]

    def settings(self) -> dict[str, Any]:
        """Return the settings that decide the rows."""
        return {name: value for name, value in super().settings().items() if name != "storage_options"}

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """The rows with the columns.

        Raises:
            DataError: rows refer to no files, or a store does not answer.
        """
        rows = task.to_arrow()
        if REF not in rows.column_names:
            raise DataError(f"{self.name}: rows have no column {REF!r}; read recordings with MediaReader")
        refs = refs_of(rows)
        unread = Counter[str]()
        columns: dict[str, pa.Array] = {}
        for suffix in self.suffixes:
            wanted = [None if ref is None else beside(ref, suffix) for ref in refs]
            column = texts_of_refs(wanted, self.storage_options)
            unread.update(
                f"texts beside recordings were not read ({answer.reason})"
                for answer in column
                if isinstance(answer, MediaFault) and answer.reason != "missing"
            )
            texts = [answer if isinstance(answer, str) else None for answer in column]
            columns[suffix.lower()] = pa.array(texts, pa.string())
        return replace(task.with_data(with_columns(rows, pa.table(columns))), found=dict(unread))

    def remarks(self, found: Mapping[str, int]) -> list[str]:
        """Return sentences about texts that were not read."""
        own = [f"{count:,} {kind}" for kind, count in found.items() if kind.startswith("texts beside")]
        return [*super().remarks({kind: count for kind, count in found.items() if kind.startswith("replaced ")}), *own]


@dataclass
class ParseSegments(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Make a list of segments ``{start, end, text, speaker}`` of a text with times, which `SegmentRows` takes.

    Times are in seconds; ``text`` and ``speaker`` are null where the text does not say. Formats: ``"srt"``; ``"vtt"``,
    with the speaker of ``<v NAME>``; ``"ass"`` and ``"ssa"``, with that of the field ``Name``; ``"rttm"``, turns
    without texts; ``"textgrid"`` of Praat, long or short, with the tier's name as the speaker, without empty intervals;
    ``"json"``, a list of objects with ``start`` and ``end``, ``stop`` or ``duration``, or an object with such a list as
    ``segments``. Segments are in the order of the text, and may overlap. A row goes to quarantine whose text is not of
    the format (``bad srt``), or has a segment that begins before 0, ends before it begins, or has a time that is none.
    Null stays null.

    Args:
        text_field: column with the text.
        text_format: its format; the name of the column if None.
        segments_field: column that the segments go to.
        name: name of the stage.

    Raises:
        PipelineError: the format is not known.

    Examples:
        >>> rows = pa.table({"rttm": ["SPEAKER a 1 1.5 0.5 <NA> <NA> ann <NA> <NA>", "SPEAKER a"]})
        >>> made = ParseSegments("rttm").process(DocumentBatch(data=rows))
        >>> made.to_arrow()["segments"].to_pylist(), made.rejections[0].reason
        ([[{'start': 1.5, 'end': 2.0, 'text': None, 'speaker': 'ann'}]], 'bad rttm')
    """

    text_field: str = "srt"
    text_format: str | None = None
    segments_field: str = "segments"
    name: str = "parse_segments"

    def __post_init__(self) -> None:
        if self._format not in FORMATS:
            formats = f"{listed(FORMATS)}; say what {self.text_field!r} holds"
            raise PipelineError(f"{self.name}: text_format={self._format!r} is not one of {formats}")

    @property
    def _format(self) -> str:
        return str(self.text_field if self.text_format is None else self.text_format).lower()

    def inputs(self) -> Spec:
        return ["data"], [self.text_field]

    def outputs(self) -> Spec:
        return ["data"], [self.segments_field]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """The rows with the column; those whose text is not of the format go to quarantine."""
        rows = task.to_arrow()
        found = [self._parsed(text) for text in values(rows, self.text_field)]
        made = [
            None
            if answer is None or isinstance(answer, MediaFault)
            else [dict(zip(_FIELDS, segment, strict=True)) for segment in answer]
            for answer in found
        ]
        added = with_columns(rows, pa.table({self.segments_field: pa.array(made, SEGMENTS)}))
        return quarantined(task.with_data(added), found, self.name)

    def _parsed(self, text: str | None) -> list[TextSegment] | MediaFault | None:
        if text is None:
            return None
        try:
            return FORMATS[self._format](text)
        except ValueError as error:
            return MediaFault(f"bad {self._format}", str(error))
