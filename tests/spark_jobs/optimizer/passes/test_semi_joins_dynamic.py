"""Keys of a small, filtered source reach the reader of a large one if that pays."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from spark_rows import sorted_rows

from pushdown_spark.contract import JoinOptions
from pushdown_spark.errors import ChangedFilesError
from pushdown_spark.result import PushdownResult
from pushdown_spark.runtime.error_classification import classify, pushdown_error
from pushdown_spark.session import PushdownSession

EVENTS = "id int, device string, kind int, note string"
DEVICES = "device string, owner string, place int"
SOME = JoinOptions(min_bytes=50_000)

Plan = Callable[..., PushdownResult]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write 6,000 events of 300 devices, some without a device, and the devices, three of which have the owner `me`."""
    root = tmp_path_factory.mktemp("reduction")
    for name in ("events", "devices"):
        (root / name).mkdir()
    with (root / "events" / "events.json").open("w") as file:
        for number in range(6_000):
            device = None if number % 50 == 49 else f"d{number % 300:03}"
            row = {"id": number, "device": device, "kind": number % 7, "note": "x" * 60}
            file.write(json.dumps(row) + "\n")
    write_devices(root, mine=(5, 55, 255))
    return root


def write_devices(root: Path, mine: Collection[int]) -> None:
    """Write the devices, of which those with the numbers `mine` have the owner `me`."""
    with (root / "devices" / "devices.json").open("w") as file:
        for number in range(300):
            owner = "me" if number in mine else None if number == 7 else "you"
            file.write(json.dumps({"device": f"d{number:03}", "owner": owner, "place": number % 3}) + "\n")


@pytest.fixture
def plan(spark: SparkSession, tables: Path) -> Plan:
    def plan_query(query: str, joins: JoinOptions = SOME, reader: str = "pushdown") -> PushdownResult:
        session = PushdownSession(spark)
        for name, schema in (("events", EVENTS), ("devices", DEVICES)):
            session.add_source(name, path=str(tables / name), format="json", schema=schema, reader=reader)
        return session.sql(query, joins)

    return plan_query


def is_reduced(result: PushdownResult) -> bool:
    return any(" IN " in conjunct.sql for conjunct in result.report()["events"].conjuncts)


JOIN = "SELECT e.id FROM events e JOIN devices d ON e.device = d.device WHERE d.owner = 'me'"


@pytest.mark.parametrize(
    "query",
    [
        JOIN,
        "SELECT d.place, count(*) FROM devices d, events e WHERE d.device = e.device AND d.owner = 'me' GROUP BY 1",
        """SELECT e.id, p.owner FROM events e JOIN devices d ON e.device = d.device
            LEFT JOIN devices p ON p.device = e.note JOIN devices q ON q.device = d.device WHERE d.owner = 'me'""",
        f"SELECT count(*) FROM ({JOIN}) AS x",
    ],
)
def test_keys_become_a_predicate_and_the_rows_stay_the_same(query: str, plan: Plan) -> None:
    result = plan(query)
    (listed,) = [each for each in result.report()["events"].conjuncts if " IN " in each.sql]
    assert listed.sql == "device IN ('d005', 'd055', 'd255')"
    assert listed.pushed_as is not None
    assert result.run(sorted_rows) == sorted_rows(plan(query, JoinOptions(reorder=False), "spark").df)
    report = result.report()["events"]
    assert report.rows_decoded is not None
    assert report.rows_decoded < 200
    assert any("3 values of device" in note for note in report.notes)


@pytest.mark.parametrize(
    "query",
    [
        JOIN.replace("JOIN devices", "LEFT JOIN devices").replace("WHERE", "AND"),
        JOIN.replace("JOIN devices", "LEFT ANTI JOIN devices").replace("WHERE", "AND"),
        JOIN.replace("JOIN devices", "FULL JOIN devices"),
        JOIN.replace("d.owner = 'me'", "d.owner IS NOT NULL"),
        JOIN.replace("d.owner = 'me'", "e.kind = 3"),
        JOIN.replace("e.device = d.device", "e.device <=> d.device"),
        JOIN.replace("e.device = d.device", "e.device = d.device OR e.kind = 1"),
        JOIN.replace("events e", "events TABLESAMPLE (50 PERCENT) REPEATABLE (3) e"),
    ],
)
def test_unsafe_and_unprofitable_semi_joins_are_skipped(query: str, plan: Plan) -> None:
    assert not is_reduced(plan(query))


def test_small_sources_spark_readers_and_the_switch_prevent_semi_joins(plan: Plan) -> None:
    assert not is_reduced(plan(JOIN, JoinOptions(min_bytes=2_000_000)))
    assert not is_reduced(plan(JOIN, SOME, "spark"))
    assert not is_reduced(plan(JOIN, JoinOptions(reorder=False)))
    assert is_reduced(plan(JOIN))


def test_a_small_side_without_keys_changes_nothing(plan: Plan) -> None:
    query = JOIN.replace("'me'", "'nobody'")
    assert plan(query).run(sorted_rows) == []


@pytest.mark.parametrize("reader", ["pushdown", "auto"])
def test_a_planned_query_fails_if_the_small_side_gets_other_keys(reader: str, plan: Plan, tables: Path) -> None:
    result = plan(JOIN, reader=reader)
    # Spark keeps the small side of a DataFrame that has run, but not of others over it.
    frame = result.df
    rows = sorted_rows(frame.select("id"))
    try:
        write_devices(tables, mine=(5, 55))
        assert 0 < len(sorted_rows(frame.select("id"))) < len(rows), "fewer keys lose no row"
        write_devices(tables, mine=(5, 56, 255))
        for act in (frame.count, lambda: result.run(sorted_rows)):
            with pytest.raises(Exception, match="files of devices have changed since the query was planned") as failure:
                act()
            assert isinstance(pushdown_error(failure.value), ChangedFilesError)
            assert classify(failure.value).retryable
        assert plan(JOIN, reader=reader).run(sorted_rows) == sorted_rows(plan(JOIN, SOME, "spark").df)
    finally:
        write_devices(tables, mine=(5, 55, 255))
    assert sorted_rows(frame) == rows


def test_keys_that_are_not_utf_8_are_not_listed(spark: SparkSession, tmp_path: Path) -> None:
    for name, count in (("large", 6_000), ("small", 2)):
        key = "CAST(concat(X'ff', CAST(CAST(id % 300 AS STRING) AS BINARY)) AS STRING) AS k"
        rows = spark.range(count).selectExpr(key, "id AS x", "uuid() AS note").coalesce(1)
        rows.write.option("compression", "none").orc(str(tmp_path / name))
    session = PushdownSession(spark)
    for name in ("large", "small"):
        session.add_source(name, path=str(tmp_path / name), format="orc", reader="pushdown")
    result = session.sql("SELECT l.x FROM large l JOIN small s ON l.k = s.k WHERE s.x = 1", SOME)
    assert result.run(lambda frame: frame.count()) == 20


def test_keys_that_need_escapes_are_not_listed(spark: SparkSession, tmp_path: Path) -> None:
    for name, count in (("large", 6_000), ("small", 2)):
        (tmp_path / name).mkdir()
        lines = (json.dumps({"k": f"it's {n % 300}", "x": n, "note": "y" * 40}) for n in range(count))
        (tmp_path / name / "rows.json").write_text("\n".join(lines))
    session = PushdownSession(spark)
    for name in ("large", "small"):
        schema = "k string, x int, note string"
        session.add_source(name, path=str(tmp_path / name), format="json", schema=schema, reader="pushdown")
    result = session.sql("SELECT l.x FROM large l JOIN small s ON l.k = s.k WHERE s.x = 1", SOME)
    assert not any(" IN " in each.sql for each in result.report()["large"].conjuncts)
    assert len(result.run(sorted_rows)) == 20
