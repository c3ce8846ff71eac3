"""Chunks of every codec are decompressed, and damaged chunks never take more memory than a block."""

from __future__ import annotations

import random
import zlib

import cramjam
import pyarrow as pa
import pytest
from orc_samples import CODECS, write_sample

from pushdown_spark.formats.orc.compression import HEADER, Codec, CompressionKind, spans

BLOCK = 4096
TEXT = b"".join(b"row %d;" % number for number in range(400))
COMPRESSED = [compression for compression in CompressionKind if compression is not CompressionKind.NONE]


def deflate(data: bytes) -> bytes:
    maker = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return maker.compress(data) + maker.flush()


def store_block(compression: CompressionKind, data: bytes) -> bytes:
    packers = {
        CompressionKind.ZLIB: deflate,
        CompressionKind.SNAPPY: lambda raw: bytes(cramjam.snappy.compress_raw(raw)),
        CompressionKind.LZ4: lambda raw: bytes(cramjam.lz4.compress_block(raw, store_size=False)),
        CompressionKind.ZSTD: lambda raw: bytes(cramjam.zstd.compress(raw)),
    }
    content = packers[compression](data)
    return (len(content) << 1).to_bytes(HEADER, "little") + content


@pytest.mark.parametrize("compression", COMPRESSED)
def test_chunks_are_decompressed(compression: CompressionKind) -> None:
    codec = Codec(compression, BLOCK)
    plain = (5 << 1 | 1).to_bytes(HEADER, "little") + b"plain"
    data = store_block(compression, TEXT[:3000]) + plain + store_block(compression, TEXT[:100])
    assert codec.decompress(data) == TEXT[:3000] + b"plain" + TEXT[:100]
    assert len(list(spans(data))) == 3


@pytest.mark.parametrize("compression", COMPRESSED)
def test_chunks_of_any_content_are_decompressed(compression: CompressionKind) -> None:
    """They include LZ4 blocks that begin with bytes like their own length."""
    rng = random.Random(1)
    codec = Codec(compression, 1 << 18)
    likely = bytes(5) + b"\x80" * 14
    for _ in range(400):
        content = bytes(rng.choices(range(rng.choice((1, 2, 3, 256))), k=rng.randint(1, 4000)))
        assert codec.decompress(store_block(compression, content)) == content
    assert codec.decompress(store_block(compression, likely)) == likely


@pytest.mark.parametrize("compression", COMPRESSED)
@pytest.mark.parametrize("most", [0, 1, 999, 3000, 5000])
def test_the_beginning_of_a_chunk_is_decompressed_alone(compression: CompressionKind, most: int) -> None:
    data = store_block(compression, TEXT[:3000])
    assert Codec(compression, BLOCK).chunk(data, 0, len(data), most)[:most] == TEXT[: min(most, 3000)]


@pytest.mark.parametrize("compression", CompressionKind)
def test_stored_chunks_are_read_back(compression: CompressionKind) -> None:
    codec = Codec(compression, 100)
    chunks = codec.store_uncompressed(TEXT)
    assert codec.decompress(chunks) == TEXT
    assert (chunks == TEXT) is (compression is CompressionKind.NONE)


@pytest.mark.parametrize("compression", COMPRESSED)
def test_a_chunk_larger_than_a_block_is_rejected(compression: CompressionKind) -> None:
    bomb = store_block(compression, bytes(1_000_000))
    with pytest.raises(ValueError, match="chunk"):
        Codec(compression, BLOCK).decompress(bomb)


@pytest.mark.parametrize("data", [b"\x01", b"\x01\x00", b"\x0b\x00\x00abcd", b"\x0a\x00\x00"])
def test_truncated_chunks_are_rejected(data: bytes) -> None:
    with pytest.raises(ValueError, match="truncated"):
        Codec(CompressionKind.ZLIB, BLOCK).decompress(data)


def test_truncated_deflate_data_is_rejected() -> None:
    whole = deflate(TEXT)
    for length in range(1, len(whole) - 1, 50):
        data = (length << 1).to_bytes(HEADER, "little") + whole[:length]
        with pytest.raises(ValueError, match="chunk"):
            Codec(CompressionKind.ZLIB, BLOCK).decompress(data)


@pytest.mark.parametrize("compression", COMPRESSED)
def test_damage_only_raises_value_errors(compression: CompressionKind) -> None:
    rng = random.Random(5)
    data = store_block(compression, TEXT[:3000])
    codec = Codec(compression, BLOCK)
    failures = 0
    for _ in range(500):
        damaged_data = bytearray(data)
        damaged_data[rng.randrange(HEADER, len(data))] ^= 1 << rng.randrange(8)
        try:
            assert len(codec.decompress(bytes(damaged_data))) <= BLOCK
        except ValueError:
            failures += 1
    assert failures > 20


@pytest.mark.parametrize("codec", CODECS)
def test_files_of_every_codec_are_opened(codec: str) -> None:
    table = pa.table({"a": list(range(5000)), "s": [f"text {number % 7}" for number in range(5000)]})
    sample = write_sample(table, compression=codec, row_index_stride=100)
    assert sample.tail.footer.number_of_rows == 5000
    assert sample.stripe().group_count == 50
