"""Read files of tokens with the library of their format. Runs where that library can be imported.

``python read_tokens.py FORMAT FOLDER WINDOW OUTPUT``: writes lists of tokens as JSON, documents or windows.
"""

from __future__ import annotations

import json
import os
import sys
import types
from importlib import import_module
from pathlib import Path


def megatron(folder: Path, window: int) -> list[list[int]]:
    library = import_module("megatron.core.datasets.indexed_dataset")
    found = []
    for path in sorted(folder.glob("*.idx")):
        dataset = library.IndexedDataset(str(path)[: -len(".idx")])
        found += [dataset[number].tolist() for number in range(len(dataset))]
    return found


def ds(folder: Path, window: int) -> list[list[int]]:
    library = import_module("datatrove.utils.dataset")
    found = []
    for path in sorted(folder.glob("*.ds")):
        dataset = library.DatatroveFileDataset(str(path), seq_len=window - 1, token_size=2, return_positions=True)
        found += [dataset[number]["input_ids"].tolist() for number in range(len(dataset))]
    return found


def mds(folder: Path, window: int) -> list[list[int]]:
    # Its packages import torchvision and much more when they are imported as a whole.
    root = next(path for path in sys.path if os.path.isdir(f"{path}/streaming/base"))
    for name in ("streaming", "streaming.base"):
        module = types.ModuleType(name)
        module.__path__ = [f"{root}/{name.replace('.', '/')}"]
        sys.modules[name] = module
    library = import_module("streaming.base.format.mds.reader")
    found = []
    for shard in json.loads((folder / "index.json").read_text())["shards"]:
        reader = library.MDSReader.from_json(str(folder), "", shard)
        found += [reader[number]["tokens"].tolist() for number in range(reader.samples)]
    return found


def litdata(folder: Path, window: int) -> list[list[int]]:
    library = import_module("litdata")
    dataset = library.StreamingDataset(str(folder), item_loader=library.TokensLoader(block_size=window))
    return [dataset[number].tolist() for number in range(len(dataset))]


if __name__ == "__main__":
    _, form, folder, window, output = sys.argv
    read = {"megatron": megatron, "ds": ds, "mds": mds, "litdata": litdata}[form]
    Path(output).write_text(json.dumps(read(Path(folder), int(window))))
