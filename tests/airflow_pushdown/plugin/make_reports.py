"""Reports of real jobs, which the tests and the pictures of the report page use.

PYTHONPATH=.:spark_jobs .venv-spark/bin/python tests/airflow_pushdown/plugin/make_reports.py

It runs each job on this machine and writes its result to `reports/<name>.json`. Paths in the results begin with
`/data`, so that they do not depend on the machine.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import fastavro
from pyspark.sql import DataFrame, Row, SparkSession

from pushdown_spark.contract import JobResult, JobSpec
from pushdown_spark.job import JobRun

REPORTS = Path(__file__).parent / "reports"
ROWS = 300_000
FILES = 6
DAYS = 12
SCHEMA = "id bigint, day string, tailnum string, carrier string, dep_delay int, note string"
CONF = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
}
AVRO_SCHEMA = {
    "type": "record",
    "name": "flight",
    "fields": [
        {"name": name, "type": kind}
        for name, kind in (
            ("id", "long"),
            ("day", "string"),
            ("tailnum", "string"),
            ("carrier", "string"),
            ("dep_delay", "int"),
            ("note", "string"),
        )
    ],
}
SNOWFLAKE = 20
CUSTOMERS = {"format": "remote", "table": "customers"}

Spec = dict[str, Any]


def main() -> None:
    """Run all jobs. With names as arguments, run only these."""
    data = Path(tempfile.mkdtemp(prefix="reports-"))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    chosen = set(sys.argv[1:])
    try:
        write_data(data)
        REPORTS.mkdir(exist_ok=True)
        for name, spec in jobs(data):
            if chosen and name not in chosen:
                continue
            result = JobRun(JobSpec.model_validate({"run_key": name, "conf": CONF, **spec})).execute()
            (REPORTS / f"{name}.json").write_text(neutral(result, data), "utf-8")
            print(name, result.rows, result.error.code.value if result.error else "", flush=True)
    finally:
        shutil.rmtree(data)


def neutral(result: JobResult, data: Path) -> str:
    """Return a result as JSON without tracebacks, and with paths that do not depend on the machine."""
    report = result.as_xcom()
    for outcome in (report, *report["scans"].values()):
        if error := outcome["error"]:
            error["traceback"] = f"Traceback of {error['error_class']}"
    text = json.dumps(report, indent=1)
    return text.replace(str(data), "/data") + "\n"


def write_data(data: Path) -> None:
    """Write the files of all sources, and a SQLite database."""
    session = SparkSession.builder.config(map=CONF).getOrCreate()
    flights = flights_of(session).repartition(FILES, "id")
    for file_format in ("json", "csv", "orc", "parquet"):
        options = {"orc.row.index.stride": "2000"} if file_format == "orc" else {}
        flights.write.format(file_format).options(**options).save(str(data / file_format))
    write_avro(flights.collect(), data / "avro")
    flights.sort("tailnum").write.parquet(str(data / "parquet_sorted"))
    flights.limit(20_000).repartition(200).write.orc(str(data / "small_files"))
    flights.limit(20_000).select("note").write.text(str(data / "text"))
    for number in range(SNOWFLAKE):
        dimension(session, number).write.option("header", "true").csv(str(data / f"dim_{number}"))
    keys = ", ".join(f"id % {number * 7 + 5} AS key_{number}" for number in range(SNOWFLAKE))
    session.sql(f"SELECT id, {keys} FROM range(20000)").write.parquet(str(data / "facts"))
    session.stop()
    with sqlite3.connect(data / "shop.db") as database:
        database.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, city TEXT, since TEXT)")
        cities = ("Rome", "Oslo", "Lima", "Kyiv")
        rows = ((number, cities[number % 4], f"20{number % 24:02}-01-01") for number in range(5_000))
        database.executemany("INSERT INTO customers VALUES (?, ?, ?)", rows)


def write_avro(rows: Sequence[Row], directory: Path) -> None:
    """Write rows as Avro files, which Spark without its Avro module cannot."""
    directory.mkdir()
    for number in range(FILES):
        with (directory / f"{number}.avro").open("wb") as file:
            fastavro.writer(file, AVRO_SCHEMA, (row.asDict() for row in rows[number::FILES]), codec="deflate")


def flights_of(session: SparkSession) -> DataFrame:
    """Return rows that resemble flights. Every column depends on the row's number only."""
    return session.range(ROWS).selectExpr(
        "id",
        f"date_format(date_add(DATE'2026-01-01', CAST(id % {DAYS} AS INT)), 'yyyy-MM-dd') AS day",
        "concat('N', lpad(CAST(pmod(hash(id), 4000) AS STRING), 4, '0')) AS tailnum",
        "element_at(array('UA', 'AA', 'DL', 'B6', 'WN'), CAST(id % 5 AS INT) + 1) AS carrier",
        "CAST(pmod(hash(id, 7), 240) - 30 AS INT) AS dep_delay",
        "sha2(CAST(id AS STRING), 256) AS note",
    )


def dimension(session: SparkSession, number: int) -> DataFrame:
    """Return a small table whose key `k` occurs in `facts`. Later tables are larger and keep fewer rows."""
    return session.range(number * 7 + 5).selectExpr("id AS k", "concat('name ', id) AS name", "id % 9 AS part")


def jobs(data: Path) -> Iterator[tuple[str, Spec]]:
    yield from scans(data)
    yield from joins(data)
    yield from failures(data)
    for number in range(3):
        where = f"carrier = '{('UA', 'B6', 'WN')[number]}' AND dep_delay > {200 + number}"
        yield f"mapped_{number}", one_source(source(data, "avro"), where=where)


def scans(data: Path) -> Iterator[tuple[str, Spec]]:
    """Yield jobs over one source, for each format and for Spark's reader."""
    needle = "tailnum = 'N0042' AND dep_delay > 20 AND upper(carrier) = 'UA'"
    yield (
        "json",
        {
            **one_source(source(data, "json"), where=needle, columns=["id", "tailnum", "dep_delay", "day"]),
            "output": {
                "path": str(data / "out" / "late"),
                "mode": "overwrite_partitions",
                "partition_by": ["day"],
                "checks": {"min_rows": 1, "not_null": ["tailnum"]},
            },
        },
    )
    yield "csv", one_source(source(data, "csv"), where="note LIKE '%ffff0%' AND dep_delay > 20")
    for file_format in ("avro", "orc", "parquet"):
        yield file_format, one_source(source(data, file_format), where="tailnum = 'N0042'", columns=["id", "note"])
    yield "parquet_sorted", one_source(source(data, "parquet", "parquet_sorted"), where="tailnum = 'N0042'")
    yield "small_files", one_source(source(data, "orc", "small_files"), where="tailnum = 'N0042'")
    yield "text", one_source(source(data, "text", reader="auto"), where="value LIKE '%ffff0%'")
    yield "table", {**one_source(CUSTOMERS, where="city = 'Rome' AND since > '2020'"), **shop(data)}
    yield "scans", several_scans(data)
    yield "auto", one_source(source(data, "json", reader="auto"), where="tailnum = 'N0042'")
    yield "spark_reader", one_source(source(data, "parquet", reader="spark"), where="tailnum = 'N0042'")
    yield "fallback", one_source(source(data, "json", reader="auto"), where="upper(carrier) = 'UA'")
    yield (
        "empty",
        {
            **one_source(source(data, "orc"), where="tailnum = 'N9999'"),
            "output": {"path": str(data / "out" / "none"), "mode": "overwrite"},
        },
    )


def several_scans(data: Path) -> Spec:
    """Return a job with two scans, of which one fails."""
    return {
        "sources": {"late": source(data, "orc"), "unknown": source(data, "csv")},
        "scans": {
            "late": {"where": "dep_delay > 200", "output": {"path": str(data / "out" / "scan"), "mode": "overwrite"}},
            "unknown": {"where": "tail_number = 'N0042'"},
        },
    }


def shop(data: Path) -> Spec:
    """Return the path of new credentials for the SQLite database. A job reads them once and deletes them."""
    secrets = data / "secrets.json"
    database = {"kind": "sqlite", "database": str(data / "shop.db")}
    secrets.write_text(json.dumps({"remote": {"customers": database, "flights": database}}))
    return {"secrets_path": str(secrets)}


def joins(data: Path) -> Iterator[tuple[str, Spec]]:
    """Yield joins of 2, 8 and 20 relations."""
    yield (
        "join_2",
        {
            "sources": {
                "flights": source(data, "json"),
                "customers": CUSTOMERS,
            },
            "query": {
                "sql": "SELECT c.city, f.dep_delay FROM flights f JOIN customers c ON f.id = c.id "
                "WHERE f.carrier = 'UA' AND c.city = 'Rome'"
            },
            **shop(data),
        },
    )
    for relations in (8, SNOWFLAKE):
        numbers, schema = range(relations - 1), "k bigint, name string, part int"
        tables = " ".join(f"JOIN dim_{number} d{number} ON f.key_{number} = d{number}.k" for number in numbers)
        names = ", ".join(f"d{number}.name AS name_{number}" for number in numbers)
        yield (
            f"join_{relations}",
            {
                "sources": {
                    "facts": source(data, "parquet", "facts", schema=None),
                    **{f"dim_{n}": source(data, "csv", f"dim_{n}", schema=schema) for n in numbers},
                },
                "query": {
                    "sql": f"SELECT f.id, {names} FROM facts f {tables} WHERE d{relations - 2}.part = 3",
                    "joins": {"min_bytes": 0},
                },
            },
        )


def failures(data: Path) -> Iterator[tuple[str, Spec]]:
    """Yield jobs that fail when they open a source, plan the query, read it, check the output, and write it."""
    yield "failed_open", one_source({**source(data, "json"), "path": [str(data / "no_such_directory")]})
    yield "failed_plan", one_source(source(data, "json"), where="tail_number = 'N0042'")
    yield (
        "failed_read",
        one_source({**source(data, "csv"), "schema": "id bigint, day int", "options": {"mode": "FAILFAST"}}),
    )
    yield (
        "failed_check",
        {
            **one_source(source(data, "parquet"), where="tailnum = 'N9999'"),
            "output": {"path": str(data / "out" / "checked"), "checks": {"min_rows": 1}},
        },
    )
    # The parent of the output is a file.
    yield "failed_write", {**one_source(source(data, "parquet")), "output": {"path": str(data / "shop.db" / "out")}}


def source(
    data: Path, file_format: str, directory: str | None = None, *, reader: str = "pushdown", schema: str | None = SCHEMA
) -> Spec:
    spec = {"format": file_format, "path": [str(data / (directory or file_format))], "reader": reader}
    if file_format in ("json", "csv") and schema is not None:
        spec["schema"] = schema
    return {**spec, "options": {"header": "true"}} if (directory or "").startswith("dim_") else spec


def one_source(described: Spec, **query: object) -> Mapping[str, Any]:
    return {"sources": {"flights": described}, "query": {"source": "flights", **query}}


if __name__ == "__main__":
    main()
