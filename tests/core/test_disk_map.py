"""The map on disk: equal to a dictionary, in bounded memory, with a sentence when the disk is full."""

import subprocess
import sys
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from dcurate.core import disk_map
from dcurate.core.disk_map import DiskMap

NAMES = st.one_of(st.sampled_from(["", "a", "b", "a\x00b", "é", "\udcff"]), st.text(max_size=3))
FILES = st.lists(st.text(st.characters(exclude_characters="\x00"), max_size=3), max_size=3).map(tuple)

FILL = """
import resource
from dcurate.core import disk_map
from dcurate.core.disk_map import DiskMap
{limit}
splits = DiskMap.of_names()
def add(first, last):
    for number in range(first, last):
        splits.add(f"data/part-{{number:09}}.parquet", (f"/output/part-{{number:09}}-0123456789abcdef.parquet",))
add(0, 100_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
add(100_000, 300_000)
print(len(splits), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def filled(limit: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", FILL.format(limit=limit)], capture_output=True, text=True, timeout=300, check=False
    )


@given(st.lists(st.tuples(st.booleans(), NAMES, FILES), max_size=30), st.sampled_from([1, 2, 5, 100]))
def test_it_is_a_dictionary_in_the_order_of_adding(
    steps: list[tuple[bool, str, tuple[str, ...]]], most_waiting: int
) -> None:
    with patch.object(disk_map, "MOST_WAITING", most_waiting):
        check_dictionary(steps)


def check_dictionary(steps: list[tuple[bool, str, tuple[str, ...]]]) -> None:
    splits, expected = DiskMap.of_names(), dict[str, tuple[str, ...]]()
    for puts, name, files in steps:
        if puts and name in expected:
            splits.put(name, files)
            expected[name] = files
        else:
            assert splits.add(name, files) == (name not in expected)
            expected.setdefault(name, files)
    assert list(splits.items()) == list(expected.items())
    assert len(splits) == len(expected)
    for _, name, _ in steps:
        assert name in splits
        assert splits[name] == splits.get(name) == expected[name]
    assert "not there" not in splits


def test_memory_does_not_grow_with_the_names() -> None:
    ended = filled()
    assert not ended.returncode, ended.stderr
    count, grown_kib = map(int, ended.stdout.split())
    assert count == 300_000
    assert grown_kib < 2_000  # 20 MB and more in a dictionary


def test_a_full_disk_is_named() -> None:
    ended = filled("resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))")
    assert ended.returncode
    last = ended.stderr.strip().rpartition("\n")[2]
    assert "the list of the splits of the run cannot be kept in the temporary folder" in last
    assert "SQLITE_TMPDIR" in last
