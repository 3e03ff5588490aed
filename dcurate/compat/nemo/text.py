"""Functions and constants of `nemo_curator.stages.text`."""

from __future__ import annotations

import logging
import re
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dcurate.frames.columns import column_of
from dcurate.text.extract.stop_words import language_name

regex_url = re.compile(r"https?://(?:[\w$\-@.&+/:=?#~!*(),]|%[0-9A-Fa-f]{2})+", re.ASCII)
URL_REGEX = re.compile(r"(?:https?://|www\.)\S+", re.IGNORECASE)

_log = logging.getLogger("dcurate.compat.nemo")


def normalize_text(
    text_series: pd.Series[Any], *, lowercase: bool = True, normalize_space: bool = True
) -> pd.Series[Any]:
    r"""Return texts in lower case, with runs of whitespace as one space and none at the ends; a null stays null.

    Whitespace is what cuDF takes for it: characters up to U+0020.

    Args:
        text_series: texts, in pandas' Series in place of cuDF's.
        lowercase: whether texts are changed to lower case.
        normalize_space: whether whitespace is changed.

    Raises:
        TypeError: `text_series` is not a Series.

    Examples:
        >>> normalize_text(pd.Series([" So  it GOES\n"])).tolist()
        ['so it goes']
    """
    if not isinstance(text_series, pd.Series):
        raise TypeError(f"text_series is a {type(text_series).__name__}; give a Series of texts")
    texts = _normalized(pa.array(text_series, pa.large_string(), from_pandas=True), lowercase, normalize_space)
    return pd.Series(texts.to_pylist(), index=text_series.index, dtype=text_series.dtype, name=text_series.name)


def with_normalized(table: pa.Table, text_field: str) -> pa.Table:
    """Return the table with the texts of a column as `normalize_text` has them.

    Raises:
        DataError: the column does not exist, or does not hold text.
    """
    texts = _normalized(column_of(table, text_field, text=True), lowercase=True, normalize_space=True)
    return table.set_column(table.column_names.index(text_field), text_field, texts)


def _normalized(texts: pa.Array, lowercase: bool, normalize_space: bool) -> pa.Array:
    if lowercase:
        texts = pc.utf8_lower(pc.replace_substring(texts, "İ", "i\u0307"))  # Arrow drops the dot, cuDF does not
    if normalize_space:
        texts = pc.utf8_trim(pc.replace_substring_regex(texts, r"[\x00-\x20]+", " "), " ")
    return texts


def get_language_name(lang_code: str) -> str:
    """The English name of a language; an unknown code stays.

    Examples:
        >>> get_language_name("de"), get_language_name("zz")
        ('German', 'zz')
    """
    name = language_name(lang_code)
    if name is None and lang_code:
        _log.warning("%r is not a known language code", lang_code)
    return name or lang_code
