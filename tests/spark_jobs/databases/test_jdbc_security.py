"""TLS over JDBC, and where its passwords must not appear. The tests need the drivers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from certificates import create_authority
from databases import CERTIFIED, HOST, Server
from jdbc_drivers import KINDS, NEEDS_DRIVERS, error_of
from pyspark.sql import SparkSession
from remote_scans import ENCRYPTED, rows_of

from pushdown_spark.contract import ErrorCode
from pushdown_spark.errors import BadSpecError
from pushdown_spark.session import PushdownSession

SHOWING = """
import json, sys, time, urllib.request
from pyspark.sql import SparkSession
from pushdown_spark.session import PushdownSession
request = json.load(sys.stdin)
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "true").config("spark.ui.port", "0")
for key, value in request["conf"].items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
session = PushdownSession(spark)
session.add_remote("source", request["connection"], table="shown", transport="jdbc")
result = session.scan("source", where="k > 7 AND upper(s) = 'S9'")
print("rows", result.run(lambda frame: frame.count()), result.report())
for frame in (result.df, result.df.where("k > 8")):
    frame.explain("extended")
    frame.explain("formatted")
    plans = frame._jdf.queryExecution()
    print(plans.logical().toJSON(), plans.analyzed().toJSON(), plans.executedPlan().toJSON())
place = f"{spark.sparkContext.uiWebUrl}/api/v1/applications/{spark.sparkContext.applicationId}"
for page in ("environment", "jobs", "stages?details=true", "sql?details=true&planDescription=true", "executors"):
    print(urllib.request.urlopen(f"{place}/{page}").read().decode())
try:
    broken = session.sql("SELECT assert_true(k < 0) FROM source")
    broken.run(lambda frame: frame.collect())
except Exception as problem:
    print("raised", problem)
spark.stop()
"""
pytestmark = NEEDS_DRIVERS


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        *((kind, mode) for kind in KINDS for mode in ("disable", "prefer", "require")),
        *((kind, mode) for kind in KINDS[:-1] for mode in ("verify-ca", "verify-full")),
    ],
)
def test_tls_options_over_jdbc_equal_those_over_arrow(
    kind: str, mode: str, server: Server, spark: SparkSession
) -> None:
    tls = {"mode": mode, **({"ca_file": str(server.ca_file)} if mode.startswith("verify") else {})}
    transports = []
    for transport in ("jdbc", "arrow"):
        session = PushdownSession(spark)
        session.add_remote("source", server.connection(tls=tls), query=ENCRYPTED[server.product], transport=transport)
        (row,) = rows_of(session.scan("source"))
        transports.append(bool(row["used"]))
    assert transports == [mode != "disable"] * 2


@pytest.mark.parametrize("kind", KINDS[:-1])
@pytest.mark.parametrize("transport", ["jdbc", "arrow"])
def test_a_server_with_an_untrusted_certificate_is_rejected(
    kind: str, transport: str, server: Server, spark: SparkSession, tmp_path: Path
) -> None:
    other = tmp_path / "other.crt"
    create_authority(other, HOST)
    session = PushdownSession(spark)
    tls = {"mode": "verify-ca", "ca_file": str(other)}
    code, message = error_of(
        lambda: (
            session.add_remote("source", server.connection(tls=tls), query="SELECT 1 AS one", transport=transport),
            rows_of(session.scan("source")),
        )
    )
    assert code is ErrorCode.REMOTE_REFUSED
    assert "\n" not in message


@pytest.mark.parametrize("curve", [False, True])
def test_a_client_certificate_is_accepted(
    curve: bool, postgresql_server: Server, spark: SparkSession, tmp_path: Path
) -> None:
    certificate, key = postgresql_server.client_certificate(tmp_path, curve=curve)
    tls = {"mode": "require", "cert_file": str(certificate), "key_file": str(key)}
    session = PushdownSession(spark)
    connection = postgresql_server.connection(user=CERTIFIED, password=None, tls=tls)
    session.add_remote("source", connection, query="SELECT session_user::text AS me", transport="jdbc")
    assert rows_of(session.scan("source")) == [{"me": CERTIFIED}]


@pytest.mark.parametrize(
    ("kind", "tls"),
    [
        ("mariadb", {"mode": "require", "cert_file": "given"}),
        ("mysql", {"mode": "require", "cert_file": "given"}),
        (KINDS[-1], {"mode": "verify-ca"}),
    ],
)
def test_certificate_files_that_the_driver_cannot_read_use_arrow(
    kind: str, tls: dict[str, str], server: Server, spark: SparkSession, tmp_path: Path
) -> None:
    certificate, key = server.client_certificate(tmp_path)
    files = {"cert_file": str(certificate), "key_file": str(key)} if "cert_file" in tls else {}
    connection = server.connection(tls={**tls, **files, "ca_file": str(server.ca_file)})
    session = PushdownSession(spark)
    for transport in ("jdbc", "auto"):
        session.add_remote(transport, connection, query="SELECT 1 AS one", transport=transport)
    assert rows_of(session.scan("auto")) == [{"one": 1}]
    with pytest.raises(BadSpecError, match=r"transport: 'jdbc' is not possible: .* does not support the given "):
        session.scan("jdbc")


def _jars(spark: SparkSession) -> list[str]:
    return [name for name in str(spark.conf.get("spark.jars", "")).split(",") if name]


@pytest.mark.parametrize("kind", KINDS[:-1])
def test_no_password_is_in_plans_pages_events_or_logs(
    kind: str, server: Server, spark: SparkSession, project: Path, tmp_path: Path
) -> None:
    server.execute(
        "DROP TABLE IF EXISTS shown",
        "CREATE TABLE shown (k int, s varchar(9))",
        "INSERT INTO shown VALUES (9, 's9')",
    )
    jars = ",".join(str(name) for name in _jars(spark))
    conf = {
        "spark.jars": jars,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": tmp_path.as_uri(),
        "spark.log.level": "INFO",
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
    }
    run = subprocess.run(
        [sys.executable, "-c", SHOWING],
        input=json.dumps({"conf": conf, "connection": server.connection()}),
        capture_output=True,
        text=True,
        cwd=project,
        check=False,
    )
    output = run.stdout + run.stderr
    events = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()).decode()
    assert run.returncode == 0, output.replace(server.password, "***")[-3000:]
    assert "rows 1" in output
    assert "JDBCRelation" in output
    assert "raised" in output
    assert "SparkListenerSQLExecutionStart" in events
    assert not [name for name, text in (("output", output), ("events", events)) if server.password in text]
