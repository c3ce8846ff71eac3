"""The entries of Avro maps are in the order of Spark's reader."""

from __future__ import annotations

import random
from pathlib import Path

import fastavro
import pytest
from pyspark.sql import SparkSession
from spark_rows import sorted_rows

from pushdown_spark.runtime.spark_internals import spark_format
from pushdown_spark.session import PushdownSession

WORDS = ("zeta", "alpha", "mid", "ä", "Ω", "日本", "🦆", "", "a b", "Aa", "BB", "AaAa", "BBBB", "AaBB", "BBAa")
"""Keys: some of them have the same hash in Java."""
TEXT_MAP = {"type": "map", "values": ["null", "string"]}
SCHEMA = {
    "type": "record",
    "name": "maps",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "m", "type": TEXT_MAP},
        {"name": "n", "type": ["null", {"type": "map", "values": "long"}]},
        {
            "name": "s",
            "type": {
                "type": "record",
                "name": "inner",
                "fields": [{"name": "k", "type": TEXT_MAP}, {"name": "x", "type": "int"}],
            },
        },
        {"name": "l", "type": {"type": "array", "items": TEXT_MAP}},
        {"name": "mm", "type": {"type": "map", "values": TEXT_MAP}},
    ],
}
QUERIES = [
    "SELECT id, m FROM t WHERE id > 3",
    "SELECT id, get(map_keys(m), 0) AS first FROM t WHERE get(map_keys(m), 0) >= 'a' AND id > 1",
    "SELECT id, to_json(m) AS j, CAST(m AS STRING) AS c FROM t WHERE id < 50",
    "SELECT id, map_entries(n) AS e FROM t WHERE n IS NOT NULL AND id >= 0",
    "SELECT id, to_json(s) AS j FROM t WHERE s.x < 3",
    "SELECT id, CAST(l AS STRING) AS c FROM t WHERE id BETWEEN 5 AND 40",
    "SELECT id, CAST(mm AS STRING) AS c FROM t WHERE id <> 7",
    "SELECT id, key, value FROM t LATERAL VIEW explode(m) v AS key, value WHERE id < 20",
    "SELECT id FROM t WHERE m['zeta'] = 'value 3' AND id > 1",
    "SELECT id FROM t WHERE to_json(m) LIKE '{\"zeta\"%' AND id > 1",
]
WITHOUT_MAPS = ["SELECT id FROM t WHERE id = 7", "SELECT id, s.x FROM t WHERE s.x = 2 AND id > 3"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write files with maps of 0 to 90 entries with fastavro, in random order."""
    rng = random.Random(20_261_125)

    def text_map(most: int) -> dict[str, str | None]:
        keys = [rng.choice(WORDS) + rng.choice(("", "", str(rng.randrange(50)))) for _ in range(rng.randint(0, most))]
        rng.shuffle(keys)
        return {key: rng.choice((None, f"value {rng.randrange(5)}")) for key in keys}

    records = [
        {
            "id": number,
            "m": text_map(rng.choice((1, 3, 12, 13, 90))),
            "n": rng.choice((None, {key: rng.randrange(9) for key in text_map(20)})),
            "s": {"k": text_map(6), "x": number % 5},
            "l": [text_map(4) for _ in range(rng.randint(0, 3))],
            "mm": {key: text_map(5) for key in text_map(8)},
        }
        for number in range(300)
    ]
    directory = tmp_path_factory.mktemp("maps")
    for part in range(2):
        with (directory / f"{part}.avro").open("wb") as target:
            fastavro.writer(target, SCHEMA, records[part::2], codec="deflate", sync_interval=2_000)
    return directory


def _ran(spark: SparkSession, files: Path, reader: str, query: str) -> str:
    """Compare a query's rows with those of Spark's own source. Return the reader that ran."""
    spark.read.format(spark_format("avro")).load(str(files)).createOrReplaceTempView("t")
    expected = sorted_rows(spark.sql(query))
    spark.catalog.dropTempView("t")
    assert expected
    session = PushdownSession(spark)
    session.add_source("t", path=str(files), format="avro", reader=reader)
    result = session.sql(query)
    assert result.run(sorted_rows) == expected
    return result.report()["t"].reader


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("reader", ["auto", "pushdown"])
def test_files_with_maps_are_read_by_spark_with_every_reader(
    spark: SparkSession, files: Path, reader: str, query: str
) -> None:
    assert _ran(spark, files, reader, query) == "spark"


@pytest.mark.parametrize("query", WITHOUT_MAPS)
def test_maps_that_are_not_selected_do_not_prevent_pushdown(spark: SparkSession, files: Path, query: str) -> None:
    assert _ran(spark, files, "pushdown", query) == "pushdown"
