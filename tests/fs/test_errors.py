"""Errors of stores are one sentence that names the path."""

from __future__ import annotations

import pytest

from dcurate import DataError
from dcurate.fs.errors import storage_errors


@pytest.mark.parametrize("library", ["httpx", "httpx2"])
def test_errors_of_the_client_of_a_hub_name_the_path(library: str) -> None:
    client = pytest.importorskip(library)
    sentence = "cannot list 'hf://datasets/a/b': no such host; check the address and storage_options"
    with pytest.raises(DataError, match=f"^{sentence}$"), storage_errors("list", "hf://datasets/a/b"):
        raise client.ConnectError("no such host")
