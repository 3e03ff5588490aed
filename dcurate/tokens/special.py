"""Special tokens that are spelled in texts: find them, and keep a tokenizer from making them of text."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Collection, Sequence
from itertools import groupby
from typing import Any, Literal, get_args

from dcurate.errors import PipelineError, listed, nearest

#: Treatment of a special token that is spelled in a text, such as ``</s>``.
SpecialInText = Literal["text", "token", "refuse"]
#: The reason for which a document with a special token in its text is dropped.
SPECIAL_TOKEN = "special_token"


def check_special_in_text(asks: str, value: object) -> None:
    """Refuse an unknown way to treat special tokens in texts.

    Raises:
        PipelineError: the value is not one of `SpecialInText`.
    """
    known = get_args(SpecialInText)
    if value not in known:
        raise PipelineError(
            f"{asks}: special_in_text={value!r} is not one of {listed(known)}{nearest(str(value), known)}"
        )


def spelling_pattern(names: Collection[str]) -> re.Pattern[str]:
    """Return a pattern that finds the longest name at each place, in time that does not grow with their number.

    Examples:
        >>> pattern = spelling_pattern(["</s>", "<s>", "<|end|>", "<|end|>."])
        >>> pattern.findall("a</s> <|end|>. <|end|><S><|en")
        ['</s>', '<|end|>.', '<|end|>']
        >>> spelling_pattern([]).findall("a</s>")
        []
    """
    return re.compile(_alternatives(sorted(filter(None, names))) or "(?!)")


def _alternatives(names: Sequence[str]) -> str:
    return "|".join(_with_prefix(list(group)) for _, group in groupby(names, lambda name: name[0]))


def _with_prefix(names: list[str]) -> str:
    first, last = names[0], names[-1]  # sorted
    same = next((place for place, pair in enumerate(zip(first, last, strict=False)) if len({*pair}) > 1), len(first))
    prefix = first[:same]
    endings = [name[len(prefix) :] for name in names if name != prefix]
    if not endings:
        return re.escape(prefix)
    return f"{re.escape(prefix)}(?:{_alternatives(endings)}){'?' if prefix in names else ''}"


def without_special(backend: Any, special: Collection[str], every: bool = False) -> Any:
    """Return a tokenizer of ``tokenizers`` that gives the same ids and makes none of these tokens of a text.

    The library leaves out added tokens that are marked as special when it is asked to. What its model makes of their
    characters (a unigram model has ``</s>`` among its pieces), and what is not marked, must be renamed as well: to
    random names, which no text has.

    Args:
        backend: a ``tokenizers.Tokenizer``; it is changed.
        special: contents of tokens.
        every: whether all are renamed, for a library that cannot be asked to leave them out.

    Raises:
        Exception: of the library, for a tokenizer that it cannot write as JSON.
    """
    backend.encode_special_tokens = True
    marked = {token.content for token in backend.get_added_tokens_decoder().values() if token.special}
    added = {token.content for token in backend.get_added_tokens_decoder().values()}
    renamed = {
        name: secrets.token_hex(16)
        for name in special
        if len(name) > 1  # a character of its own is a part of texts
        and (every or (name in added and name not in marked) or _is_made(backend, name))
    }
    if not renamed:
        return backend
    content = json.loads(backend.to_str())
    for token in content["added_tokens"]:
        token["content"] = renamed.get(token["content"], token["content"])
    _rename(content["model"], renamed)
    made = type(backend).from_str(json.dumps(content))
    made.encode_special_tokens = True
    return made


def _is_made(backend: Any, name: str) -> bool:
    """Whether the model makes a token of its own name."""
    number = backend.token_to_id(name)
    try:
        return any(token.id == number for token in backend.model.tokenize(name))
    except Exception:  # of a model without a token for unknown characters
        return True


def _rename(model: dict[str, Any], renamed: dict[str, str]) -> None:
    vocabulary = model["vocab"]
    if isinstance(vocabulary, list):
        model["vocab"] = [[renamed.get(name, name), score] for name, score in vocabulary]
    else:
        model["vocab"] = {renamed.get(name, name): number for name, number in vocabulary.items()}
    if model.get("unk_token") is not None:
        model["unk_token"] = renamed.get(model["unk_token"], model["unk_token"])
    if "merges" in model:
        pairs = (tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in model["merges"])
        model["merges"] = [pair for pair in pairs if not renamed.keys() & {*pair, "".join(pair)}]


def as_control_pieces(model: bytes, pieces: Collection[int]) -> bytes:
    """Return a SentencePiece model in which some pieces are control symbols, which it makes of no text.

    Args:
        model: the model as protobuf, whose fields all have a length; the first kind is the pieces, in order.
        pieces: numbers of pieces.
    """
    made, place, number = bytearray(), 0, 0
    while place < len(model):
        tag, size_at = _varint(model, place)
        size, start = _varint(model, size_at)
        body = model[start : start + size]
        if tag == _PIECE:
            body += _CONTROL if number in pieces else b""
            number += 1
        made += model[place:size_at] + _as_varint(len(body)) + body
        place = start + size
    return bytes(made)


#: The tag of a piece in the model; and the field of a piece that makes it a control symbol, where the last one counts.
_PIECE, _CONTROL = 0x0A, b"\x18\x03"


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while data[place] > 127:
        value |= (data[place] & 127) << shift
        place, shift = place + 1, shift + 7
    return value | data[place] << shift, place + 1


def _as_varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])
