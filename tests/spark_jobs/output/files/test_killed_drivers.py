"""Spark drivers killed by SIGKILL at random moments: the backfill equals undisturbed runs."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

pytestmark = pytest.mark.nightly
ROOT = Path(__file__).resolve().parents[4]
HELPERS = Path(__file__).resolve().parents[1]
DAYS = 30
DRIVER = """
import sys
from pyspark.sql import SparkSession
from interrupted_files import open_attempt

path, mode, days = sys.argv[1], sys.argv[2], sys.argv[3:]
spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
         .config("spark.log.level", "OFF").config("spark.sql.shuffle.partitions", "2").getOrCreate())
print("ready", flush=True)
for day in days:
    output = open_attempt(spark, path, mode, f"run of {day}", patience=2.0, partition_by=("day", "odd"))
    if output.prepare():
        with output.transaction():
            output.stage(spark.range(40).selectExpr("id", f"{day} AS day", "id % 2 AS odd").repartition(4))
    print(day, flush=True)
"""


@pytest.mark.parametrize("mode", ["overwrite_partitions", "append"])
def test_a_backfill_with_randomly_killed_drivers_writes_each_day_once(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    chance = random.Random(mode)
    missing = list(range(DAYS))
    chance.shuffle(missing)
    kills = 0
    while missing:
        # Early kills hit the start of Spark, which leaves nothing; so the clock starts with the first day.
        lasts = chance.uniform(0.0, 3.0) if kills < 8 else 600.0
        done, killed = _drive(tmp_path / "out", mode, missing, lasts)
        missing = missing[len(done) :]
        kills += killed
    rows = spark.read.schema("id int, day int, odd int").json(str(tmp_path / "out")).collect()
    assert sorted((row["day"], row["id"]) for row in rows) == [(day, id) for day in range(DAYS) for id in range(40)]
    assert all(row["odd"] == row["id"] % 2 for row in rows)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert kills == 8


def _drive(target: Path, mode: str, days: list[int], seconds: float) -> tuple[list[str], bool]:
    """Write days until the driver is killed. Return the reported days, and whether it was killed."""
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(target), mode, *map(str, days)],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'spark_jobs'}:{HELPERS}", "PYSPARK_PYTHON": sys.executable},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    )
    assert driver.stdout is not None
    try:
        while driver.stdout.readline().strip() != "ready":
            assert driver.poll() is None
        deadline = time.monotonic() + seconds
        while driver.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        killed = driver.poll() is None
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    return driver.stdout.read().split(), killed
