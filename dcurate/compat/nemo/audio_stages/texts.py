"""Stages for transcripts of recordings, with NeMo Curator's names and arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from dcurate.audio.hallucinations import Hallucinations
from dcurate.audio.modifiers import RegexSubstituter, join_spelled
from dcurate.audio.transcripts import ErrorRates
from dcurate.compat.nemo.audio_stages.rows import AudioStage, AudioTask, new_values, note
from dcurate.compat.nemo.stages import Resources, Spec
from dcurate.errors import DataError


@dataclass
class WhisperHallucinationStage(AudioStage):
    """Mark transcripts that look made up by their recogniser, by the rules of `dcurate.audio.Hallucinations`.

    Args:
        common_hall_file: a file of phrases that are known to be made up, a line each.
        unique_words_threshold: different words by words up to which a text is repeated.
        long_word_threshold, agglutinative_long_word_threshold: characters of a long word.
        long_word_rel_threshold: how much longer than the second longest a word is long, by that one's length.
        max_char_rate: characters of words per second.
        language_key, duration_key, text_key: keys of what is read.
        skip_me_key: the key of the mark.
        notes_key: the key of remarks.
        overwrite: whether marked rows are judged again, and unmarked if they pass.
        recovery_value: the remark for those.
    """

    common_hall_file: str
    unique_words_threshold: float = 0.4
    long_word_threshold: int = 25
    agglutinative_long_word_threshold: int = 35
    long_word_rel_threshold: float = 3.0
    max_char_rate: float = 40.0
    language_key: str = "language"
    duration_key: str = "duration"
    text_key: str = "pred_text"
    skip_me_key: str = "_skipme"
    notes_key: str = "additional_notes"
    overwrite: bool = False
    recovery_value: str = ""
    name: str = "WhisperHallucination"
    resources: Resources = field(default_factory=Resources)

    def setup(self, worker_metadata: Any = None) -> None:
        """Read the phrases."""
        lines = Path(self.common_hall_file).read_text("utf-8").splitlines()
        self._rules = Hallucinations(
            [line for line in lines if line.strip()],
            text_field="text",
            language_field="language",
            max_repeated_ratio=self.unique_words_threshold,
            min_long_word_chars=self.long_word_threshold,
            min_long_compound_chars=self.agglutinative_long_word_threshold,
            min_longer_ratio=self.long_word_rel_threshold,
            max_char_rate=self.max_char_rate,
        )

    def inputs(self) -> Spec:
        return [], [self.text_key, self.skip_me_key, self.duration_key]

    def outputs(self) -> Spec:
        return [], [self.skip_me_key, self.notes_key]

    def process(self, task: AudioTask) -> AudioTask:
        """Mark the row, and say in a remark why."""
        row, mark = task.data, str(task.data.get(self.skip_me_key, ""))
        text, was_made_up = row[self.text_key], mark.startswith("Hallucination")
        if mark and not self.overwrite:
            remark = "skipped (flagged)"
        elif not isinstance(text, str) or not text.strip():
            remark = "skipped (empty text)"
        elif reasons := self._reasons(row, text):
            if was_made_up or not mark:
                row[self.skip_me_key] = f"Hallucination:{self.name}"
            remark = f"hallucination ({', '.join(reasons)})"
        elif self.overwrite and was_made_up:
            row[self.skip_me_key] = ""
            remark = self.recovery_value.lower() or "recovered"
        else:
            remark = "passed"
        note(row, self.notes_key, self.name, remark)
        return task

    def _reasons(self, row: Mapping[str, Any], text: str) -> list[str]:
        language = str(row.get(self.language_key, "")).lower().strip()
        values = {"text": text, "duration": row.get(self.duration_key) or 0.0, "language": language}
        found = new_values(self._rules, values, {"text": str, "duration": float, "language": str})
        return [reason for reason in (found[self._rules.hallucination_field] or "").split(", ") if reason]


@dataclass
class RegexSubstitutionStage(AudioStage):
    """Replace what matches regular expressions in a transcript, by `dcurate.audio.RegexSubstituter`.

    Args:
        regex_params_yaml: a file with a list of rules, each with ``pattern``, ``repl`` and maybe ``count``.
        text_key: the key of the transcript.
        output_text_key: the key of the new text.
        skip_me_key: the key of a mark; marked rows are left alone, and those of which nothing is left are marked.

    Raises:
        ValueError: no file is named, or from `setup` a rule is incomplete.
        TypeError: from `setup`: the file does not hold rules.
    """

    regex_params_yaml: str = ""
    text_key: str = "pred_text"
    output_text_key: str = "text"
    skip_me_key: str = "_skipme"
    name: str = "RegexSubstitution"
    resources: Resources = field(default_factory=Resources)

    def __post_init__(self) -> None:
        if not self.regex_params_yaml:
            raise ValueError("regex_params_yaml is required for RegexSubstitutionStage")

    def setup(self, worker_metadata: Any = None) -> None:
        """Read the rules."""
        rules = yaml.safe_load(Path(self.regex_params_yaml).read_text("utf-8"))
        if not isinstance(rules, list):
            raise TypeError("Regex substitution YAML must contain a list of rules")
        for number, rule in enumerate(rules):
            _check_rule(number, rule)
        names = ("pattern", "repl", "count")
        self._modifier = RegexSubstituter([{name: rule[name] for name in names if name in rule} for rule in rules])

    def inputs(self) -> Spec:
        return [], [self.text_key]

    def outputs(self) -> Spec:
        return [], [self.output_text_key, self.skip_me_key]

    def process(self, task: AudioTask) -> AudioTask:
        """Add the new text."""
        row, text = task.data, task.data.get(self.text_key, "")
        if row.get(self.skip_me_key, "") or not isinstance(text, str):
            row.setdefault(self.output_text_key, "")
            return task
        row[self.output_text_key] = self._modifier.modify_document(text)
        if text.strip() and not row[self.output_text_key]:
            row[self.skip_me_key] = "Empty after regex cleaning"
        return task


def _check_rule(number: int, rule: Any) -> None:
    if not isinstance(rule, dict):
        raise TypeError(f"Regex rule {number} must be a mapping")
    if "pattern" not in rule or "repl" not in rule:
        raise ValueError(f"Regex rule {number} must define pattern and repl")
    for name in ("pattern", "repl"):
        if not isinstance(rule[name], str):
            raise TypeError(f"Regex rule {number} {name} must be a string")
    count = rule.get("count", 0)
    if isinstance(count, bool) or not isinstance(count, int):
        raise TypeError(f"Regex rule {number} count must be an integer")
    if count < 0:
        raise ValueError(f"Regex rule {number} count must be non-negative")
    re.compile(rule["pattern"])


def concat_abbreviations(text: str, language: str = "en") -> tuple[str, list[str]]:
    """Return a text with spelled letters joined, and the abbreviations that this makes, without the s of a plural.

    Examples:
        >>> concat_abbreviations("the P Cs of N A S A")
        ('the PCs of NASA', ['PC', 'NASA'])
    """
    result, changes = join_spelled(text, language)
    return result, [word for word in (_singular(*change) for change in changes) if word]


def _singular(spelled: str, joined: str) -> str:
    """An abbreviation without the s of its plural."""
    last = spelled.rpartition(" ")[2]
    if len(last) == 2 and last[0].islower() and last[1] == "s":
        return joined.strip().removesuffix(last).rstrip()
    return joined.strip() if (spelled, joined) == ("A P Is", "APIs") else joined.strip().rstrip("’s")


@dataclass
class AbbreviationConcatStage(AudioStage):
    """Join letters that a recogniser spelled as one abbreviation, by `dcurate.audio.AbbreviationJoiner`.

    Args:
        text_key: the key of the text.
        output_text_key: the key of the new text.
        skip_me_key: the key of a mark; marked rows are left alone.
        notes_key: the key of remarks.
        source_lang_key: the key of the language.
        default_language: the language of rows without one.
    """

    text_key: str = "text"
    output_text_key: str = "text"
    skip_me_key: str = "_skipme"
    notes_key: str = "additional_notes"
    source_lang_key: str = "source_lang"
    default_language: str = "en"
    name: str = "AbbreviationConcat"
    resources: Resources = field(default_factory=Resources)

    def inputs(self) -> Spec:
        return [], [self.text_key]

    def outputs(self) -> Spec:
        return [], [self.output_text_key, self.notes_key]

    def process(self, task: AudioTask) -> AudioTask:
        """Add the new text, and a remark with what is joined."""
        row, text = task.data, task.data.get(self.text_key, "")
        if row.get(self.skip_me_key, "") or not isinstance(text, str) or not text.strip():
            unmarked = "" if row.get(self.skip_me_key, "") or not isinstance(text, str) else text
            row.setdefault(self.output_text_key, unmarked)
            return task
        language = str(row.get(self.source_lang_key) or self.default_language).strip().lower()
        row[self.output_text_key], found = concat_abbreviations(text, language)
        if found:
            changes = ", ".join(f"{' '.join(word)} -> {word}" for word in found)
            note(row, self.notes_key, self.name, f"applied ({changes})")
        return task


@dataclass
class GetPairwiseWerStage(AudioStage):
    """Add the word error rate of a transcript in percent, by `dcurate.audio.ErrorRates`.

    Args:
        text_key: the key of the text that counts as right.
        pred_text_key: the key of the transcript.
        wer_key: the new key.
    """

    name: str = "GetPairwiseWerStage"
    text_key: str = "text"
    pred_text_key: str = "pred_text"
    wer_key: str = "wer_pct"

    def inputs(self) -> Spec:
        return [], [self.text_key, self.pred_text_key]

    def outputs(self) -> Spec:
        return [], [self.text_key, self.pred_text_key, self.wer_key]

    def process(self, task: AudioTask) -> AudioTask:
        """Add the rate, unless a text is missing."""
        texts = {"text": task.data.get(self.text_key), "pred_text": task.data.get(self.pred_text_key)}
        if None in texts.values():
            return task
        found = new_values(ErrorRates(clean=False), texts, {"text": str, "pred_text": str})
        if found["error_reason"] == "empty reference":  # as NeMo counts
            found["wer"] = float("inf")
        if found["wer"] is None:
            raise DataError(f"{self.name}: a pair of texts has no word error rate: {found['error_reason']}")
        task.data[self.wer_key] = round(found["wer"] * 100.0, 4)
        return task


@dataclass
class ComputeWERStage(AudioStage):
    """Add word and character error rates to each segment, or to the row, by `dcurate.audio.ErrorRates`.

    Numbers stay as they are: NeMo Curator writes them as words, by a package that is not needed here.

    Args:
        language: taken, and without effect.
        hypothesis_text_key: the key of the transcript.
        reference_text_key: the key of the text that counts as right.
        num_words_threshold, num_words_look_back: taken, and without effect.
        compute_pnc_wer: whether rates with punctuation and case are added.
        pnc_chars: taken, and without effect.
        edge_length: characters that ``start_cer`` and ``end_cer`` look at.
        segments_key: the key of the segments.

    Raises:
        ValueError: `num_words_look_back` is not below `num_words_threshold`.
    """

    language: str = "en"
    hypothesis_text_key: str = "text"
    reference_text_key: str = "text_ref"
    num_words_threshold: int = 200
    num_words_look_back: int = 5
    compute_pnc_wer: bool = False
    pnc_chars: str = "،؟.、？¿!,?।"
    edge_length: int = 12
    segments_key: str = "segments"
    name: str = "ComputeWER"

    def __post_init__(self) -> None:
        if self.num_words_look_back >= self.num_words_threshold:
            raise ValueError(
                f"num_words_look_back ({self.num_words_look_back}) must be less than "
                f"num_words_threshold ({self.num_words_threshold})"
            )

    def outputs(self) -> Spec:
        return [], ["metrics"]

    def validate_input(self, task: AudioTask) -> bool:
        """Whether the row has segments, or both texts."""
        texts = {self.hypothesis_text_key, self.reference_text_key}
        return self.segments_key in task.data or texts <= task.data.keys()

    def process(self, task: AudioTask) -> AudioTask:
        """Add the rates as ``metrics``."""
        for segment in task.data.get(self.segments_key, [task.data]):
            self.get_wer(segment)
        return task

    def get_wer(self, audio_segment: dict[str, Any]) -> None:
        """Add the rates to a segment that has both texts."""
        if not {self.hypothesis_text_key, self.reference_text_key} <= audio_segment.keys():
            return
        metrics = audio_segment.setdefault("metrics", {})
        start, end = audio_segment.get("start", 0), audio_segment.get("end", audio_segment.get("duration", 0))
        rates = ErrorRates(duration_field="duration", pnc=self.compute_pnc_wer, edge_chars=self.edge_length)
        texts = {"text": audio_segment[self.reference_text_key], "pred_text": audio_segment[self.hypothesis_text_key]}
        types = {"text": str, "pred_text": str, "duration": float}
        found = new_values(rates, {**texts, "duration": end - start}, types)
        if found["error_reason"] is not None:
            reason = found["error_reason"].replace(" ", "_")
            metrics.update({"wer": None, "cer": None, "metric_skip_reason": reason})
            return
        metrics.update({name: round(found[name], 2) for name in ("char_rate", "word_rate")})
        kinds = {"wer": "wer", "cer": "cer", "start_cer": "cer", "end_cer": "cer"}
        kinds |= {"pnc_wer": "wer", "pnc_cer": "cer"} if self.compute_pnc_wer else {}
        for kind, unit in kinds.items():
            parts = {name: round(found[f"{kind}_{name}"], 4) for name in ("ins_rate", "del_rate", "sub_rate")}
            key = f"{unit}_pnc" if kind.startswith("pnc") else kind
            metrics[key] = {unit: round(found[kind], 4), "tokens": found[f"{kind}_tokens"], **parts}
