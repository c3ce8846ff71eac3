"""Checks of what a release and its documentation offer besides wheels: an image, archives, and types for DAGs."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from e2e.documentation import FIRST_DATA, cluster_steps, dockerfile, first_steps
from e2e.processes import E2eError, Programs
from e2e.release_environments import Environments, output_of, rows

_CHECK_ROWS = f"""
from pyarrow import dataset
messages = dataset.dataset("{FIRST_DATA}/errors", format="parquet").to_table().column("message").to_pylist()
assert messages == ["the disk is full"], messages
"""


def check_archives(run: Path, environments: Environments, programs: Programs) -> None:
    """Pack the Spark side and its classes as printed. Run the first DAG on executors that only have the archive."""
    commands, arguments = cluster_steps()
    cache, classes, data = run / "archives", run / "class-archives", run / "first"
    places = {
        "/opt/pushdown-spark": str(environments.spark.parents[1]),
        "/opt/spark": str(environments.spark.parents[1]),
        "/var/cache/airflow-pushdown": str(cache),
        "/opt/class-archives": str(classes),
    }
    script = replace_paths("\n".join(commands), places)
    programs.run("archives", ["bash", "-euxc", script], **environments.shell)
    (archive,) = cache.glob("*.tar.gz")
    if not any(file.stat().st_size for file in classes.glob("*.jsa")):
        raise E2eError(f"there is no CDS archive in {classes}")
    path = arguments.partition('archives="')[2].partition("#")[0]
    arguments = replace_paths(arguments, {path: str(archive), **places})
    ((name, code),) = first_steps()[1].items()
    # The pushdown reader runs in Python on the executors.
    code = code.replace('task_id="errors",', f'task_id="errors", reader="pushdown",\n{arguments}')
    code = code.replace(f'"{FIRST_DATA}/errors"', f'"{data}/packed"').replace(f'"{FIRST_DATA}/', f'"{data}/')
    code = code.replace("first_scan", "packed_scan")
    (Path(environments.shell["AIRFLOW_HOME"]) / "dags" / f"packed_{name}").write_text(code, encoding="utf-8")
    connection = {"conn_type": "spark", "host": "local-cluster[1,1,1024]"}
    settings = {
        **environments.shell,
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(connection),
        "AIRFLOW_PUSHDOWN_SPARK_PYTHON": str(environments.spark),
        "SPARK_WORKER_DIR": str(run / "work"),
    }
    command = [str(environments.airflow), "-m", "airflow", "dags", "test", "packed_scan", "2026-01-01"]
    programs.run("archives-dag", command, **settings)
    if [row["message"] for row in rows(environments.spark, data / "packed")] != ["the disk is full"]:
        raise E2eError("the DAG with a packed environment wrote other rows")


def check_image(builder: str, dist: Path, run: Path, constraints: Mapping[str, Path], programs: Programs) -> None:
    """Build the printed image with a program such as `docker`. The last step of the build runs the first DAG in it."""
    context = run / "image"
    shutil.copytree(dist, context / "dist")
    for side, file in constraints.items():
        shutil.copy(file, context / f"constraints-{side}.txt")
    commands, files = first_steps()
    own = commands[commands.index("airflow db migrate") :]
    (context / "first-steps.sh").write_text("\n".join([*own, "/opt/spark/bin/python rows.py"]), encoding="utf-8")
    (context / "rows.py").write_text(_CHECK_ROWS, encoding="utf-8")
    for name, code in files.items():
        (context / name).write_text(code, encoding="utf-8")
    base, _, steps = dockerfile().partition("\n")
    lines = (
        base,
        "COPY dist /dist",
        "ENV PIP_FIND_LINKS=/dist",
        steps,
        f"COPY {' '.join(files)} /root/airflow/dags/",
        "COPY first-steps.sh rows.py ./",
        # The step of a build may have a host name without an address.
        "RUN SPARK_LOCAL_IP=127.0.0.1 bash -eux first-steps.sh",
    )
    (context / "Dockerfile").write_text("\n".join(lines) + "\n", encoding="utf-8")
    programs.run("image", [*shlex.split(builder), "build", "--tag", "airflow-pushdown-release-check", str(context)])


def check_types(dags: Path, airflow: Path) -> None:
    """Raise `E2eError` unless mypy accepts DAGs with the types of the installed package."""
    files = [str(file) for file in sorted(dags.glob("*.py"))]
    options = ("--strict", "--python-executable", str(airflow), "--cache-dir", str(dags.parent / "mypy"))
    output_of(Path(sys.executable), "-m", "mypy", *options, *files, MYPYPATH=str(dags))


def replace_paths(text: str, places: Mapping[str, str]) -> str:
    """Return a text with other paths than the printed ones. `places` are the other paths by the printed ones."""
    for path, place in places.items():
        text = text.replace(path, place)
    return text
