"""Students trained on labels: speed and quality beside fastText and scikit-learn, equal bits, promises of thresholds.

    python -m benchmarks.learn --labels FILE --test FILE --corpus DIR --json FILE

Labels and test are JSONL with ``text`` and ``label``; `benchmarks.make_labels` makes some. The corpus holds JSONL with
``text``. CPU-seconds are those of one process with one thread, of training from texts in memory (fastText: from a file)
to a model in memory; MB are 10**6 bytes of UTF-8. fastText is the package fasttext-numpy2-wheel in ``.venv-fasttext``,
which is set up at the first run; it trains on the labels in random order. Its learning rate is 0.1 by default, with
which it is far from done after so few epochs; the better of two higher ones is compared.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.measure import ROOT, called, machine, save, table, versions
from dcurate import DaskExecutor, DataError, DocumentReader, InlineExecutor, LocalCluster, Pipeline
from dcurate.frames.text import column_of
from dcurate.learn import HeldBack, KeepPrecision, Learn, Student, TextFeatures, Training
from dcurate.learn.head import StudentHead, layout_of
from dcurate.learn.measures import measures
from dcurate.learn.training import ExampleSplit, Fit

PEER = "fasttext-numpy2-wheel==0.9.2"
#: Features that both get, by name.
FEATURES = {
    "words": TextFeatures(word_ngrams=2, min_chars=0, max_chars=0),
    "words and characters": TextFeatures(),
}
#: The weighting that fastText does not have.
SUBLINEAR = {name: replace(features, weighting="sublinear") for name, features in FEATURES.items()}
RATES = (0.5, 1.0)
DRAWS, CALIBRATION = 200, 1000
ASKED = (0.8, 0.9, 0.95)
HEADS, ROUNDS = 18, 5
PARTS = ("train", "serve", "thresholds", "equal", "encoders")


def one_line(text: str) -> str:
    """A text without newlines, with the same words to fastText."""
    return re.sub(r"[ \n\r\t\v\f\0]+", " ", text)


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


@cache
def peer_python() -> Path:
    python = ROOT / ".venv-fasttext" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", ROOT / ".venv-fasttext"], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", PEER], check=True)
    return python


def peer(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    place = folder / "job.json"
    place.write_text(json.dumps(job))
    script = ROOT / "benchmarks" / "peers" / "fasttext_learn.py"
    done = subprocess.run([peer_python(), script, place], check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


class Labelled:
    """Texts with labels: those to learn from and those that are kept back."""

    def __init__(self, labels: Path, test: Path) -> None:
        self.train, self.test = rows_of(labels), rows_of(test)
        self.names = sorted({row["label"] for row in self.train})
        numbers = {name: number for number, name in enumerate(self.names)}
        rows = [*self.train, *self.test]
        self.targets = np.array([[numbers.get(row["label"], np.nan)] for row in rows], np.float32)
        texts = [row["text"].encode() for row in rows]
        self.columns = [column_of(texts[at : at + 4096]) for at in range(0, len(texts), 4096)]
        self.head = StudentHead("label", "classes", tuple(self.names))

    def figures(self, answers: np.ndarray) -> dict[str, float]:
        figures = measures(self.head, answers.astype(np.float32), self.targets[len(self.train) :, 0])
        return {"auc": round(figures["auc"], 4), "f1": round(figures["f1"], 4)}


def ours(given: Labelled, features: TextFeatures, epochs: int) -> tuple[dict[str, Any], Student]:
    count = len(given.train)
    parts = ExampleSplit(np.arange(count), np.arange(0), np.arange(count, count + len(given.test)))
    training = Training(epochs=epochs, patience=None)
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        fit = Fit(lambda: given.columns, len(given.targets), parts, features, folder)
        trained = fit.run(layout_of([given.head]), given.targets, np.ones_like(given.targets), training)
        seconds = time.process_time() - start  # with the features and answers of the test, which others do not count
    figures = {"docs": count, "cpu_s": round(seconds, 2), **given.figures(trained.held)}
    return figures, Student((given.head,), trained.network, trained.counts, weighting=features.weighting)


def fasttext(given: Labelled, features: TextFeatures, epochs: int, folder: Path) -> dict[str, Any]:
    numbers = {name: number for number, name in enumerate(given.names)}
    with (folder / "train.txt").open("w") as file:
        for place in np.random.default_rng(0).permutation(len(given.train)).tolist():
            row = given.train[place]
            print(f"__label__{numbers[row['label']]} {one_line(row['text'])}", file=file)
    (folder / "test.jsonl").write_text("".join(json.dumps(row["text"]) + "\n" for row in given.test))
    settings = {"wordNgrams": features.word_ngrams, "minn": features.min_chars, "maxn": features.max_chars}
    best: dict[str, Any] = {}
    for rate in RATES:
        job = {"train": str(folder / "train.txt"), "test": str(folder / "test.jsonl")}
        done = peer({**job, "settings": {**settings, "epoch": epochs, "lr": rate, "bucket": features.buckets}}, folder)
        answers = np.array([[row.get(str(n), 0.0) for n in range(len(given.names))] for row in done["answers"]])
        figures = {"docs": len(given.train), "cpu_s": round(done["cpu_s"], 2), **given.figures(answers), "rate": rate}
        best = figures if not best or figures["auc"] > best["auc"] else best
    return best


def sklearn(given: Labelled, most: int) -> dict[str, Any]:
    from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: PLC0415
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    start = time.process_time()
    vectorizer = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, most))
    model = LogisticRegression(C=10, max_iter=300)
    model.fit(vectorizer.fit_transform([row["text"] for row in given.train]), [row["label"] for row in given.train])
    seconds = time.process_time() - start
    answers = model.predict_proba(vectorizer.transform([row["text"] for row in given.test]))
    return {"docs": len(given.train), "cpu_s": round(seconds, 2), **given.figures(answers)}


def trained(given: Labelled, epochs: int, folder: Path) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for name, features in FEATURES.items():
        figures[f"dcurate, {name}"] = ours(given, features, epochs)[0]
        figures[f"fastText, {name}"] = fasttext(given, features, epochs, folder)
    for name, features in SUBLINEAR.items():
        figures[f"dcurate, {name}, sublinear"] = ours(given, features, epochs)[0]
    for most in (1, 2):
        figures[f"scikit-learn, {most} words"] = sklearn(given, most)
    return figures


def corpus_texts(corpus: Path, nbytes: int = 20_000_000) -> list[str]:
    texts: list[str] = []
    files = sorted([corpus] if corpus.is_file() else [*corpus.rglob("*.jsonl"), *corpus.rglob("*.jsonl.zst")])
    for split in DocumentReader([str(path) for path in files]).splits():
        for text in DocumentReader([str(path) for path in files]).process(split).to_arrow()["text"].to_pylist():
            texts += [text[at : at + 2000] for at in range(0, len(text), 2000)]
        if sum(map(len, texts)) > nbytes:
            break
    return texts[: nbytes // 2000]


def speeds(students: Sequence[Student], column: Any) -> list[tuple[float, np.ndarray]]:
    """MB that each scores per CPU-second, the best of `ROUNDS` in turns, and the answers of each."""
    best, answers = [float("inf")] * len(students), [np.zeros((0, 0), np.float32)] * len(students)
    for _ in range(ROUNDS + 1):  # the first one compiles
        for place, student in enumerate(students):
            start = time.process_time()
            answers[place] = student.score(column.offsets, column.data, np.arange(len(column)))
            best[place] = min(best[place], time.process_time() - start)
    return [(len(column.data) / 1e6 / seconds, values) for seconds, values in zip(best, answers, strict=True)]


def several(given: Labelled, student: Student) -> Student:
    """A student of 18 heads, with the same features."""
    network = student.network
    heads = tuple(StudentHead(f"head {number}", "classes", student.heads[0].labels) for number in range(HEADS))
    rows, weights = network.rows, network.weights
    tiled = np.zeros((len(weights) * HEADS, rows.shape[1] * HEADS), np.float32)
    for number in range(HEADS):
        tiled[
            number * len(weights) : (number + 1) * len(weights),
            number * rows.shape[1] : (number + 1) * rows.shape[1],
        ] = weights
    sizes = network.sizes.copy()
    sizes[1] = len(tiled)
    sizes.flags.writeable = False
    wide = np.tile(rows, (1, HEADS))
    wide.flags.writeable = tiled.flags.writeable = False
    return replace(student, heads=heads, network=network._replace(rows=wide, weights=tiled, sizes=sizes))


def served(given: Labelled, epochs: int, corpus: Path, folder: Path) -> dict[str, Any]:
    """Speed of both weightings, and of fastText's binary, whose scores are compared with those of counts."""
    texts = corpus_texts(corpus)
    column = column_of([text.encode() for text in texts])
    figures: dict[str, Any] = {"documents": len(texts), "classes": len(given.names)}
    for weighting, features in ((", sublinear", TextFeatures(weighting="sublinear")), ("", TextFeatures())):
        student = ours(given, features, epochs)[1]
        (speed, answers), (many, _) = speeds([student, several(given, student)], column)
        figures[f"dcurate, 1 head{weighting}"] = {"heads": 1, "mb_per_cpu_s": round(speed, 2)}
        figures[f"dcurate, {HEADS} heads{weighting}"] = {
            "heads": HEADS,
            "mb_per_cpu_s": round(many, 2),
            "of_one_head": round(many / speed, 2),
        }
    student.to_fasttext(str(folder / "student.bin"))
    (folder / "corpus.jsonl").write_text("".join(json.dumps(text) + "\n" for text in texts))
    done = peer({"model": str(folder / "student.bin"), "test": str(folder / "corpus.jsonl")}, folder)
    theirs = np.array([[row.get(name, 0.0) for name in given.names] for row in done["answers"]])
    figures["fastText, 1 head"] = {"heads": 1, "mb_per_cpu_s": round(done["mb_per_cpu_s"], 2)}
    for weighting in ("", ", sublinear"):
        row = figures[f"dcurate, 1 head{weighting}"]
        row["of_fasttext"] = round(row["mb_per_cpu_s"] / done["mb_per_cpu_s"], 2)
    return {**figures, "max_difference": float(np.nanmax(np.abs(answers - theirs)))}


def digest(folder: Path) -> str:
    hashed = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts):
            hashed.update(path.name.encode() + path.read_bytes())
    return hashed.hexdigest()


def kill_workers(stop: threading.Event, killed: list[int]) -> None:
    """Kill a worker process every two seconds, three in all."""
    while not stop.wait(2.0) and len(killed) < 3:
        below = psutil.Process().children(recursive=True)
        workers = [process for process in below if process.name().startswith("python") and not process.children()]
        if workers:
            workers[-1].kill()
            killed.append(workers[-1].pid)


def equal(labels: Path, folder: Path) -> dict[str, Any]:
    """Digests of the folder of the model."""
    digests: dict[str, Any] = {}
    runs: list[tuple[str, int, str]] = [("inline", 0, "256MiB"), *((f"{n} workers", n, f"{2**n}MB") for n in (1, 2, 3))]
    for name, workers, blocksize in [*runs, ("2 workers, 3 kills", 2, "500kB")]:
        path = folder / name.replace(" ", "_")
        stages = [DocumentReader(str(labels), blocksize=blocksize), Learn(str(path), contradictions="drop")]
        executor = DaskExecutor({}, LocalCluster(n_workers=workers)) if workers else InlineExecutor()
        stop, killed = threading.Event(), []
        killer = threading.Thread(target=kill_workers, args=(stop, killed))
        if "kills" in name:
            killer.start()
        Pipeline("learn", stages=stages).run(executor, observers=[])
        stop.set()
        if "kills" in name:
            killer.join()
            digests["killed"] = len(killed)
        digests[name] = digest(path)
    names = [name for name in digests if name != "killed"]
    return {**digests, "equal": len({digests[name] for name in names}) == 1}


def promises(given: Labelled, student: Student) -> dict[str, Any]:
    """How often a promised precision holds: the texts that were kept back are what draws are made of, and the truth."""
    texts = column_of([row["text"].encode() for row in given.test])
    answers = student.score(*texts, np.arange(len(texts)))
    targets = given.targets[len(given.train) :, 0]
    wanted = int(np.bincount(targets[~np.isnan(targets)].astype(int)).argmax())
    scores, truth = answers[:, wanted].astype(np.float64), targets == wanted
    random = np.random.default_rng(0)
    figures = {}
    for asked in ASKED:
        got, refused = [], 0
        for _ in range(DRAWS):
            drawn = random.integers(0, len(scores), CALIBRATION)
            try:
                threshold = KeepPrecision(asked).choose(scores[drawn], truth[drawn])
            except DataError:
                refused += 1
                continue
            got.append(float(truth[scores >= threshold].mean()))
        figures[str(asked)] = {
            "asked_precision": asked,
            "draws": DRAWS,
            "refused": refused,
            "got": {"least": min(got, default=None), "mean": float(np.mean(got)) if got else None},
            "within": round(float(np.mean(np.array(got) >= asked)), 3) if got else None,
        }
    return {"positive": given.names[wanted], "labels": CALIBRATION, **figures}


def size(given: Labelled, documents: int) -> dict[str, Any]:
    """Training on many documents of 2 kB, put together from those that there are, in the process."""
    random = np.random.default_rng(0)
    texts = [row["text"] for row in given.train]
    rows = [
        {"text": " ".join(texts[place] for place in random.integers(0, len(texts), 8))[:2000], "label": str(number % 2)}
        for number in range(documents)
    ]
    with tempfile.TemporaryDirectory() as folder:
        labels = Path(folder, "labels.jsonl")
        labels.write_text("".join(json.dumps(row) + "\n" for row in rows))
        del rows
        start = time.process_time()
        learn = Learn(f"{folder}/model", held_back=HeldBack(near_duplicates=False), contradictions="drop")
        Pipeline("learn", stages=[DocumentReader(str(labels)), learn]).run(InlineExecutor(), observers=[])
        return {"docs": documents, "cpu_s": round(time.process_time() - start, 1)}


def encoder_sections(corpus: Path) -> dict[str, Any]:
    """The figures of encoders, where their benchmark is there."""
    try:
        learn_encoders = importlib.import_module("benchmarks.learn_encoders")
    except ImportError:
        return {}
    return {name: getattr(learn_encoders, name)(corpus) for name in ("encoders", "static", "kenlm")}


def run(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=Path, required=True)
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--documents", type=int, default=0, help="train on so many documents of 2 kB, too")
    options = parser.parse_args(argv)
    given = Labelled(options.labels, options.test)
    figures: dict[str, Any] = {
        "machine": machine(),
        "versions": {**versions("scikit-learn", "numba", "numpy"), "peer": PEER},
        "labels": {"train": len(given.train), "test": len(given.test), "classes": len(given.names)},
        "epochs": options.epochs,
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if {"train", "thresholds"} & set(options.parts):
            student = ours(given, TextFeatures(), options.epochs)[1]  # compiles the kernels, too
        if "train" in options.parts:
            figures["train"] = trained(given, options.epochs, folder)
            columns = ("docs", "cpu_s", "auc", "f1")
            rows = [(tool, *(row[column] for column in columns)) for tool, row in figures["train"].items()]
            print(table(("tool", *columns), rows))
        if "serve" in options.parts:
            figures["serve"] = served(given, options.epochs, options.corpus, folder)
        if "thresholds" in options.parts:
            figures["thresholds"] = promises(given, student)
        if "equal" in options.parts:
            figures["equal"] = equal(options.labels, folder)
    if options.documents:
        figures["size"] = size(given, options.documents)
    if "encoders" in options.parts:
        figures |= encoder_sections(options.corpus)
    for part in ("serve", "thresholds", "equal", "size", "encoders", "static", "kenlm"):
        if part in figures:
            print(part, json.dumps(figures[part], indent=1))
    save(options.json, figures)


if __name__ == "__main__":
    called(run)
