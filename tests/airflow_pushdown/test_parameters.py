"""The table of parameters, and that operator, docstring and documentation say the same as it."""

from __future__ import annotations

import inspect
import re
import subprocess
import zipfile
from pathlib import Path

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_pushdown.operators import PushdownScanOperator
from airflow_pushdown.operators.base import PushdownBaseOperator
from airflow_pushdown.parameters import (
    FIXED_SETTINGS,
    PARAMETERS,
    SCAN,
    SUBMIT_DEFAULTS,
    Parameter,
    ParameterConflictError,
    effective_value,
    render_markdown,
    rows_for,
    serialise,
    serialise_all,
    session_conf,
)

JSON = frozenset({"json"})


def own_parameters() -> dict[str, inspect.Parameter]:
    found: dict[str, inspect.Parameter] = {}
    for operator in (PushdownScanOperator, PushdownBaseOperator):
        for name, parameter in inspect.signature(operator.__init__).parameters.items():
            if name != "self" and parameter.kind is not inspect.Parameter.VAR_KEYWORD:
                found[name] = parameter
    return found


def test_the_signature_has_exactly_the_parameters_of_the_table() -> None:
    assert set(own_parameters()) == {row.name for row in rows_for(SCAN)}


@pytest.mark.parametrize("row", rows_for(SCAN), ids=lambda row: row.name)
def test_kind_type_and_default_agree_with_the_table(row: Parameter) -> None:
    parameter = own_parameters()[row.name]
    assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
    assert parameter.annotation == row.type
    assert parameter.default == (inspect.Parameter.empty if row.required else row.signature_default)


def test_template_fields_are_those_of_the_table_and_of_the_spark_operator() -> None:
    ours = {row.field for row in rows_for(SCAN) if row.templated}
    assert set(PushdownScanOperator.template_fields) == ours | set(SparkSubmitOperator.template_fields)
    assert len(set(PushdownScanOperator.template_fields)) == len(PushdownScanOperator.template_fields)


def test_template_fields_are_kept_as_they_are_given() -> None:
    given = {row.name: object() for row in rows_for(SCAN)}
    task = PushdownScanOperator(task_id="scan", **given)
    for row in rows_for(SCAN):
        assert getattr(task, row.field) is given[row.name]


def test_the_docstring_says_what_the_table_says() -> None:
    text = " ".join((PushdownScanOperator.__doc__ or "").split())
    said = dict(re.findall(r":param (\w+): (.*?)(?= :param |$)", text))
    expected = {row.name: row.doc + (" (templated)" if row.templated else "") for row in rows_for(SCAN)}
    assert said == expected


def test_the_documentation_page_is_up_to_date(project: Path) -> None:
    page = (project / "docs" / "parameters.md").read_text(encoding="utf-8")
    assert page == render_markdown(), "run `make docs`"


def test_names_and_keys_are_unique() -> None:
    keys = [key for row in PARAMETERS for key in row.spark_keys()] + [setting.key for setting in FIXED_SETTINGS]
    assert len(set(keys)) == len(keys)
    assert len({row.name for row in PARAMETERS}) == len(PARAMETERS)


@pytest.mark.parametrize(
    ("value", "text"), [(True, "true"), (False, "false"), (None, None), (7, "7"), ("x", "x"), (1.5, "1.5")]
)
def test_values_are_written_as_spark_reads_them(value: object, text: str | None) -> None:
    assert serialise(value) == text


def test_entries_without_a_value_are_dropped() -> None:
    assert serialise_all({"a": None, "b": False, "c": 1}) == {"b": "false", "c": "1"}
    assert serialise_all(None) == {}


@pytest.mark.parametrize(
    ("source_format", "key"),
    [
        ("json", "spark.sql.json.filterPushdown.enabled"),
        ("csv", "spark.sql.csv.filterPushdown.enabled"),
        ("avro", "spark.sql.avro.filterPushdown.enabled"),
        ("orc", "spark.sql.orc.filterPushdown"),
        ("parquet", "spark.sql.parquet.filterPushdown"),
    ],
)
@pytest.mark.parametrize("given", [True, False])
def test_filter_pushdown_sets_the_key_of_the_format_and_no_other(source_format: str, key: str, given: bool) -> None:
    conf = session_conf(SCAN, {"filter_pushdown": given}, {}, frozenset({source_format}))
    assert {k: v for k, v in conf.items() if "ilterPushdown" in k and "python" not in k} == {key: str(given).lower()}


def test_nested_pruning_sets_both_of_its_keys() -> None:
    pruning = "spark.sql.optimizer.nestedSchemaPruning.enabled"
    pushdown = "spark.sql.optimizer.nestedPredicatePushdown.supportedFileSources"
    off = session_conf(SCAN, {"nested_pruning": False}, {}, JSON)
    assert (off[pruning], off[pushdown]) == ("false", "")
    for given in (True, None):
        on = session_conf(SCAN, {"nested_pruning": given}, {}, JSON)
        assert (on[pruning], on[pushdown]) == ("true", "parquet,orc")


def test_spark_knows_every_key(spark_python: str) -> None:
    run = subprocess.run(
        [spark_python, "-c", "import pyspark; print(pyspark.__path__[0])"], capture_output=True, text=True, check=True
    )
    keys = {key for row in PARAMETERS for key in row.spark_keys()}
    keys |= {setting.key for setting in FIXED_SETTINGS} | set(SUBMIT_DEFAULTS)
    known = set()
    for jar in Path(run.stdout.strip(), "jars").glob("spark-c*.jar"):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if "SQLConf" in name or "internal/config" in name:
                    code = archive.read(name)
                    known |= {key for key in keys if key.encode() in code}
    assert known == keys


def test_a_contradiction_names_parameter_and_key() -> None:
    with pytest.raises(ParameterConflictError) as caught:
        session_conf(SCAN, {"filter_pushdown": True}, {"spark.sql.json.filterPushdown.enabled": "false"}, JSON)
    assert str(caught.value).startswith("filter_pushdown=True")
    assert "spark.sql.json.filterPushdown.enabled=false" in str(caught.value)


def test_an_entry_that_says_the_same_is_no_contradiction() -> None:
    conf = session_conf(SCAN, {"filter_pushdown": True}, {"spark.sql.json.filterPushdown.enabled": "TRUE"}, JSON)
    assert conf["spark.sql.json.filterPushdown.enabled"] == "true"


def test_an_entry_wins_over_a_default() -> None:
    conf = session_conf(SCAN, {"filter_pushdown": None}, {"spark.sql.json.filterPushdown.enabled": "false"}, JSON)
    assert conf["spark.sql.json.filterPushdown.enabled"] == "false"


def test_an_entry_for_another_format_is_left_alone() -> None:
    conf = session_conf(SCAN, {"filter_pushdown": True}, {"spark.sql.csv.filterPushdown.enabled": "false"}, JSON)
    assert "spark.sql.csv.filterPushdown.enabled" not in conf


def test_what_every_job_needs_cannot_be_switched_off() -> None:
    with pytest.raises(ParameterConflictError, match=r"spark\.sql\.python\.filterPushdown\.enabled=false"):
        session_conf(SCAN, {}, {"spark.sql.python.filterPushdown.enabled": "false"}, JSON)


@pytest.mark.parametrize(
    ("given", "conf", "expected"),
    [
        (None, {}, True),
        (False, {}, False),
        (None, {"spark.sql.json.filterPushdown.enabled": "False"}, False),
        (True, {"spark.sql.json.filterPushdown.enabled": "true"}, True),
        (None, {"spark.sql.csv.filterPushdown.enabled": "false"}, True),
    ],
)
def test_our_readers_follow_the_same_switch(given: bool | None, conf: dict[str, str], expected: bool) -> None:
    assert effective_value("filter_pushdown", given, conf, "json") is expected
