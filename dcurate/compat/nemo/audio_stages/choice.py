"""Which of two transcripts to believe, with NeMo Curator's name and arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dcurate.audio.selection import word_error_rates
from dcurate.compat.nemo.audio_stages.rows import AudioStage, AudioTask, note
from dcurate.compat.nemo.stages import Resources, Spec

#: Cells of the matrix of edits of two texts, as in `ErrorRates`.
_MAX_CELLS = 100_000_000


@dataclass
class SelectBestPredictionStage(AudioStage):
    """Choose between two transcripts and a reference.

    The rules are those of `dcurate.audio.SelectTranscript`, on marks and remarks of earlier stages in the row.

    Args:
        primary_text_key, fallback_text_key, reference_text_key: keys of the texts; no reference if None.
        asr_text_key: in place of `fallback_text_key`, if given.
        output_key, source_key: keys of the text that is chosen, and of where it is from.
        notes_key, skip_me_key, duration_key: keys of remarks, of the mark, and of seconds.
        min_agreement_pct: 100 less the word error rate in percent, from which on two texts that look made up agree.
        agreement_wer_key: the key of that rate.
        primary_source_label, fallback_source_label, reference_source_label, ground_truth_source_label: what
            `source_key` says.
        use_reference_on_hallucination: whether the reference is taken where the primary text looks made up.
        force_reference: whether it is taken always.
        use_ground_truth_for_short_audio, short_audio_threshold, primary_model_type: whether it is taken below so many
            seconds, if the model is ``qwen_omni``.
    """

    primary_text_key: str = "primary_model_prediction"
    fallback_text_key: str = "fallback_model_prediction"
    asr_text_key: str | None = None
    output_key: str = "best_prediction"
    source_key: str = "best_prediction_source"
    notes_key: str = "additional_notes"
    skip_me_key: str = "_skipme"
    duration_key: str = "duration"
    min_agreement_pct: float = 80.0
    agreement_wer_key: str = "primary_fallback_agreement_wer"
    primary_source_label: str = "primary"
    fallback_source_label: str = "fallback"
    reference_text_key: str | None = None
    use_reference_on_hallucination: bool = False
    force_reference: bool = False
    use_ground_truth_for_short_audio: bool = True
    short_audio_threshold: float = 1.0
    primary_model_type: str | None = None
    reference_source_label: str = "reference"
    ground_truth_source_label: str = "ground_truth"
    name: str = "SelectBestPrediction"
    resources: Resources = field(default_factory=Resources)

    def inputs(self) -> Spec:
        return [], [key for key in (self.primary_text_key, self.reference_text_key) if key]

    def outputs(self) -> Spec:
        return [], [self.output_key, self.source_key, self.skip_me_key, self.agreement_wer_key, self.notes_key]

    def process(self, task: AudioTask) -> AudioTask:
        """Add the text that is chosen; remove the mark where that repairs the row."""
        row = task.data
        row.pop(self.agreement_wer_key, None)
        text, source, remark, mark = self._choice(row)
        row[self.output_key], row[self.source_key] = text, source
        if mark is not None:
            row[self.skip_me_key] = mark
        note(row, self.notes_key, self.name, remark)
        return task

    def _choice(self, row: dict[str, Any]) -> tuple[str, str, str, str | None]:
        """The text, where it is from, a remark, and the new mark if it changes."""
        fallback_key = self.asr_text_key or self.fallback_text_key
        primary, fallback, mark = (
            str(row.get(key) or "") for key in (self.primary_text_key, fallback_key, self.skip_me_key)
        )
        reference = str(row.get(self.reference_text_key) or "").strip() if self.reference_text_key else ""
        held = row.get(self.notes_key)
        notes = held if isinstance(held, dict) else {}
        truth, second = self.ground_truth_source_label, self.fallback_source_label
        unknown = ["lang_not_supported" in str(notes.get(key, "")) for key in (self.primary_text_key, fallback_key)]
        if reference and (seconds := self._short(row)) is not None:
            limit = self.short_audio_threshold
            return reference, truth, f"Ground Truth (short audio {seconds:.2f}s < {limit}s)", ""
        if self.force_reference and self.reference_text_key:
            return reference, truth, "forced:ground_truth", ""
        if unknown[0] and not fallback and reference:
            return reference, truth, "Ground Truth", ""
        if all(unknown):
            return "", "none", "skipped:both_models_lang_not_supported", "not_supported"
        if unknown[0] and fallback:
            return fallback, second, f"used {second} (primary lang unsupported)", ""
        if fallback and any("recovered" in str(value).lower() for value in notes.values()):
            return fallback, second, f"used {second}", None
        return self._of_made_up(row, primary, fallback, reference if mark.startswith("Hallucination") else None)

    def _of_made_up(
        self, row: dict[str, Any], primary: str, fallback: str, reference: str | None
    ) -> tuple[str, str, str, str | None]:
        """The choice where only the primary text can be taken, or one in its place if it looks made up.

        Args:
            row: row of the manifest.
            primary: first transcript.
            fallback: second transcript.
            reference: text that came with the recording; None if the primary text does not look made up.
        """
        first, key = self.primary_source_label, self.reference_text_key
        if reference and self.use_reference_on_hallucination:
            remark = f"recovered:reference_text (hallucination_detected, fallback={key})"
            return reference, self.reference_source_label, remark, ""
        if reference is not None and primary and fallback:
            [rate] = word_error_rates([(primary, fallback)], _MAX_CELLS)
            wer = row[self.agreement_wer_key] = 100.0 if rate is None else round(100.0 * rate, 2)
            if wer <= 100.0 - self.min_agreement_pct:
                return primary, first, f"recovered:cross_model_agreement (wer={wer:.1f}%)", ""
        return primary, first, f"used {first}", None

    def _short(self, row: Mapping[str, Any]) -> float | None:
        """The seconds of a recording that is too short for its recogniser, or None."""
        if not self.use_ground_truth_for_short_audio or self.primary_model_type != "qwen_omni":
            return None
        try:
            seconds = float(row.get(self.duration_key))  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return None
        return seconds if 0.0 < seconds < self.short_audio_threshold else None
