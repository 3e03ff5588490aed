"""`SpeechRates`: how fast a recording would say its transcript."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dcurate.audio.transcripts import durations_of, speech_rates, texts_of
from dcurate.core.stage import ProcessingStage, Spec
from dcurate.frames.document import DocumentBatch


@dataclass
class SpeechRates(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Add characters and words a second of transcripts: a text of another recording mostly has an impossible rate.

    The columns are those of `ErrorRates`: ``char_rate`` (without spaces) and ``word_rate`` of the transcript as it is;
    0 where the duration is not above 0, null where it or the text is null. Limit them with `NumberRangeFilter`: NeMo
    Curator's documentation keeps 8 to 30 characters and 1.5 to 5 words a second. A language written without spaces, or
    in characters that are syllables or words, has other rates.

    Args:
        text_field: the column of transcripts.
        duration_field: the column of durations, in seconds, such as ``audio_decoded_s`` of `AudioSignals`.
        prefix: comes before the name of every column.
        name: name of the stage.

    Raises:
        DataError: a column does not hold text, or durations are not numbers.

    Examples:
        >>> import pyarrow as pa
        >>> rows = pa.table({"text": ["good day to you", "good day to you"], "duration": [1.0, 60.0]})
        >>> SpeechRates().process(DocumentBatch(data=rows)).to_arrow()["char_rate"].to_pylist()
        [12.0, 0.2]
    """

    text_field: str = "text"
    duration_field: str = "duration"
    prefix: str = ""
    name: str = "speech_rates"

    uses_only_named_columns: ClassVar[bool] = True

    def inputs(self) -> Spec:
        return ["data"], [self.text_field, self.duration_field]

    def outputs(self) -> Spec:
        return ["data"], [f"{self.prefix}char_rate", f"{self.prefix}word_rate"]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = DocumentBatch.given(task).to_arrow()
        self.check_columns(table.column_names)
        rates = speech_rates(texts_of(table, self.text_field), durations_of(table, self.duration_field))
        for name, column in rates.items():
            table = table.append_column(self.prefix + name, column)
        return task.with_data(table)
