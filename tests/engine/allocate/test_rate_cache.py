"""Rates of earlier runs: there when they can be, and never in the way."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate.engine.allocate.rate_cache import MOST, CachedRate, RateCache, cache_file, key_of

positive = st.floats(1e-9, 1e9)
rates = st.builds(CachedRate, positive, st.floats(0, 10), st.floats(0, 1e6), st.floats(0, 1e6))


def test_what_one_run_stores_the_next_finds(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "rates.json"
    rate = CachedRate(0.25, cv=0.3, setup_s=60.0, ratio=12.0)
    assert RateCache(path).store({"embed": rate})
    assert RateCache(path).lookup("embed") == rate
    assert RateCache(path).lookup("classify") is None


@given(st.dictionaries(st.text(), rates, max_size=20))
def test_every_sound_memory_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, kept: dict) -> None:
    path = tmp_path_factory.mktemp("cache") / "rates.json"
    RateCache(path).store(kept)
    assert RateCache(path).load() == kept


def test_a_second_run_adds_to_the_first_and_replaces_what_it_measured_anew(tmp_path: Path) -> None:
    path = tmp_path / "rates.json"
    RateCache(path).store({"read": CachedRate(1.0), "write": CachedRate(2.0)})
    RateCache(path).store({"read": CachedRate(3.0), "score": CachedRate(4.0)})
    assert {key: one.seconds for key, one in RateCache(path).load().items()} == {"write": 2.0, "read": 3.0, "score": 4}


def test_only_the_latest_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "rates.json"
    RateCache(path).store({"oldest": CachedRate(1.0), "older": CachedRate(1.0)})
    RateCache(path).store(
        {f"new-{number}": CachedRate(1.0) for number in range(MOST - 2)} | {"oldest": CachedRate(2.0)}
    )
    assert len(RateCache(path).load()) == MOST
    RateCache(path).store({"newest": CachedRate(1.0)})
    kept = RateCache(path).load()
    assert len(kept) == MOST
    assert "older" not in kept
    assert {"oldest", "newest"} <= kept.keys()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[1, 2]",
        b"\xff\xfe",
        b"null",
        b'{"version": 1}',
        b'{"version": 1, "rates": [3]}',
        b'{"version": 1, "rates": {"a": 3, "b": {"seconds": 1}, "c": {"seconds": "x"}}}',
        b'{"version": 1, "rates": {"a": {"seconds": NaN, "cv": 1, "setup_s": 1, "ratio": 1}}}',
        b'{"version": 1, "rates": {"a": {"seconds": 0, "cv": 1, "setup_s": 1, "ratio": 1}}}',
        b'{"version": 0, "rates": {"a": {"seconds": 1, "cv": 1, "setup_s": 1, "ratio": 1}}}',
        b"[" * 200_000,
    ],
)
def test_a_broken_file_is_as_good_as_none_and_is_mended_by_the_next_run(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "rates.json"
    path.write_bytes(content)
    assert RateCache(path).load() == {}
    assert RateCache(path).store({"read": CachedRate(1.0)})
    assert RateCache(path).lookup("read") == CachedRate(1.0)


def test_a_folder_that_cannot_be_made_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cached = RateCache(tmp_path / "file" / "rates.json")
    assert not cached.store({"read": CachedRate(1.0)})
    assert cached.lookup("read") == CachedRate(1.0)


def test_a_write_that_fails_leaves_the_file_as_it_was_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rates.json"
    RateCache(path).store({"read": CachedRate(1.0)})
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("dcurate.engine.allocate.rate_cache.os.replace", full)
    assert not RateCache(path).store({"read": CachedRate(2.0)})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_nonsense_is_not_stored(tmp_path: Path) -> None:
    path = tmp_path / "rates.json"
    RateCache(path).store({"a": CachedRate(float("nan")), "b": CachedRate(1.0, cv=-1.0), "c": CachedRate(1.0)})
    assert list(json.loads(path.read_text())["rates"]) == ["c"]


def test_the_file_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("DCURATE_CACHE", raising=False)
    assert cache_file() == tmp_path / "home" / ".cache" / "dcurate" / "rates.json"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_file() == tmp_path / "xdg" / "dcurate" / "rates.json"
    monkeypatch.setenv("DCURATE_CACHE", str(tmp_path / "own"))
    assert cache_file() == tmp_path / "own" / "rates.json"
    assert RateCache().path == cache_file()


def test_the_key_tells_stages_their_order_and_hardware_apart() -> None:
    keys = [key_of(["a", "b"], "cpu"), key_of(["b", "a"], "cpu"), key_of(["a", "b"], "H200"), key_of(["ab"], "cpu")]
    assert len(set(keys)) == 4
    assert key_of(("a", "b"), "cpu") == keys[0]
