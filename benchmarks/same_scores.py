"""All filters and modifiers but those of fastText against NeMo Curator's own code: the same scores, and how fast.

    python -m benchmarks.same_scores --input SOURCES --prose FILE.jsonl.zst --nemo CHECKOUT --peer-python PATH

SOURCES is any folder with source files; PATH is a Python that has what `benchmarks/peers/score_nemo.py` names.
Every rule scores the same texts in both, in one process each, and the scores are compared for equality. MB are 10**6
bytes of UTF-8 text, seconds are CPU-seconds of the process, kernels compiled.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import sentencepiece
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

from benchmarks.measure import ROOT, machine, save, table, versions
from benchmarks.signals import texts as prose_of
from dcurate.frames.text import text_column
from dcurate.text import (
    AlphaFilter,
    BoilerPlateStringFilter,
    BoilerPlateStringModifier,
    BulletsFilter,
    CommonEnglishWordsFilter,
    DocumentFilter,
    DocumentModifier,
    EllipsisFilter,
    FastTextLabelModifier,
    GeneralCommentToCodeFilter,
    HistogramFilter,
    HTMLBoilerplateFilter,
    LineRemover,
    LongWordFilter,
    MarkdownRemover,
    MeanWordLengthFilter,
    NewlineNormalizer,
    NonAlphaNumericFilter,
    NumberOfLinesOfCodeFilter,
    NumbersFilter,
    ParenthesesFilter,
    PerExtensionFilter,
    PornographicUrlsFilter,
    PunctuationFilter,
    PythonCommentToCodeFilter,
    QuotationRemover,
    RepeatedLinesByCharFilter,
    RepeatedLinesFilter,
    RepeatedParagraphsByCharFilter,
    RepeatedParagraphsFilter,
    RepeatingDuplicateNGramsFilter,
    RepeatingTopNGramsFilter,
    SignalFilter,
    Signals,
    Slicer,
    SubstringFilter,
    SymbolsToWordsFilter,
    TokenCountFilter,
    TokenizerFertilityFilter,
    UnicodeReformatter,
    UrlRemover,
    UrlsFilter,
    WhiteSpaceFilter,
    WordCountFilter,
    WordsWithoutAlphabetsFilter,
    XMLHeaderFilter,
)

PEER = ROOT / "benchmarks" / "peers" / "score_nemo.py"
SUFFIXES = (".py", ".c", ".h", ".js", ".go", ".rb", ".sh", ".java", ".html", ".xml")
LANGUAGES = {
    "text/x-c": (".c", ".h"),
    "text/x-java": (".java",),
    "text/x-javascript": (".js",),
    "text/x-go": (".go",),
    "text/x-python": (".py",),
    "text/x-ruby": (".rb",),
    "text/x-shellscript": (".sh",),
    "text/html": (".html",),
    "text/xml": (".xml",),
}
EXTENSIONS = {"python": ".py", "c": ".h", "html": ".html", "javascript": ".js"}
PROSE = [
    *(NonAlphaNumericFilter(), NumbersFilter(), UrlsFilter(), WhiteSpaceFilter(), ParenthesesFilter()),
    *(WordCountFilter(), MeanWordLengthFilter(), LongWordFilter(), SymbolsToWordsFilter()),
    *(
        CommonEnglishWordsFilter(),
        WordsWithoutAlphabetsFilter(),
        BulletsFilter(),
        PunctuationFilter(),
        EllipsisFilter(),
    ),
    *(RepeatedLinesFilter(), RepeatedLinesByCharFilter(), RepeatedParagraphsFilter(), RepeatedParagraphsByCharFilter()),
    *(RepeatingTopNGramsFilter(n) for n in (2, 3, 4)),
    *(RepeatingDuplicateNGramsFilter(n) for n in (5, 6, 7, 8, 9, 10)),
    *(BoilerPlateStringFilter(), SubstringFilter("the", "any"), PornographicUrlsFilter()),
]
MODIFIERS = [
    *(NewlineNormalizer(), UrlRemover(), MarkdownRemover(), QuotationRemover(), Slicer("e", "e"), LineRemover([""])),
    *(BoilerPlateStringModifier(), FastTextLabelModifier("__label__a"), UnicodeReformatter()),
]

Rule: TypeAlias = DocumentFilter | DocumentModifier


@dataclass(frozen=True)
class Duel:
    """A rule of ours, the texts for both, and the arguments in which the original differs."""

    ours: Any
    texts: list[str]
    otherwise: Mapping[str, Any] = field(default_factory=dict)

    @property
    def theirs(self) -> tuple[str, dict[str, Any]]:
        """The original's class and arguments."""
        same = {setting.name: getattr(self.ours, setting.name) for setting in fields(self.ours) if setting.init}
        return type(self.ours).__name__, {**same, **self.otherwise}


def sources(folder: Path) -> dict[str, list[str]]:
    """The texts of source files by suffix."""
    found: dict[str, list[str]] = {suffix: [] for suffix in SUFFIXES}
    for path in sorted(folder.rglob("*")):
        if path.suffix in found and path.is_file():
            found[path.suffix].append(path.read_bytes().decode("utf-8", "replace"))
    return found


def models_in(folder: Path, prose: list[str], checkout: Path) -> dict[str, str]:
    """A table of characters, a SentencePiece model and a tokenizer of Hugging Face, made of the texts."""
    hists = folder / "histograms/checkpoint/edunov/cc60_multilingual/clean_hists"
    hists.mkdir(parents=True)
    usual = sorted({character for text in prose[::2] for character in text if character.isalnum() or character == " "})
    (hists / "en").write_text("".join(f"{character} 1\n" for character in usual) + "] 0\n", "utf-8")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(prose[:40]),
        model_prefix=str(folder / "pieces"),
        vocab_size=2000,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    tokenizer.train_from_iterator(prose[:40], trainers.BpeTrainer(special_tokens=["<s>"], show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 0)])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    limits = checkout / "nemo_curator" / "utils" / "code_meta.csv"
    return {"cache": str(folder), "pieces": str(folder / "pieces.model"), "limits": str(limits)}


def duels(code: dict[str, list[str]], prose: list[str], made: dict[str, str]) -> dict[str, Duel]:
    """Every rule by what it is called in the table."""
    every = [text for texts in code.values() for text in texts]
    of_code = [NumberOfLinesOfCodeFilter(), XMLHeaderFilter(), AlphaFilter()]
    of_prose: list[Any] = [
        *PROSE,
        HistogramFilter(cache_dir=made["cache"]),
        TokenizerFertilityFilter(made["pieces"]),
        *MODIFIERS,
    ]
    return {
        **{rule.name: Duel(rule, every) for rule in of_code},
        "html_boilerplate": Duel(HTMLBoilerplateFilter(), code[".html"]),
        "python_comment_ratio": Duel(PythonCommentToCodeFilter(), code[".py"]),
        **{
            f"comment_ratio {language}": Duel(
                GeneralCommentToCodeFilter(language), [text for suffix in suffixes for text in code[suffix]]
            )
            for language, suffixes in LANGUAGES.items()
        },
        **{
            f"per_extension {lang} {suffix}": Duel(
                PerExtensionFilter(lang, suffix[1:]), code[suffix], {"metadata_file": made["limits"]}
            )
            for lang, suffix in EXTENSIONS.items()
        },
        **{rule.name: Duel(rule, prose) for rule in of_prose},
        "token_count": Duel(
            TokenCountFilter(tokenizer=f"{made['cache']}/tokenizer.json"), prose, {"hf_model_name": made["cache"]}
        ),
    }


def scored(rule: Rule, texts: list[str]) -> tuple[list[Any], float]:
    """What our rule says of each text, and the CPU-seconds, by the way that a stage would take."""
    if isinstance(rule, SignalFilter):
        column = text_column(pa.table({"text": pa.array(texts, pa.large_string())}), "text")
        rule.score_document("a")
        return _timed(lambda: rule.score(Signals(column, rule.needs)).tolist())
    score = rule.modify_document if isinstance(rule, DocumentModifier) else rule.score_document
    score("a")
    return _timed(lambda: [score(text) for text in texts])


def _timed(work: Callable[[], list[Any]]) -> tuple[list[Any], float]:
    start = time.process_time()
    return work(), time.process_time() - start


def tied(rule: Rule, text: str, theirs: float) -> bool:
    """Whether the original took another n-gram than the first of those that are equally frequent."""
    if not isinstance(rule, RepeatingTopNGramsFilter):
        return False
    words = text.split()
    counts = Counter(" ".join(words[at : at + rule.n]) for at in range(len(words) - rule.n + 1))
    most = max(counts.values())
    left = (len(text.replace(ngram, "")) for ngram, count in counts.items() if count == most)
    return any((len(text) - length) / len(text) == theirs for length in left)


def compared(name: str, duel: Duel, theirs: dict[str, Any]) -> dict[str, Any]:
    """One line of the table: scores equal, of n-grams tied, different, where the original raises, and speeds."""
    ours, seconds = scored(duel.ours, duel.texts)
    pairs = list(zip(ours, theirs["scores"], strict=True))
    size = sum(len(text.encode()) for text in duel.texts) / 1e6
    unequal = [place for place, (left, right) in enumerate(pairs) if right is not None and left != right]
    different = [place for place in unequal if not tied(duel.ours, duel.texts[place], pairs[place][1])]
    return {
        "rule": name,
        "texts": len(duel.texts),
        "mb": round(size, 2),
        "equal": sum(left == right for left, right in pairs),
        "tied": len(unequal) - len(different),
        "different": len(different),
        "original_raises": sum(right is None for _, right in pairs),
        "mb_per_cpu_s": round(size / seconds, 2) if seconds else None,
        "original_mb_per_cpu_s": round(size / theirs["cpu_s"], 3),
        "ratio": round(theirs["cpu_s"] / seconds, 1) if seconds else None,
        "first_differences": [
            [str(value)[:60] for value in (duel.texts[place], *pairs[place])] for place in different[:3]
        ],
    }


def run(given: argparse.Namespace) -> list[dict[str, Any]]:
    """All lines of the table."""
    prose = list(prose_of(given.prose, given.prose_mb))
    with tempfile.TemporaryDirectory() as folder:
        matches = duels(sources(given.input), prose, models_in(Path(folder), prose, given.nemo))
        jobs = {name: {"make": duel.theirs, "texts": duel.texts} for name, duel in matches.items() if duel.texts}
        path = Path(folder, "jobs.json")
        path.write_text(json.dumps(jobs), "utf-8")
        command = [str(given.peer_python), str(PEER), str(given.nemo), str(path)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        theirs = json.loads(output.strip().rpartition("\n")[2])
        return [compared(name, matches[name], theirs[name]) for name in jobs]


def shown(lines: Iterable[dict[str, Any]]) -> str:
    """The table."""
    counts = ("texts", "mb", "equal", "tied", "different", "original_raises")
    columns = (*counts, "mb_per_cpu_s", "original_mb_per_cpu_s", "ratio")
    return table(["rule", *columns], [[line["rule"], *(line[column] for column in columns)] for line in lines])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", type=Path, required=True, help="folder with source files")
    parser.add_argument("--prose", type=Path, required=True, help="JSONL with a column text, .zst or not")
    parser.add_argument("--prose-mb", type=float, default=4.0, help="of prose to read")
    parser.add_argument("--nemo", type=Path, required=True, help="clone of NeMo Curator")
    parser.add_argument(
        "--peer-python", type=Path, required=True, help="Python with what the original's modules import"
    )
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    given = parser.parse_args()
    lines = run(given)
    print(shown(lines))
    about = {"machine": machine(), "versions": versions("numba", "ftfy", "sentencepiece", "tokenizers", "transformers")}
    save(given.json, {**about, "rules": lines})


if __name__ == "__main__":
    main()
