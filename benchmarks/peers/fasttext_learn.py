"""Train and ask the original fastText (package fasttext-numpy2-wheel); prints JSON."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

import fasttext

PREFIX = "__label__"


def line(text: str) -> str:
    return re.sub(r"[ \n\r\t\v\f\0]+", " ", text)


def answers(model, texts: list[str]) -> tuple[list[dict[str, float]], float]:
    lines = [line(text) + "\n" for text in texts]
    start = time.process_time()
    found = [model.f.predict(text, -1, 0.0, "strict") for text in lines]
    seconds = time.process_time() - start
    names = {PREFIX + str(number): str(number) for number in range(len(model.labels))}
    return [{names.get(label, label[len(PREFIX) :]): share for share, label in row} for row in found], seconds


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    texts = [json.loads(row) for row in Path(job["test"]).read_text().split("\n") if row]
    if "model" in job:
        model = fasttext.load_model(job["model"])
        figures = {"cpu_s": None}
    else:
        start = time.process_time()
        model = fasttext.train_supervised(job["train"], thread=1, verbose=0, **job["settings"])
        figures = {"cpu_s": time.process_time() - start}
    found, seconds = answers(model, texts)
    mb = sum(len(line(text).encode()) for text in texts) / 1e6
    print(json.dumps({**figures, "answers": found, "mb_per_cpu_s": mb / seconds}))


if __name__ == "__main__":
    main()
