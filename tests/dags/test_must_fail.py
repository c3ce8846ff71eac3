"""Tasks that must fail: they raise the right exception with one line, store the result in XCom, and write no output."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
import subprocess
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, Context

from airflow_pushdown.exceptions import (
    ColumnError,
    ConfigError,
    DatabaseRefusedError,
    DiskFullError,
    DriverKilledError,
    ExistingOutputError,
    InputError,
    PredicateError,
    PushdownTaskError,
    SchemaError,
    WorkerKilledError,
)
from airflow_pushdown.operators import (
    LazyOrcScanOperator,
    PushdownJoinOperator,
    PushdownScanOperator,
    RemoteScanOperator,
)
from airflow_pushdown.operators.base_operator import PushdownBaseOperator
from airflow_pushdown.spark_submit.spark_installation import SparkSubmitNotFoundError

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).resolve().parents[2]
Parameters = dict[str, Any]


@dataclass(frozen=True)
class Failure:
    """A task that fails, and its exception with a part of the message.

    `has_result` is whether a job has run whose result is pushed. Failures of the job that reach the task in the same
    way as others are nightly.
    """

    parameters: Parameters
    error: type[PushdownTaskError]
    message: str
    operator: type[PushdownBaseOperator] = PushdownScanOperator
    has_result: bool = True
    is_nightly: bool = False


def failures(data: str) -> dict[str, Failure]:
    """Return the failures by name, over the files in a directory."""
    schema: Parameters = {"format": "json", "schema": "a int, b string"}
    good: Parameters = {**schema, "path": f"{data}/good"}
    kill: Parameters = {"PYTHONPATH": str(ROOT / "tests" / "e2e" / "hostile")}
    tables = {
        "flights": {**good, "schema": "tailnum string, b string"},
        "planes": {**good, "schema": "tailnum string, a int"},
    }
    return {
        "bad_predicate": Failure(good | {"where": "a = = 2"}, PredicateError, "'= 2'", has_result=False),
        "bad_schema": Failure(good | {"schema": "a int b string"}, SchemaError, "schema", is_nightly=True),
        "unknown_column": Failure(
            good | {"schema": "tailnum string", "columns": ["tailnmu"]}, ColumnError, "tailnum", has_result=False
        ),
        "join_unknown_column": Failure(
            {
                "sources": tables,
                "query": "SELECT p.a FROM flights AS f JOIN planes AS p ON f.tailnmu = p.tailnum WHERE f.b = 'x'",
            },
            ColumnError,
            "tailnmu",
            PushdownJoinOperator,
            is_nightly=True,
        ),
        "missing_path": Failure(schema | {"path": f"{data}/no/such/*.json"}, InputError, "no/such", is_nightly=True),
        "truncated_gzip": Failure(
            schema | {"path": f"{data}/truncated"}, InputError, "broken.json.gz", is_nightly=True
        ),
        "unreadable_gzip": Failure(
            schema | {"path": f"{data}/unreadable", "where": "b = 'x'", "reader": "pushdown"},
            InputError,
            "rows.json.gz: it is not a gzip file",
            is_nightly=True,
        ),
        "corrupt_avro_block": Failure(
            {"path": f"{data}/avro", "format": "avro", "where": "a >= 0", "reader": "pushdown"},
            InputError,
            "damaged.avro, block 1 at byte ",
            is_nightly=True,
        ),
        "output_exists": Failure(
            good | {"output": f"{data}/existing", "output_mode": "errorifexists"}, ExistingOutputError, "existing"
        ),
        "disk_full": Failure(schema | {"path": f"{data}/many", "output": f"{data}/tiny/out"}, DiskFullError, "space"),
        "remote_refused": Failure(
            {"source_conn_id": "must_fail_db", "table": "no_such_table", "where": "a = 2"},
            DatabaseRefusedError,
            "no table no_such_table",
            RemoteScanOperator,
        ),
        # It must not mean YARN.
        "missing_connection": Failure(
            good | {"conn_id": "no_such_spark"}, ConfigError, "no_such_spark", has_result=False
        ),
        "submit_not_found": Failure(
            good | {"spark_binary": "no-such-spark-submit"},
            SparkSubmitNotFoundError,
            "spark-submit not found",
            has_result=False,
        ),
        # Without a template, the constructor would raise.
        "use_selected_by_spark": Failure(
            {"path": f"{data}/good", "schema": "a int", "use_selected": True, "reader": "{{ 'spark' }}"},
            ConfigError,
            "use_selected=True needs reader='pushdown'",
            LazyOrcScanOperator,
            has_result=False,
        ),
        # SIGKILL, as if memory ran out.
        "driver_killed": Failure(
            good | {"env_vars": kill | {"HOSTILE_TO": "job.py"}},
            DriverKilledError,
            "SIGKILL",
            has_result=False,
        ),
        "worker_killed": Failure(
            good | {"where": "a = 2", "reader": "pushdown", "env_vars": kill | {"HOSTILE_TO": "pyspark.daemon"}},
            WorkerKilledError,
            "worker",
        ),
    }


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("must-fail")
    for name in ("good", "truncated", "unreadable", "many", "out"):
        (root / name).mkdir()
    rows = "".join(json.dumps({"a": number, "b": "x" * 40}) + "\n" for number in range(20))
    (root / "good" / "rows.json").write_text(rows)
    archive = gzip.compress(os.urandom(50_000).hex().encode())
    (root / "truncated" / "broken.json.gz").write_bytes(archive[: len(archive) // 2])
    (root / "unreadable" / "rows.json.gz").write_text(rows)
    with (root / "many" / "rows.json").open("w") as file:
        file.writelines(json.dumps({"a": n, "b": os.urandom(400).hex()}) + "\n" for n in range(2000))
    (root / "avro").mkdir()
    (root / "avro" / "damaged.avro").write_bytes(damaged_avro())
    with closing(sqlite3.connect(root / "shop.db")) as database:
        database.execute("CREATE TABLE orders (a int)")
    (root / "existing").mkdir()
    (root / "existing" / "kept.txt").write_text("kept")
    return root


def damaged_avro() -> bytes:
    """Return a container file of 30 records in three blocks. The codec cannot decompress the second block."""
    schema = b'{"type": "record", "name": "t", "fields": [{"name": "a", "type": "long"}]}'
    marker = b"between blocks.."
    head = [b"Obj\x01", number(2)]
    head += [number(len(text)) + text for text in (b"avro.schema", schema, b"avro.codec", b"deflate")]
    pack = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    good = pack.compress(b"".join(map(number, range(10)))) + pack.flush()
    blocks = [number(10) + number(len(stored)) + stored + marker for stored in (good, b"\xff" * 9, good)]
    return b"".join([*head, number(0), marker, *blocks])


def number(value: int) -> bytes:
    """Return a small non-negative integer in Avro's encoding."""
    doubled = 2 * value
    return bytes([doubled]) if doubled < 128 else bytes([doubled & 127 | 128, doubled >> 7])


@pytest.fixture(scope="module")
def tiny_disk(data: Path) -> Iterator[Path]:
    place = data / "tiny"
    place.mkdir()
    process = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if process.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {process.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.fixture(
    params=[
        pytest.param(name, id=name, marks=pytest.mark.nightly if failure.is_nightly else ())
        for name, failure in failures("/nowhere").items()
    ]
)
def name(
    data: Path, local_spark: str, spark_python: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> str:
    """Prepare the environment of a failure, and return its name."""
    if request.param == "disk_full":
        request.getfixturevalue("tiny_disk")
    monkeypatch.setenv("AIRFLOW_CONN_MUST_FAIL_DB", json.dumps({"conn_type": "sqlite", "host": str(data / "shop.db")}))
    monkeypatch.setenv("AIRFLOW_PUSHDOWN_SPARK_PYTHON", spark_python)
    return str(request.param)


def listing(data: Path) -> set[str]:
    return {str(path.relative_to(data)) for path in data.rglob("*")}


def test_the_task_fails_with_the_expected_error(name: str, data: Path, register_dag: Callable[[DAG], None]) -> None:
    failure = failures(str(data))[name]
    errors: list[BaseException | str | None] = []

    def remember(context: Context) -> None:
        errors.append(context.get("exception"))

    with DAG(name, schedule=None, start_date=datetime(2026, 1, 1), catchup=False) as dag:
        parameters: Parameters = {"output": f"{data}/out/{name}", **failure.parameters}
        failure.operator(task_id="scan", on_failure_callback=[remember], **parameters)
    register_dag(dag)
    before = listing(data)
    run = dag.test(logical_date=datetime(2026, 1, 1, tzinfo=UTC))

    assert run.state == "failed"
    (error,) = errors
    assert type(error) is failure.error
    assert isinstance(error, PushdownTaskError)
    assert failure.message in str(error)
    assert "\n" not in str(error)
    assert listing(data) == before
    (instance,) = run.get_task_instances()
    xcom = instance.xcom_pull(task_ids="scan", key="return_value")
    if failure.has_result:
        assert xcom["error"]["code"] == error.code.value
    else:
        assert xcom is None
