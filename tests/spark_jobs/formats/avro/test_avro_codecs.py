"""The block decompressor keeps blocks in one buffer, and the block search pauses if it skips nothing."""

from __future__ import annotations

import pytest
from avro_samples import pack
from hypothesis import given
from hypothesis import strategies as st

from pushdown_spark.expressions.byte_patterns.avro import BlockPattern
from pushdown_spark.formats.avro.block_search import BlockSearch
from pushdown_spark.formats.avro.container_file import AvroCodec, BlockDecompressor

CONTENTS = st.one_of(st.binary(max_size=200), st.integers(0, 400_000).map(lambda size: b"0123456789" * (size // 10)))


@pytest.mark.parametrize("codec", [AvroCodec.NULL, AvroCodec.SNAPPY, AvroCodec.DEFLATE])
@given(blocks=st.lists(st.tuples(CONTENTS, st.booleans(), st.sampled_from(["before", "after", "no"])), max_size=12))
def test_retained_blocks_are_contiguous(codec: AvroCodec, blocks: list[tuple[bytes, bool, str]]) -> None:
    decompressor = BlockDecompressor(codec)
    expected = b""
    for content, is_kept, taken in blocks:
        assert bytes(decompressor.decompress(pack(codec, content))) == content
        if taken == "before":
            assert bytes(decompressor.take_retained_blocks()) == expected
            expected = b""
        if is_kept:
            decompressor.retain()
            expected += content
        if taken == "after":
            assert bytes(decompressor.take_retained_blocks()) == expected
            expected = b""
    assert bytes(decompressor.take_retained_blocks()) == expected


def which_are_searched(search: BlockSearch, blocks: int, content: bytes) -> list[bool]:
    """Return which of several equal blocks were searched."""
    searches = []
    for _ in range(blocks):
        searches.append(not search.is_paused())
        if searches[-1]:
            search.may_match(content)
    return searches


def test_a_search_that_skips_nothing_pauses_longer_each_time() -> None:
    search = BlockSearch([BlockPattern(("needle",), 48.0, "needle")])
    actual = which_are_searched(search, 5 * 32 + 128 + 256 + 512 + 1024, b"a needle")
    rests = [len(run) for run in "".join("x" if tried else "." for tried in actual).split("x" * 32)[1:]]
    assert rests == [128, 256, 512, 1024, 0]
    # After a trial in which most blocks are skipped, the pauses start again at their minimum.
    assert which_are_searched(search, 1024, b"a needle")[1023] is False
    assert all(which_are_searched(search, 64, b"hay"))
    assert which_are_searched(search, 32 + 128 + 32, b"a needle").count(True) == 64
