"""The Spark settings of parameters, the settings of every job, and the settings that are unsafe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_pushdown.exceptions import config_error
from airflow_pushdown.parameters import PARAMETERS, Parameter, parameters_of
from pushdown_spark.contract import ErrorCode


@dataclass(frozen=True)
class FixedSetting:
    """A Spark key that is set for every job, independent of the parameters."""

    key: str
    value: str
    reason: str


@dataclass(frozen=True)
class UnsafeSetting:
    """A Hadoop key that must not have `value` if files of `source_format` are read.

    Users can set it as a reader option with its own name, or as a `conf` entry with the prefix `spark.hadoop.`.
    """

    hadoop_key: str
    value: str
    source_format: str
    reason: str

    @property
    def key(self) -> str:
        """The key of the `conf` entry."""
        return f"spark.hadoop.{self.hadoop_key}"


FIXED_SETTINGS: tuple[FixedSetting, ...] = (
    FixedSetting(
        "spark.sql.python.filterPushdown.enabled",
        "true",
        "Spark rejects Python data sources that accept filters if this setting is off",
    ),
)

UNSAFE_SETTINGS: tuple[UnsafeSetting, ...] = (
    UnsafeSetting(
        "orc.filter.use.selected",
        "true",
        "orc",
        "with orc.filter.use.selected, the ORC reader of Spark 4.3.0 returns no rows",
    ),
)

SUBMIT_DEFAULTS: Mapping[str, str] = {"spark.log.level": "WARN"}
"""Defaults for spark-submit that `conf` may change. At INFO, Spark's own lines hide the report."""


def serialize(value: object) -> str | None:
    """Return a value as a string for Spark, with booleans in lower case. None stays None."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def serialize_all(values: Mapping[str, object] | None) -> dict[str, str]:
    """Return the entries as strings for Spark, without those that are None."""
    entries = ((str(key), serialize(value)) for key, value in (values or {}).items())
    return {key: value for key, value in entries if value is not None}


def session_conf(
    operator: str, values: Mapping[str, object], conf: Mapping[str, str], source_formats: frozenset[str]
) -> dict[str, str]:
    """Return the Spark settings of the job's session.

    `values` has the values of the parameters with Spark keys, or None if they were not given. `conf` has the user's own
    entries, which win over defaults. Raises `ConfigError` with parameter and key if an entry contradicts an explicit
    parameter or a fixed setting.
    """
    settings: dict[str, str] = {}
    for parameter in parameters_of(operator):
        for key in _keys_for_formats(parameter, source_formats):
            value = _resolve(parameter, values.get(parameter.name), key, conf)
            if value is not None:
                settings[key] = value
        for key in parameter.replaced_keys:
            _resolve(parameter, values.get(parameter.name), key, conf)
    for setting in FIXED_SETTINGS:
        if setting.key in conf and not _is_same(conf[setting.key], setting.value):
            raise config_error(f"conf: {setting.key}={conf[setting.key]} is not possible ({setting.reason}); remove it")
        settings[setting.key] = setting.value
    return settings


def check_safe_settings(conf: Mapping[str, str], options: Mapping[str, str], source_format: str | None) -> None:
    """Raise `ConfigError` if `conf` or the reader's `options` make Spark's reader return wrong rows.

    A format of None stands for any format.
    """
    for setting in UNSAFE_SETTINGS:
        entries = [("conf", key, value) for key, value in conf.items() if key == setting.key]
        entries += [("options", key, value) for key, value in options.items() if key.lower() == setting.hadoop_key]
        for parameter, key, value in entries:
            if source_format in (None, setting.source_format) and _is_same(value, setting.value):
                message = f"{parameter}: {key}={value} is not allowed ({setting.reason}); remove it"
                raise config_error(message, ErrorCode.UNSAFE_SETTING)


def effective_value(name: str, explicit: bool | None, conf: Mapping[str, str], source_format: str) -> bool | None:
    """Return the effective value of a switch: the given value, else that of `conf`, else the default."""
    parameter = next(parameter for parameter in PARAMETERS if parameter.name == name)
    if explicit is not None:
        return explicit
    values = [conf[key] for key in parameter.spark_keys(source_format) if key in conf]
    if values:
        return all(_is_same(value, "true") for value in values)
    return None if parameter.default is None else bool(parameter.default)


def _keys_for_formats(parameter: Parameter, source_formats: frozenset[str]) -> tuple[str, ...]:
    """Return the distinct keys of a parameter that apply to these source formats."""
    return tuple(dict.fromkeys(key for name in sorted(source_formats) for key in parameter.spark_keys(name)))


def _resolve(parameter: Parameter, explicit: object, key: str, conf: Mapping[str, str]) -> str | None:
    """Return the value of a key: that of the explicit parameter, else that of `conf`, else the default."""
    value = _value_for(parameter, key, explicit)
    if key not in conf or (value is not None and _is_same(conf[key], value)):
        return value
    if explicit is not None:
        raise config_error(
            f"{parameter.name}={explicit} contradicts conf entry {key}={conf[key]}; give only one of them"
        )
    return conf[key]


def _value_for(parameter: Parameter, key: str, explicit: object) -> str | None:
    """Return the value of a key for the given value of its parameter, or None if the key is not set.

    A given value of None means that the parameter was not given.
    """
    value = parameter.default if explicit is None else explicit
    if key in parameter.switch_values:
        return parameter.switch_values[key][bool(value)]
    return serialize(value)


def _is_same(left: str, right: str) -> bool:
    """Return whether Spark reads two values as the same one. It ignores the case of booleans."""
    return left.strip().lower() == right.strip().lower()
