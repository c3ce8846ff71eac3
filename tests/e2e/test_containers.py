"""The definition of the containers: rights, limits and secrets. The scripts run without containers."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import httpx
import pytest
import yaml

from e2e.ports import HOST, free_ports
from e2e.processes import E2eError, Programs, wait_for

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docker-compose.yaml").read_text(encoding="utf-8")
DEFINITION = yaml.safe_load(TEXT)
SERVICES = DEFINITION["services"]
OWN_VARIABLES = {"AIRFLOW_PORT", "SPARK_MASTER_UI_PORT", "SPARK_HISTORY_PORT"}


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_has_no_rights_of_root_and_limited_resources(name: str) -> None:
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["user"] not in ("root", "0")
    assert all(service[limit] for limit in ("cpus", "mem_limit", "pids_limit"))


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_gets_secrets_as_files_that_only_its_user_can_read(name: str) -> None:
    service = SERVICES[name]
    secrets = {secret["source"] for secret in service.get("secrets", ())}
    assert all(secret["mode"] == "0400" for secret in service.get("secrets", ()))
    variables = set(re.findall(r"\$\{(\w+)", str({key: service.get(key) for key in ("environment", "command")})))
    assert variables <= OWN_VARIABLES
    names = set(re.findall(r"/run/secrets/(\w+)", str(service)))
    for script in ROOT.joinpath("docker").glob("*.sh"):
        if script.name in str(service):
            names |= set(re.findall(r"/run/secrets/(\w+)", script.read_text(encoding="utf-8")))
    # The variables that Airflow reads secrets with are the same in all of its services.
    assert names == secrets or name == "checks"


def test_the_example_of_the_environment_names_every_variable() -> None:
    variables = set(re.findall(r"\$\{(\w+)", TEXT)) | {
        secret["environment"] for secret in DEFINITION["secrets"].values()
    }
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    assert set(re.findall(r"^(\w+)=", example, re.MULTILINE)) == variables


def test_images_of_the_example_are_the_default_ones() -> None:
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    for name, image in re.findall(r"\$\{(\w+_IMAGE):-([^}]+)\}", TEXT):
        assert f"{name}={image}\n" in example
    assert re.search(r"PYTHON_IMAGE:-([^}]+)", TEXT)[1] in (ROOT / "Dockerfile").read_text()  # type: ignore[index]


def test_the_secret_of_spark_is_in_a_private_file_and_not_an_argument(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret")
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text("spark.x 1\n")
    script = (ROOT / "docker" / "with-spark-secret.sh").read_text(encoding="utf-8")
    script = script.replace("/tmp/spark-conf", str(tmp_path / "own"))
    environment = {
        "PATH": "/usr/bin:/bin",
        "SPARK_CONF_DIR": str(conf),
        "SPARK_SECRET_FILE": str(tmp_path / "secret"),
    }
    for _ in range(2):
        output = subprocess.run(
            ["/bin/sh", "-c", script, "sh", "/usr/bin/env"], env=environment, capture_output=True, text=True, check=True
        ).stdout
    assert "s3cret" not in output
    assert f"SPARK_CONF_DIR={tmp_path / 'own'}" in output
    file = tmp_path / "own" / "spark-defaults.conf"
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_text().splitlines() == [
        "spark.x 1",
        "spark.authenticate true",
        "spark.network.crypto.enabled true",
        "spark.authenticate.secret s3cret",
    ]


@pytest.mark.nightly
def test_only_processes_with_the_secret_use_a_spark_cluster(tmp_path: Path, spark_python: str) -> None:
    home = next(Path(spark_python).parents[1].glob("lib/python3.*/site-packages/pyspark"))
    script = (ROOT / "docker" / "with-spark-secret.sh").read_text(encoding="utf-8")
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").touch()
    port, page = free_ports(2)
    master = f"spark://{HOST}:{port}"

    def command(secret: str, *words: str) -> tuple[list[str], dict[str, str]]:
        (tmp_path / secret).write_text(secret)
        own = script.replace("/tmp/spark-conf", str(tmp_path / f"own-{secret}"))
        variables = {
            "SPARK_HOME": str(home),
            "SPARK_CONF_DIR": str(tmp_path / "conf"),
            "SPARK_SECRET_FILE": str(tmp_path / secret),
            "SPARK_LOCAL_IP": HOST,
            "PYSPARK_PYTHON": spark_python,
        }
        return ["/bin/sh", "-c", own, "sh", *words], variables

    programs = Programs(tmp_path, dict(os.environ))
    service = (str(home / "bin" / "spark-class"), "org.apache.spark.deploy")
    job = f"""
from pyspark.sql import SparkSession
session = SparkSession.builder.master("{master}").config("spark.ui.enabled", "false").getOrCreate()
assert session.range(10).selectExpr("sum(id)").first()[0] == 45
session.stop()
"""
    try:
        for name, words in {
            "master.Master": ("--host", HOST, "--port", str(port), "--webui-port", str(page)),
            "worker.Worker": ("--host", HOST, "--webui-port", "0", "--work-dir", str(tmp_path / "work"), master),
        }.items():
            line, variables = command("right", service[0], f"{service[1]}.{name}", *words)
            programs.start(name, line, **variables)
        wait_for("the worker", lambda: _count_workers(page) == 1, 300, programs.check)
        line, variables = command("right", spark_python, "-c", job)
        programs.run("right", line, **variables)
        line, variables = command("wrong", spark_python, "-c", job)
        with pytest.raises(E2eError):
            programs.run("wrong", line, **variables)
        assert "All masters are unresponsive" in (programs.logs / "wrong.log").read_text(encoding="utf-8")
    finally:
        programs.stop()


def _count_workers(port: int) -> int:
    try:
        return len(httpx.get(f"http://{HOST}:{port}/json/", timeout=10).json()["workers"])
    except httpx.HTTPError:
        return 0


def test_the_connection_to_the_shop_is_imported_from_a_private_file_that_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("s3cret")
    airflow = tmp_path / "airflow"
    # It shows what Airflow gets: its arguments, and mode and content of the file.
    airflow.write_text('#!/bin/sh\necho "$@"\n[ "$1" = db ] || { stat -c %a "$4" && cat "$4"; }\n')
    airflow.chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "TMPDIR": str(tmp_path),
        "SHOP_PASSWORD_FILE": str(tmp_path / "password"),
    }
    script = [str(ROOT / "docker" / "migrate.sh")]
    lines = subprocess.run(script, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[0] == "db migrate"
    assert lines[1].startswith("connections import --overwrite ")
    assert lines[2] == "600"
    shop = json.loads(lines[3])["flights_db"]
    assert (shop["login"], shop["password"], shop["schema"], shop["port"]) == ("shop", "s3cret", "shop", 5432)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["airflow", "password"]


def test_the_image_for_kubernetes_has_the_user_of_sparks_images() -> None:
    stages = re.split(r"^FROM ", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    (kubernetes,) = (stage for stage in stages if stage.partition("\n")[0].endswith(" AS kubernetes"))
    assert re.findall(r"^USER (.+)$", kubernetes, re.MULTILINE) == ["185"]
    assert 'ENTRYPOINT ["/opt/entrypoint.sh"]' in kubernetes
    # Compose builds the last stage.
    assert re.findall(r"^USER (.+)$", stages[-1], re.MULTILINE) == ["pushdown"]


def test_an_executor_gets_its_options_from_the_variables_of_its_pod(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    java.chmod(0o755)
    names = "MEMORY ID CORES POD_IP POD_NAME"
    environment = {
        "PATH": "/usr/bin:/bin",
        "JAVA_HOME": str(tmp_path),
        "SPARK_HOME": "/spark",
        "SPARK_CONF_DIR": "/conf",
        "SPARK_DRIVER_URL": "spark://driver:1",
        "SPARK_APPLICATION_ID": "spark-1",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_JAVA_OPT_0": "-Da=two words",
        "SPARK_JAVA_OPT_1": "-Db=*",
        **{f"SPARK_EXECUTOR_{name}": name.lower() for name in names.split()},
    }
    script = str(ROOT / "docker" / "kubernetes-entrypoint.sh")
    command = {"env": environment, "capture_output": True, "text": True, "cwd": tmp_path}
    lines = subprocess.run([script, "executor"], check=True, **command).stdout.splitlines()  # type: ignore[call-overload]
    assert lines[:5] == ["-Da=two words", "-Db=*", "-Xmsmemory", "-Xmxmemory", "-cp"]
    assert lines[5] == f"/conf:/spark/jars/*:{tmp_path}"
    assert lines[lines.index("--podName") + 1] == "pod_name"
    wrong = subprocess.run([script, "other"], check=False, **command)  # type: ignore[call-overload]
    assert (wrong.returncode, wrong.stderr) == (64, "the first argument must be driver or executor, not 'other'\n")
