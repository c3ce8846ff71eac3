"""Rows over Spark Connect equal those of Spark's reader on the same server, with its filter pushdown off."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest
from connect_server import run_connect_server
from oracle import TextCase
from seeds import few_and_many
from test_odd_lines import CSV, JSON, OddFile

from pushdown_spark.contract import SourceFormat
from pushdown_spark.projection.schema_alignment import ddl

CLIENT = """
import json, sys
from pushdown_spark.connect.query import plan_query
from pushdown_spark.contract import QuerySpec, SourceSpec
from pushdown_spark.expressions.session_settings import temporary_settings
from pushdown_spark.formats.spark_reader.spark_scan import FILTER_SETTINGS
from pushdown_spark.sources.declaration import Source
from pushdown_spark.runtime.error_classification import classify
from pushdown_spark.connect.connect_session import connect_session

def scan(spark, source, query, **reader):
    sources = {"source": Source.of("source", SourceSpec.model_validate({**source, **reader}))}
    query = query if "sql" in query else {"source": "source", **query}
    result = plan_query(spark, sources, QuerySpec.model_validate(query))
    columns = lambda frame: ", ".join(f"`{name.replace('`', '``')}`" for name in frame.columns)
    rows = result.run(lambda frame: frame.selectExpr(f"to_json(struct({columns(frame)}))").collect())
    assert all(spark.conf.get(setting) == "true" for setting in FILTER_SETTINGS.values()), "a query changed the session"
    assert result.rows == len(rows)
    return sorted(str(row[0]) for row in rows), result.report()["source"].model_dump(mode="json")

SPARK_READER = {"reader": "spark", "filter_pushdown": False}

with connect_session(sys.stdin.readline().strip(), {}) as spark:
    for setting in FILTER_SETTINGS.values():
        spark.conf.set(setting, "true")
    for line in sys.stdin:
        asked = json.loads(line)
        answer = {}
        with temporary_settings(spark, asked["settings"]):
            for name, reader in {"expected": SPARK_READER, "actual": {"reader": asked["reader"]}}.items():
                try:
                    answer[name], answer["report"] = scan(spark, asked["source"], asked["query"], **reader)
                except Exception as problem:
                    answer[name] = answer["report"] = classify(problem).message
        print("ANSWER", json.dumps(answer), flush=True)
"""

Ask = Callable[..., dict[str, object]]
ODDNESS = (0.005, 0.02, 0.15)
"""Odd lines are rare, because Spark's reader replaces the search at the first one that it finds."""


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Return a function that scans a source by both readers, in one session of a server."""
    pytest.importorskip("grpc")
    directory = tmp_path_factory.mktemp("connect")
    with run_connect_server(sys.executable, directory) as server, (directory / "client.log").open("w") as log:
        client = subprocess.Popen(
            [sys.executable, "-c", CLIENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
        assert client.stdin is not None
        assert client.stdout is not None
        print(server.url, file=client.stdin, flush=True)

        def send(
            source: dict[str, object], query: dict[str, object], reader: str = "pushdown", **settings: str
        ) -> dict[str, object]:
            request = {"source": source, "query": query, "reader": reader, "settings": settings}
            print(json.dumps(request), file=client.stdin, flush=True)
            line = next((line for line in client.stdout if line.startswith("ANSWER ")), None)
            assert line is not None, (directory / "client.log").read_text()
            response: dict[str, object] = json.loads(line.removeprefix("ANSWER "))
            return response

        yield send
        client.stdin.close()
        client.wait()


def check(
    ask: Ask, source: dict[str, object], query: dict[str, object], reader: str = "pushdown", **settings: str
) -> dict[str, object]:
    """Assert that the rows of both readers are equal, and return the answer."""
    response = ask(source, query, reader, **settings)
    assert response["actual"] == response["expected"], (source, query, settings)
    return response


def random_case(ask: Ask, source_format: SourceFormat, seed: int, path: Path, predicates: int) -> int:
    """Check the predicates of a random case. Return how many of them our reader searched."""
    case = TextCase.generate(source_format, seed, lines=60, predicates=predicates, oddness=ODDNESS)
    path.write_bytes(case.content)
    source = {"format": source_format.value, "path": [str(path)], "schema": ddl(case.schema), "options": case.options}
    settings = {"spark.sql.ansi.enabled": str(case.ansi).lower(), **case.settings}
    search_count = 0
    for predicate in case.predicates:
        response = ask(source, {"where": predicate}, **settings)
        # A reader may drop the row at which the predicate fails.
        if isinstance(response["expected"], str):
            continue
        assert response["actual"] == response["expected"], (seed, predicate, case.options, settings)
        search_count += isinstance(response["report"], dict) and response["report"]["reader"] == "pushdown"
    return search_count


@pytest.mark.parametrize(
    ("seeds", "predicates", "searched"), few_and_many((range(2), 3, 1), (range(100, 140), 10, 41)), ids=str
)
@pytest.mark.parametrize("source_format", [SourceFormat.JSON, SourceFormat.CSV])
def test_random_lines_return_sparks_rows(
    ask: Ask, source_format: SourceFormat, tmp_path: Path, seeds: range, predicates: int, searched: int
) -> None:
    """At least `searched` of the predicates must be searched by the pushdown reader."""
    path = tmp_path / f"data.{source_format.value}"
    assert sum(random_case(ask, source_format, seed, path, predicates) for seed in seeds) >= searched


ODD = {("csv", name): odd for name, odd in CSV.items()} | {("json", name): odd for name, odd in JSON.items()}
FEW = [("csv", "a mark in the file"), ("csv", "a blank line"), ("json", "a letter in an escape")]


@pytest.mark.parametrize(
    "key", [key if key in FEW else pytest.param(key, marks=pytest.mark.nightly) for key in ODD], ids=" ".join
)
def test_odd_lines_are_left_to_sparks_reader(ask: Ask, key: tuple[str, str], tmp_path: Path) -> None:
    """Lines that Spark parses differently in a file are left to Spark's reader, while the query runs."""
    odd: OddFile = ODD[key]
    path = tmp_path / f"data.{key[0]}"
    path.write_bytes(odd.content)
    source = {"format": key[0], "path": [str(path)], "schema": odd.schema, "options": odd.options}
    response = check(ask, source, {"where": odd.where, "columns": odd.columns}, **odd.settings)
    assert len(response["expected"]) == odd.kept
    report = response["report"]
    assert isinstance(report, dict)
    assert odd.searched or report["reader"] == "spark", report["reason"]


def table() -> pa.Table:
    rows = 500
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "kind": [f"kind {number % 7}" if number % 11 else None for number in range(rows)],
            "place": [{"city": f"city {number % 5}", "zip": number} for number in range(rows)],
        }
    )


def write_avro(rows: pa.Table, path: str) -> None:
    place = {
        "type": "record",
        "name": "p",
        "fields": [{"name": "city", "type": "string"}, {"name": "zip", "type": "long"}],
    }
    fields = [("id", "long"), ("kind", ["null", "string"]), ("place", place)]
    schema = {"type": "record", "name": "r", "fields": [{"name": name, "type": kind} for name, kind in fields]}
    with Path(path).open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema), rows.to_pylist())


WRITERS = {"parquet": pyarrow.parquet.write_table, "orc": pyarrow.orc.write_table, "avro": write_avro}


@pytest.mark.parametrize("source_format", WRITERS)
def test_other_formats_are_read_by_the_server(ask: Ask, source_format: str, tmp_path: Path) -> None:
    WRITERS[source_format](table(), str(tmp_path / f"data.{source_format}"))
    source = {"format": source_format, "path": [str(tmp_path)]}
    query = {"columns": ["id", "place.city"], "where": "kind = 'kind 3' AND place.zip > 100"}
    response = check(ask, source, query)
    ids = [row["id"] for row in table().to_pylist() if row["kind"] == "kind 3" and row["place"]["zip"] > 100]
    assert sorted(json.loads(row)["id"] for row in response["expected"]) == ids
    report = response["report"]
    assert (report["reader"], report["reason"]) == ("spark", "Spark Connect has no JVM gateway")
    assert [conjunct["exactness"] for conjunct in report["conjuncts"]] == ["unsupported"] * 2
    assert (report["bytes_read"], report["files_read"], report["rows_returned"]) == (None, None, len(ids))


FLOATS = pa.table({"id": [0, 1, 2, 3], "x": [0.0, -0.0, float("nan"), 5.0], "day": [-141432, -141427, 0, 0]})
LINES = '{"id": 0, "x": 1.5}\n{"x": 2.5}\n{"id": 2, "x": }\n'
KEY_TWICE = '{"id": 3, "x": 0.5, "id": 4}\n'
"""A line that `auto` may lose."""


def write_floats(source_format: str, directory: Path, lines: str) -> None:
    """Write files with few rows, so that their statistics exclude other values."""
    if source_format == "json":
        (directory / "data.json").write_text(lines)
        return
    rows = FLOATS.set_column(2, "day", FLOATS["day"].cast(pa.int32()).cast(pa.date32()))
    for first, count in ((0, 1), (1, 1), (2, 2)):
        WRITERS[source_format](rows.slice(first, count), str(directory / f"{first}.{source_format}"))


@pytest.mark.parametrize("reader", ["auto", "pushdown"])
@pytest.mark.parametrize("where", ["x > 7", "x >= 0.0 AND x < 1", "day = DATE'1582-10-10'", "id IS NULL", "id = 4"])
@pytest.mark.parametrize("source_format", ["parquet", "orc", "json"])
def test_filters_of_the_server_lose_no_rows(
    ask: Ask, source_format: str, where: str, reader: str, tmp_path: Path
) -> None:
    write_floats(source_format, tmp_path, LINES if reader == "auto" else LINES + KEY_TWICE)
    # Only Spark's reader can read the last column.
    schema = "id bigint, x double, day date, more array<array<string>>"
    check(ask, {"format": source_format, "path": [str(tmp_path)], "schema": schema}, {"where": where}, reader)


@pytest.mark.parametrize("reader", ["auto", "pushdown"])
@pytest.mark.parametrize("source_format", ["parquet", "orc", "json"])
def test_filters_of_whole_queries_lose_no_rows(ask: Ask, source_format: str, reader: str, tmp_path: Path) -> None:
    write_floats(source_format, tmp_path, LINES + KEY_TWICE)
    source = {"format": source_format, "path": [str(tmp_path)], "schema": "id bigint, x double, day date"}
    queries = (
        "SELECT * FROM source WHERE x > 7",
        "SELECT a.id FROM source AS a JOIN source AS b ON a.x = b.x AND b.x >= 0.0",
        "SELECT day, count(*) AS n FROM source GROUP BY day HAVING day = DATE'1582-10-10'",
        "SELECT * FROM source WHERE id IS NULL OR id = 4",
    )
    rows = [check(ask, source, {"sql": sql}, reader)["expected"] for sql in queries]
    assert all(isinstance(actual, list) for actual in rows)
    assert any(rows)


def test_a_header_line_with_the_searched_string_is_not_returned_as_a_row(ask: Ask, tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.csv").write_text("\n# kind\nid,kind\n1,kind\n2,other\n")
    options = {"header": "true", "comment": "#"}
    source = {"format": "csv", "path": [str(tmp_path)], "schema": "id int, kind string", "options": options}
    response = check(ask, source, {"where": "kind = 'kind'"})
    assert len(response["expected"]) == 3
    assert response["report"]["reason"] == "the header of a file has a string of the predicate"
    response = check(ask, source, {"where": "kind = 'other'"})
    assert len(response["expected"]) == 3
    assert (response["report"]["reader"], response["report"]["carrier"]) == ("pushdown", "jvm")


def test_partition_columns_are_left_to_spark(ask: Ask, tmp_path: Path) -> None:
    for day in (1, 2):
        (tmp_path / f"day={day}").mkdir()
        (tmp_path / f"day={day}" / "a.json").write_text('{"id": 1, "kind": "x"}\n{"id": 2, "kind": "y"}\n')
    source = {"format": "json", "path": [str(tmp_path)], "schema": "id int, kind string"}
    response = check(ask, source, {"where": "kind = 'x' AND day = 2"})
    assert [json.loads(row) for row in response["expected"]] == [{"id": 1, "kind": "x", "day": 2}]
    assert "partition columns" in response["report"]["reason"]
