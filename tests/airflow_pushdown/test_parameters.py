"""The parameter table, which must agree with operators, docstrings and pages."""

from __future__ import annotations

import inspect
import re
import subprocess
import zipfile
from pathlib import Path

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_pushdown.exceptions import ConfigError
from airflow_pushdown.operators import (
    LazyOrcScanOperator,
    PushdownJoinOperator,
    PushdownMultiScanOperator,
    PushdownScanOperator,
    RemoteScanOperator,
)
from airflow_pushdown.operators.base_operator import PushdownBaseOperator
from airflow_pushdown.parameters import (
    JOIN,
    LAZY_ORC,
    MULTI_SCAN,
    OPERATORS,
    PARAMETERS,
    REMOTE,
    SCAN,
    Parameter,
    parameters_of,
)
from airflow_pushdown.spark_settings import (
    FIXED_SETTINGS,
    SUBMIT_DEFAULTS,
    UNSAFE_SETTINGS,
    effective_value,
    serialize,
    serialize_all,
    session_conf,
)
from docs_pages.generate import documented_parameters, pages

JSON = frozenset({"json"})


OPERATOR_CLASSES: dict[str, type[PushdownBaseOperator]] = {
    SCAN: PushdownScanOperator,
    LAZY_ORC: LazyOrcScanOperator,
    MULTI_SCAN: PushdownMultiScanOperator,
    REMOTE: RemoteScanOperator,
    JOIN: PushdownJoinOperator,
}
OPERATOR_PARAMETERS = [(operator, row) for operator in OPERATORS for row in parameters_of(operator)]


def own_parameters(operator: str) -> dict[str, inspect.Parameter]:
    parameters: dict[str, inspect.Parameter] = {}
    for level in OPERATOR_CLASSES[operator].mro():
        if level.__module__.startswith("airflow_pushdown."):
            for name, parameter in inspect.signature(level.__init__).parameters.items():
                if name != "self" and parameter.kind is not inspect.Parameter.VAR_KEYWORD:
                    parameters.setdefault(name, parameter)
    return parameters


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_signature_has_exactly_the_parameters_of_the_table(operator: str) -> None:
    assert set(own_parameters(operator)) == {row.name for row in parameters_of(operator)}


@pytest.mark.parametrize(("operator", "row"), OPERATOR_PARAMETERS, ids=lambda part: getattr(part, "name", part))
def test_kind_type_and_default_agree_with_the_table(operator: str, row: Parameter) -> None:
    parameter = own_parameters(operator)[row.name]
    assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
    assert parameter.annotation == row.type
    assert parameter.default == (inspect.Parameter.empty if row.required else row.signature_default)


@pytest.mark.parametrize("operator", OPERATORS)
def test_template_fields_are_those_of_the_table_and_of_spark_submit_operator(operator: str) -> None:
    own = {row.field for row in parameters_of(operator) if row.is_templated}
    fields = OPERATOR_CLASSES[operator].template_fields
    assert set(fields) == own | set(SparkSubmitOperator.template_fields)
    assert len(set(fields)) == len(fields)


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_constructor_stores_parameters_unchanged(operator: str) -> None:
    arguments = {row.name: object() for row in parameters_of(operator)}
    task = OPERATOR_CLASSES[operator](task_id="scan", **arguments)  # type: ignore[arg-type]
    for row in parameters_of(operator):
        assert getattr(task, row.field) is arguments[row.name]


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_docstrings_describe_the_parameters_of_the_table(operator: str) -> None:
    documented = documented_parameters(OPERATOR_CLASSES[operator])
    del documented["kwargs"]
    templated = {name: text.endswith(". (templated)") for name, text in documented.items()}
    assert templated == {row.name: row.is_templated for row in parameters_of(operator)}


def test_the_documentation_pages_are_up_to_date(project: Path) -> None:
    for name, text in pages(project / "docs").items():
        assert (project / "docs" / name).read_text(encoding="utf-8") == text, f"run `make docs`: {name}"


def test_every_operator_has_a_page(project: Path) -> None:
    titles = {text.partition("\n")[0] for text in pages(project / "docs").values()}
    assert {f"# {operator}" for operator in OPERATORS} < titles


def test_links_between_pages_are_valid(project: Path) -> None:
    for page in [*project.glob("*.md"), *(project / "docs").rglob("*.md")]:
        for link, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", page.read_text(encoding="utf-8")):
            target = page.parent / link if link else page
            assert target.exists(), f"{page}: {link}"
            assert not anchor or anchor in anchors(target), f"{page}: {link}#{anchor}"


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_names_and_keys_are_unique() -> None:
    keys = [key for row in PARAMETERS for key in (*row.spark_keys(), *row.replaced_keys)]
    keys += [setting.key for setting in FIXED_SETTINGS]
    assert len(set(keys)) == len(keys)
    for operator in OPERATORS:
        assert len({row.name for row in parameters_of(operator)}) == len(parameters_of(operator))


@pytest.mark.parametrize(
    ("value", "text"), [(True, "true"), (False, "false"), (None, None), (7, "7"), ("x", "x"), (1.5, "1.5")]
)
def test_values_are_serialized_for_spark(value: object, text: str | None) -> None:
    assert serialize(value) == text


def test_entries_that_are_none_are_dropped() -> None:
    assert serialize_all({"a": None, "b": False, "c": 1}) == {"b": "false", "c": "1"}
    assert serialize_all(None) == {}


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
@pytest.mark.parametrize("value", [True, False])
def test_filter_pushdown_sets_only_the_key_of_the_format(source_format: str, key: str, value: bool) -> None:
    conf = session_conf(SCAN, {"filter_pushdown": value}, {}, frozenset({source_format}))
    assert {k: v for k, v in conf.items() if "ilterPushdown" in k and "python" not in k} == {key: str(value).lower()}


def test_nested_pruning_sets_both_of_its_keys() -> None:
    pruning = "spark.sql.optimizer.nestedSchemaPruning.enabled"
    pushdown = "spark.sql.optimizer.nestedPredicatePushdown.supportedFileSources"
    off = session_conf(SCAN, {"nested_pruning": False}, {}, JSON)
    assert (off[pruning], off[pushdown]) == ("false", "")
    for value in (True, None):
        on = session_conf(SCAN, {"nested_pruning": value}, {}, JSON)
        assert (on[pruning], on[pushdown]) == ("true", "parquet,orc")


def test_every_key_of_a_parameter_is_a_setting_of_spark(spark_python: str) -> None:
    run = subprocess.run(
        [spark_python, "-c", "import pyspark; print(pyspark.__path__[0])"], capture_output=True, text=True, check=True
    )
    keys = {key for row in PARAMETERS for key in row.spark_keys()}
    keys |= {setting.key for setting in FIXED_SETTINGS} | set(SUBMIT_DEFAULTS)
    keys |= {key for row in PARAMETERS for key in row.replaced_keys} | {setting.key for setting in UNSAFE_SETTINGS}
    known_keys = set()
    jars = Path(run.stdout.strip(), "jars")
    for jar in (*jars.glob("spark-c*.jar"), *jars.glob("orc-core-*.jar")):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if "SQLConf" in name or "internal/config" in name or "OrcConf" in name:
                    code = archive.read(name)
                    known_keys |= {key for key in keys if key.removeprefix("spark.hadoop.").encode() in code}
    assert known_keys == keys


def test_an_equal_conf_entry_is_not_a_contradiction() -> None:
    conf = session_conf(SCAN, {"filter_pushdown": True}, {"spark.sql.json.filterPushdown.enabled": "TRUE"}, JSON)
    assert conf["spark.sql.json.filterPushdown.enabled"] == "true"


def test_a_conf_entry_replaces_a_default() -> None:
    conf = session_conf(SCAN, {"filter_pushdown": None}, {"spark.sql.json.filterPushdown.enabled": "false"}, JSON)
    assert conf["spark.sql.json.filterPushdown.enabled"] == "false"


def test_a_conf_entry_for_another_format_is_not_changed() -> None:
    conf = session_conf(SCAN, {"filter_pushdown": True}, {"spark.sql.csv.filterPushdown.enabled": "false"}, JSON)
    assert "spark.sql.csv.filterPushdown.enabled" not in conf


def test_a_fixed_setting_cannot_be_switched_off() -> None:
    with pytest.raises(ConfigError, match=r"spark\.sql\.python\.filterPushdown\.enabled=false"):
        session_conf(SCAN, {}, {"spark.sql.python.filterPushdown.enabled": "false"}, JSON)


@pytest.mark.parametrize(
    ("arguments", "conf", "expected"),
    [
        (None, {}, True),
        (False, {}, False),
        (None, {"spark.sql.json.filterPushdown.enabled": "False"}, False),
        (True, {"spark.sql.json.filterPushdown.enabled": "true"}, True),
        (None, {"spark.sql.csv.filterPushdown.enabled": "false"}, True),
    ],
)
def test_the_effective_value_follows_parameter_then_conf_then_default(
    arguments: bool | None, conf: dict[str, str], expected: bool
) -> None:
    assert effective_value("filter_pushdown", arguments, conf, "json") is expected
