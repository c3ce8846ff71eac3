"""A module under 60 lines has a reason. A helper that one module uses belongs in that module."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = (ROOT / "spark_jobs" / "pushdown_spark", ROOT / "airflow_pushdown")
SMALL = 60
REASONS = {
    "a program, or an entry point of Airflow, which has to import little": {
        "pushdown_spark/__main__.py",
        "airflow_pushdown/plugin/plugin.py",
        "airflow_pushdown/provider.py",
    },
    "a module that users name": {
        "airflow_pushdown/operators/scan.py",
    },
    "one implementation of an interface, next to others": {
        "pushdown_spark/connect/connect_query_run.py",
        "pushdown_spark/formats/avro/data_source.py",
        "pushdown_spark/formats/avro/metrics.py",
        "pushdown_spark/optimizer/passes/verify_parse.py",
    },
    "both sides use it, without pydantic": {
        "pushdown_spark/contract/driver_claim.py",
        "pushdown_spark/contract/versions.py",
        "pushdown_spark/local_paths.py",
        "pushdown_spark/secret_text.py",
    },
    "Python workers use it, and should import no more than they need": {
        "pushdown_spark/databases/sql/identifiers.py",
        "pushdown_spark/expressions/arrow_types.py",
        "pushdown_spark/expressions/names.py",
        "pushdown_spark/expressions/types.py",
        "pushdown_spark/formats/calendars.py",
        "pushdown_spark/formats/parquet/file_parts.py",
        "pushdown_spark/runtime/worker.py",
        "pushdown_spark/scan/task_counts.py",
    },
    "the base of a package, or what several packages share": {
        "airflow_pushdown/doctor/findings.py",
        "airflow_pushdown/hooks/submission.py",
        "airflow_pushdown/operators/declared_sources.py",
        "airflow_pushdown/version_compat.py",
        "pushdown_spark/expressions/pushdown.py",
        "pushdown_spark/formats/avro/spark_source.py",
        "pushdown_spark/formats/bound_predicate.py",
        "pushdown_spark/formats/readable_types.py",
        "pushdown_spark/formats/text/line_parser.py",
        "pushdown_spark/formats/worker_startup.py",
        "pushdown_spark/optimizer/key_guard.py",
        "pushdown_spark/projection/file_locations.py",
        "pushdown_spark/projection/nested_types.py",
        "pushdown_spark/runtime/file_systems/file_paths.py",
        "pushdown_spark/runtime/query_analysis.py",
        "pushdown_spark/sources/table_statistics.py",
    },
    "one outside fact: a program, a protocol, an algorithm of the literature": {
        "airflow_pushdown/spark_submit/environment.py",
        "airflow_pushdown/spark_submit/java.py",
        "pushdown_spark/contract/message_schema.py",
        "pushdown_spark/optimizer/join_order/star_detection.py",
        "pushdown_spark/optimizer/statistics/distinct_values.py",
        "pushdown_spark/driver/parent_watch.py",
    },
}


def test_small_modules_have_a_reason() -> None:
    lines = {
        str(path.relative_to(package.parent)): len(path.read_text().splitlines())
        for package in PACKAGES
        for path in package.rglob("*.py")
        if path.name != "__init__.py"
    }
    paths_with_reasons = {path for paths in REASONS.values() for path in paths}
    assert paths_with_reasons <= lines.keys()
    assert sorted(path for path, count in lines.items() if count < SMALL and path not in paths_with_reasons) == []
