"""DAGs that must fail: they raise the right exception with one line, store the result in XCom, and write no output."""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import sqlite3
import subprocess
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import pytest
from airflow.sdk import DAG, Context

from airflow_pushdown.exceptions import PushdownTaskError

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((Path(__file__).parent / "must_fail").glob("*.py"))
BEFORE_THE_JOB = {
    "bad_predicate",
    "missing_connection",
    "submit_not_found",
    "unknown_column",
    "use_selected_by_spark",
}
"""Failures that come before there is a job whose result could be pushed."""
WITHOUT_RESULT = BEFORE_THE_JOB | {"driver_killed"}
NIGHTLY = {
    "bad_schema",
    "corrupt_avro_block",
    "join_unknown_column",
    "missing_path",
    "truncated_gzip",
    "unreadable_gzip",
}
"""Failures of the job that reach the task in the same way as others."""

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("must-fail")
    for name in ("good", "truncated", "unreadable", "many", "out"):
        (root / name).mkdir()
    rows = "".join(json.dumps({"a": number, "b": "x" * 40}) + "\n" for number in range(20))
    (root / "good" / "rows.json").write_text(rows)
    packed = gzip.compress(os.urandom(50_000).hex().encode())
    (root / "truncated" / "broken.json.gz").write_bytes(packed[: len(packed) // 2])
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
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.fixture
def demo_root(
    data: Path, local_spark: str, spark_python: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Path:
    if request.node.callspec.params["file"].stem == "disk_full":
        request.getfixturevalue("tiny_disk")
    monkeypatch.setenv("MUST_FAIL_DATA", str(data))
    monkeypatch.setenv("AIRFLOW_CONN_MUST_FAIL_DB", json.dumps({"conn_type": "sqlite", "host": str(data / "shop.db")}))
    monkeypatch.setenv("MUST_FAIL_HOSTILE", str(ROOT / "tests" / "e2e" / "hostile"))
    monkeypatch.setenv("AIRFLOW_PUSHDOWN_SPARK_PYTHON", spark_python)
    return data


def load(file: Path) -> ModuleType:
    definition = importlib.util.spec_from_file_location(f"must_fail_{file.stem}", file)
    assert definition is not None
    assert definition.loader is not None
    module = importlib.util.module_from_spec(definition)
    definition.loader.exec_module(module)
    return module


def listing(data: Path) -> set[str]:
    return {str(path.relative_to(data)) for path in data.rglob("*")}


@pytest.mark.parametrize(
    "file",
    [pytest.param(file, id=file.stem, marks=pytest.mark.nightly if file.stem in NIGHTLY else ()) for file in FILES],
)
def test_the_dag_fails_with_the_expected_error(
    file: Path, demo_root: Path, register_dag: Callable[[DAG], None]
) -> None:
    module = load(file)
    dag = module.dag
    expected_type, fragment = module.EXPECTED
    raised: list[BaseException | str | None] = []

    def remember(context: Context) -> None:
        raised.append(context.get("exception"))

    dag.get_task("scan").on_failure_callback = [remember]  # type: ignore[union-attr]
    register_dag(dag)
    before = listing(demo_root)
    run = dag.test(logical_date=datetime(2026, 1, 1, tzinfo=UTC))

    assert run.state == "failed"
    (error,) = raised
    assert type(error) is expected_type
    assert isinstance(error, PushdownTaskError)
    assert fragment in str(error)
    assert "\n" not in str(error)
    assert listing(demo_root) == before
    (instance,) = run.get_task_instances()
    pushed = instance.xcom_pull(task_ids="scan", key="return_value")
    if file.stem in WITHOUT_RESULT:
        assert pushed is None
    else:
        assert pushed["error"]["code"] == error.code.value
