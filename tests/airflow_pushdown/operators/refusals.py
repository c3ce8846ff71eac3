"""The errors of operators whose parameters are wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_pushdown.exceptions import ConfigError


def refusal(build: Callable[..., object], *values: object, **parameters: object) -> ConfigError:
    """Return the error for parameters of an operator or of a function that makes one. It is one line."""
    with pytest.raises(ConfigError) as error:
        build(*values, **parameters)
    assert "\n" not in str(error.value)
    return error.value
