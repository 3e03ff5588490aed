from hypothesis import given
from hypothesis import strategies as st

from dcurate import BatchKey, FileGroup
from dcurate.core.batch import FilePart

paths = st.lists(st.integers(0, 50), max_size=4).map(tuple)


@given(one=paths, other=paths)
def test_keys_of_different_batches_have_different_digests(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    same = BatchKey("a.jsonl", one) == BatchKey("a.jsonl", other)
    assert same == (BatchKey("a.jsonl", one).digest == BatchKey("a.jsonl", other).digest)


def test_the_digest_of_a_key_never_changes() -> None:
    assert BatchKey("part-00.jsonl", (0, 3)).digest == "e1325909734d"


def test_a_group_has_another_version_when_a_file_or_range_of_it_has() -> None:
    part = FilePart("a", 0, 10, 100, "v1")
    versions = {
        FileGroup(parts=parts).version
        for parts in [(part,), (FilePart("a", 0, 10, 100, "v2"),), (FilePart("a", 0, 20, 100, "v1"),), (part, part)]
    }
    assert len(versions) == 4
