"""Names that are made of others, kept short: a file system takes 255 bytes."""

from __future__ import annotations

import hashlib
import re

#: Characters that a name has at most which dcurate makes of the names of stages or filters.
LONGEST = 80


def short(name: str, most: int = LONGEST) -> str:
    """The name itself, or the beginning of a long one and a digest that sets it apart.

    Examples:
        >>> short("word_count"), short("a_chain_of_" + "word_count_" * 9, 40)
        ('word_count', 'a_chain_of_word_count_word_coun-db2c813c')
    """
    if len(name) <= most:
        return name
    return f"{name[: most - 9]}-{_digest(name)}"


def file_safe(name: str, most: int = LONGEST) -> str:
    """A name as part of a file name, in ASCII; where it had to be changed, a digest sets it apart.

    Examples:
        >>> file_safe("word_count"), file_safe("read > filter")
        ('word_count', 'read-filter-62d28f60')
    """
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "operator"
    return safe if safe == name and len(safe) <= most else f"{safe[:most]}-{_digest(name)}"


def _digest(name: str) -> str:
    return hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=4).hexdigest()
