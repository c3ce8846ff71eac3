"""The command and the environment of a driver on a standalone cluster."""

from __future__ import annotations

import os
from pathlib import Path

from airflow_pushdown.clusters.standalone import (
    SharedProgram,
    shared_program,
    standalone_command,
    standalone_environment,
)
from airflow_pushdown.packaging import job_program


def test_the_command_runs_python_through_a_java_class() -> None:
    words = ["spark-submit", "--master", "spark://a:7077,b:7077", "--conf", "spark.x=1", "--files", "/f"]
    words += ["--py-files", "/tmp/p.zip,mine.zip", "--deploy-mode", "cluster", "job.py", "--spec", "/e/spec.json"]
    shared = SharedProgram(Path("/e/p.py"), Path("/e/p.zip"))
    command = standalone_command(words, shared, "/tmp/p.zip", 6066, "/opt/python")
    assert command[command.index("--master") + 1] == "spark://a:6066,b:6066"
    assert command.count("--files") == 1
    assert command[command.index("--files") + 1] == "/e/p.zip,mine.zip,/f"
    assert "spark.pyspark.python=/opt/python" in command
    assert command[-5:] == ["/e/p.zip", "/e/p.py", "/e/p.zip,mine.zip", "--spec", "/e/spec.json"]
    own = standalone_command([*words[:3], "--conf", "spark.pyspark.python=/mine", *words[7:]], shared, "/", 1, "/opt")
    assert "spark.pyspark.python=/opt" not in own


def test_the_driver_gets_no_variables_about_the_workers_machine() -> None:
    assert standalone_environment({"SPARK_LOCAL_IP": "10.0.0.1", "SPARK_USER": "me"}) == {"SPARK_USER": "me"}


def test_workers_with_one_process_id_do_not_write_one_file(tmp_path: Path) -> None:
    """Workers in containers often have the same process id."""
    program = shared_program(str(tmp_path)).program
    program.unlink()
    other = program.with_name(f".{program.name}-{os.getpid()}")
    other.write_text("the first lines, from another worker")
    assert shared_program(str(tmp_path)).program.read_bytes() == job_program().read_bytes()
    assert other.read_text() == "the first lines, from another worker"
    assert program.stat().st_mode & 0o777 == 0o644
