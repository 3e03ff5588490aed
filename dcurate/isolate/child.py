"""The child process of a sandbox: see `dcurate.isolate.sandbox`, which starts it."""

from __future__ import annotations

import importlib
import io
import json
import os
import resource
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import Any, BinaryIO

import orjson

from dcurate.isolate.errors import MediaError, MediaFault
from dcurate.isolate.process import begin, limit_memory, receive
from dcurate.isolate.served import BLOCK, ServedFile

#: What a function returns for an item: a dictionary that JSON can hold, and byte strings.
Answer = tuple[Mapping[str, Any], Sequence[Any]]

#: The header of an answer: its kind, number of blobs, and length of its JSON; the lengths of the blobs follow, then the
#: JSON, then the blobs.
HEAD = struct.Struct("<BIQ")

#: Bytes of the largest file that the child may write, and of what it may have written to standard error.
_LARGEST_FILE, _MOST_SAID = 2**24, 2**16
#: The size of the process is looked at after as many items, and after an item of this many bytes.
_EVERY, _LARGE = 16, 2**20
#: Items after which the process has the size that it is compared with.
_FIRST = 8


class AnswerKind(IntEnum):
    """What an answer is; after a last one the child ends."""

    READY = 0
    DONE = 1
    FAULT = 2
    LAST = 3
    LAST_FAULT = 4
    UNLOADABLE = 5
    #: One of several answers to an item, or a sign of progress.
    PART = 6
    #: The child asks for bytes of the file that an item is about.
    READ = 7


def measured(data: bytes, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the size of a file, under the name ``options["unit"]``: a function for examples and tests.

    Raises:
        MediaError: the file is empty.
    """
    if not data:
        raise MediaError("empty", "the file has no bytes")
    return {options["unit"]: len(data)}


def chunks(source: BinaryIO, request: Mapping[str, Any], options: Mapping[str, Any]) -> Iterator[Answer | None]:
    """Yield the bytes of a served file in pieces of ``request["bytes"]``: a function for examples and tests.

    Raises:
        MediaError: the file is empty.
    """
    while data := source.read(request["bytes"]):
        yield {"bytes": len(data)}, [data]
        yield None
    if not source.tell():
        raise MediaError("empty", "the file has no bytes")


def main(requests: int, answers: int, lifeline: int) -> None:
    """Load the function and call it on items until there are no more.

    Args:
        requests: file descriptor of the items.
        answers: file descriptor for answers.
        lifeline: file descriptor of a pipe that is closed when the process that started this one is gone.
    """
    begin(lifeline)
    with open(requests, "rb", 2**18) as reader, open(answers, "wb", 2**18) as writer:
        setup = json.loads(receive(reader) or b"{}")
        if not setup:
            return
        try:
            module, _, name = setup["function"].partition(":")
            function = getattr(importlib.import_module(module), name)
        except Exception as error:  # the parent reports any error
            _answer(writer, AnswerKind.UNLOADABLE, {"detail": f"{type(error).__name__}: {error}"})
            return
        limit_memory(setup["memory_bytes"])
        resource.setrlimit(resource.RLIMIT_FSIZE, (_LARGEST_FILE, _LARGEST_FILE))
        # Linux counts the memory of the process that started this one, too: see `getrusage`.
        _answer(writer, AnswerKind.READY, {"peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss})
        _serve(function, setup, reader, writer)


def _serve(function: Callable[..., Any], setup: dict[str, Any], reader: BinaryIO, writer: BinaryIO) -> None:
    base, done, options = 0, 0, setup["options"]
    streamed = partial(_streamed, partial(_sparing, function, setup["quiet_s"]), reader, writer)
    called = streamed if setup["serves_files"] else partial(_called, function)
    while True:
        try:
            data = receive(reader)
        except MemoryError:
            _answer(writer, AnswerKind.LAST_FAULT, MediaFault("out of memory", "for the bytes of the file")._asdict())
            return
        if data is None:
            return
        if os.lseek(2, 0, os.SEEK_CUR) > _MOST_SAID:
            os.ftruncate(2, 0)
            os.lseek(2, 0, os.SEEK_SET)
        outcome = called(data, options)
        done += 1
        last = done >= setup["recycle_items"]
        if done <= _FIRST or done % _EVERY == 0 or len(data) > _LARGE:
            size = _resident()
            base = size if done <= _FIRST else base
            last = last or size > base + setup["recycle_growth_bytes"]
        del data
        if isinstance(outcome, MediaFault):
            last = last or outcome.reason == "out of memory"
            _answer(writer, AnswerKind.LAST_FAULT if last else AnswerKind.FAULT, outcome._asdict())
        else:
            value, blobs = outcome
            _answer(writer, AnswerKind.LAST if last else AnswerKind.DONE, value, blobs)
        if last:
            return


def _called(
    function: Callable[[bytes, dict[str, Any]], Any], data: bytes, options: dict[str, Any]
) -> tuple[bytes, Sequence[Any]] | MediaFault:
    """Return the answer for an item, as JSON and blobs, or its fault."""
    try:
        result = function(data, options)
        value, blobs = result if isinstance(result, tuple) else (result, ())
        return _json(value), blobs
    except MediaError as error:
        return error.fault
    except MemoryError as error:
        return MediaFault("out of memory", str(error))
    except Exception as error:  # the item's fault: no row ends a run
        return MediaFault(f"failed: {type(error).__name__}", str(error)[:2000])


def _streamed(
    function: Callable[..., Iterator[Answer | None]],
    reader: BinaryIO,
    writer: BinaryIO,
    data: bytes,
    options: dict[str, Any],
) -> tuple[bytes, Sequence[Any]] | MediaFault:
    """Send the answers about a file as they come; the last one is empty."""

    def ask(offset: int, size: int) -> bytes:
        _answer(writer, AnswerKind.READ, {"offset": offset, "size": size})
        return receive(reader) or b""

    def sent() -> dict[str, Any]:
        item = json.loads(data)
        file = io.BufferedReader(ServedFile(item["size"], ask), BLOCK)
        for part in function(file, item["request"], options):
            value, blobs = part or ({}, ())
            _answer(writer, AnswerKind.PART, _json(value), blobs)
        return {}

    return _called(lambda *_: sent(), b"", {})


def _sparing(
    function: Callable[..., Iterator[Answer | None]], quiet_s: float, *arguments: Any
) -> Iterator[Answer | None]:
    """Yield the answers of a function, without signs of progress within some seconds of the answer before.

    Each of them wakes the other process: for small frames that took 2 % of the time of decoding.
    """
    said_s = time.monotonic()
    for answer in function(*arguments):
        now_s = time.monotonic()
        if answer is not None or now_s >= said_s + quiet_s:
            said_s = now_s
            yield answer


def _json(value: Any) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:  # half of a surrogate pair, or what JSON cannot hold
        return orjson.dumps(json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")))


def _answer(writer: BinaryIO, kind: AnswerKind, value: Any, blobs: Sequence[Any] = ()) -> None:
    text = value if isinstance(value, bytes) else orjson.dumps(value)
    views = [memoryview(blob).cast("B") for blob in blobs]
    writer.write(HEAD.pack(kind, len(views), len(text)))
    writer.write(struct.pack(f"<{len(views)}Q", *map(len, views)))
    writer.write(text)
    for view in views:
        writer.write(view)
    writer.flush()


def _resident() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
