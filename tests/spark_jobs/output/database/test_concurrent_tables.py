"""Concurrent runs that change one table: the rows are those of the runs one after the other."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from interrupted_tables import OLD, TableWrite, write_once
from table_databases import KINDS, Database, open_database

from pushdown_spark.contract import OutputMode

ROUNDS = [3, pytest.param(50, marks=pytest.mark.nightly)]
Rows = list[tuple[object, ...]]


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    return open_database(request.param, request, tmp_path)


def race(database: Database, runs: dict[str, tuple[TableWrite, Rows]]) -> Rows:
    """Write all runs at the same time. Return the rows of the table."""
    ready = threading.Barrier(len(runs))

    def write(run: str) -> None:
        case, rows = runs[run]
        ready.wait()
        write_once(database, case, run, partitions=[rows[:1], rows[1:]])

    with ThreadPoolExecutor(len(runs)) as threads:
        list(threads.map(write, runs))
    assert database.tables() == ["t"]
    assert database.rows("SELECT state, count(*) FROM airflow_pushdown_runs GROUP BY state") == [
        ("committed", len(runs))
    ]
    return sorted(database.rows("SELECT id, day, x FROM t"), key=str)


@pytest.mark.parametrize("rounds", ROUNDS)
def test_runs_replace_disjoint_rows(database: Database, rounds: int) -> None:
    for _ in range(rounds):
        case = {day: TableWrite(OutputMode.OVERWRITE_PARTITIONS, True, f"day = '{day}'") for day in "abc"}
        case["a"].prepare(database)
        rows: dict[str, Rows] = {day: [(10, day, f"{day} 1"), (11, day, f"{day} 2")] for day in "abc"}
        actual = race(database, {day: (case[day], rows[day]) for day in "abc"})
        assert actual == sorted([*rows["a"], *rows["b"], *rows["c"]], key=str)


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("mode", [OutputMode.OVERWRITE_PARTITIONS, OutputMode.MERGE, OutputMode.OVERWRITE])
def test_the_rows_of_one_of_two_runs_with_equal_keys_remain(database: Database, mode: OutputMode, rounds: int) -> None:
    for _ in range(rounds):
        case = TableWrite(mode, has_table=True, replace_where="id > 1")
        case.prepare(database)
        database.execute("DELETE FROM t WHERE id = 2")
        rows: dict[str, Rows] = {run: [(number, "b", run) for number in range(2, 30)] for run in ("A", "B")}
        actual = race(database, {run: (case, rows[run]) for run in rows})
        rest = [] if mode is OutputMode.OVERWRITE else [OLD[0]]
        assert actual in [sorted([*rest, *rows[run]], key=str) for run in rows]


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("has_table", [True, False], ids=["existing", "missing"])
def test_concurrent_appends_are_all_kept(database: Database, has_table: bool, rounds: int) -> None:
    for _ in range(rounds):
        case = TableWrite(OutputMode.APPEND, has_table)
        case.prepare(database)
        rows: dict[str, Rows] = {run: [(number, "b", run) for number in range(5)] for run in ("A", "B", "C")}
        actual = race(database, {run: (case, rows[run]) for run in rows})
        assert actual == sorted([*(OLD if has_table else []), *rows["A"], *rows["B"], *rows["C"]], key=str)
