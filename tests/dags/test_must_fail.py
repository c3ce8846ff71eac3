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
from dataclasses import dataclass, replace
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


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A task that fails, and its exception with a part of the message.

    DATA in the parameters is the directory of the files. `has_result` is whether a job has run whose result is pushed.
    Failures of the job that reach the task in the same way as others are nightly.
    """

    name: str
    parameters: Parameters
    error: type[PushdownTaskError]
    message: str
    operator: type[PushdownBaseOperator] = PushdownScanOperator
    has_result: bool = True
    is_nightly: bool = False


JSON: Parameters = {"format": "json", "schema": "a int, b string"}
GOOD: Parameters = {**JSON, "path": "DATA/good"}
HOSTILE: Parameters = {"PYTHONPATH": str(ROOT / "tests" / "e2e" / "hostile")}
TABLES: Parameters = {
    "flights": {**GOOD, "schema": "tailnum string, b string"},
    "planes": {**GOOD, "schema": "tailnum string, a int"},
}
UNKNOWN_KEY = "SELECT p.a FROM flights AS f JOIN planes AS p ON f.tailnmu = p.tailnum WHERE f.b = 'x'"

FAILURES = (
    Failure(
        name="bad_predicate",
        parameters=GOOD | {"where": "a = = 2"},
        error=PredicateError,
        message="'= 2'",
        has_result=False,
    ),
    Failure(
        name="bad_schema",
        parameters=GOOD | {"schema": "a int b string"},
        error=SchemaError,
        message="schema",
        is_nightly=True,
    ),
    Failure(
        name="unknown_column",
        parameters=GOOD | {"schema": "tailnum string", "columns": ["tailnmu"]},
        error=ColumnError,
        message="tailnum",
        has_result=False,
    ),
    Failure(
        name="join_unknown_column",
        operator=PushdownJoinOperator,
        parameters={"sources": TABLES, "query": UNKNOWN_KEY},
        error=ColumnError,
        message="tailnmu",
        is_nightly=True,
    ),
    Failure(
        name="missing_path",
        parameters=JSON | {"path": "DATA/no/such/*.json"},
        error=InputError,
        message="no/such",
        is_nightly=True,
    ),
    Failure(
        name="truncated_gzip",
        parameters=JSON | {"path": "DATA/truncated"},
        error=InputError,
        message="broken.json.gz",
        is_nightly=True,
    ),
    Failure(
        name="unreadable_gzip",
        parameters=JSON | {"path": "DATA/unreadable", "where": "b = 'x'", "reader": "pushdown"},
        error=InputError,
        message="rows.json.gz: it is not a gzip file",
        is_nightly=True,
    ),
    Failure(
        name="corrupt_avro_block",
        parameters={"path": "DATA/avro", "format": "avro", "where": "a >= 0", "reader": "pushdown"},
        error=InputError,
        message="damaged.avro, block 1 at byte ",
        is_nightly=True,
    ),
    Failure(
        name="output_exists",
        parameters=GOOD | {"output": "DATA/existing", "output_mode": "errorifexists"},
        error=ExistingOutputError,
        message="existing",
    ),
    Failure(
        name="disk_full",
        parameters=JSON | {"path": "DATA/many", "output": "DATA/tiny/out"},
        error=DiskFullError,
        message="space",
    ),
    Failure(
        name="remote_refused",
        operator=RemoteScanOperator,
        parameters={"source_conn_id": "must_fail_db", "table": "no_such_table", "where": "a = 2"},
        error=DatabaseRefusedError,
        message="no table no_such_table",
    ),
    # It must not mean YARN.
    Failure(
        name="missing_connection",
        parameters=GOOD | {"conn_id": "no_such_spark"},
        error=ConfigError,
        message="no_such_spark",
        has_result=False,
    ),
    Failure(
        name="submit_not_found",
        parameters=GOOD | {"spark_binary": "no-such-spark-submit"},
        error=SparkSubmitNotFoundError,
        message="spark-submit not found",
        has_result=False,
    ),
    # Without a template, the constructor would raise.
    Failure(
        name="use_selected_by_spark",
        operator=LazyOrcScanOperator,
        parameters={"path": "DATA/good", "schema": "a int", "use_selected": True, "reader": "{{ 'spark' }}"},
        error=ConfigError,
        message="use_selected=True needs reader='pushdown'",
        has_result=False,
    ),
    # SIGKILL, as if memory ran out.
    Failure(
        name="driver_killed",
        parameters=GOOD | {"env_vars": HOSTILE | {"HOSTILE_TO": "job.py"}},
        error=DriverKilledError,
        message="SIGKILL",
        has_result=False,
    ),
    Failure(
        name="worker_killed",
        parameters=GOOD
        | {"where": "a = 2", "reader": "pushdown", "env_vars": HOSTILE | {"HOSTILE_TO": "pyspark.daemon"}},
        error=WorkerKilledError,
        message="worker",
    ),
)


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
        pytest.param(failure, id=failure.name, marks=pytest.mark.nightly if failure.is_nightly else ())
        for failure in FAILURES
    ]
)
def failure(
    data: Path, local_spark: str, spark_python: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Failure:
    """Prepare the environment of a failure, and return it."""
    case: Failure = request.param
    if case.name == "disk_full":
        request.getfixturevalue("tiny_disk")
    monkeypatch.setenv("AIRFLOW_CONN_MUST_FAIL_DB", json.dumps({"conn_type": "sqlite", "host": str(data / "shop.db")}))
    monkeypatch.setenv("AIRFLOW_PUSHDOWN_SPARK_PYTHON", spark_python)
    return replace(case, parameters=json.loads(json.dumps(case.parameters).replace("DATA", str(data))))


def listing(data: Path) -> set[str]:
    return {str(path.relative_to(data)) for path in data.rglob("*")}


def test_the_task_fails_with_the_expected_error(
    failure: Failure, data: Path, register_dag: Callable[[DAG], None]
) -> None:
    errors: list[BaseException | str | None] = []

    def remember(context: Context) -> None:
        errors.append(context.get("exception"))

    with DAG(failure.name, schedule=None, start_date=datetime(2026, 1, 1), catchup=False) as dag:
        parameters: Parameters = {"output": f"{data}/out/{failure.name}", **failure.parameters}
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
