"""The examples in the docstrings of the Airflow side are correct."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import airflow_pushdown

MODULES = [module.name for module in pkgutil.walk_packages(airflow_pushdown.__path__, "airflow_pushdown.")]


@pytest.mark.parametrize("module", MODULES)
def test_docstring_examples_have_the_shown_output(module: str) -> None:
    assert doctest.testmod(importlib.import_module(module)).failed == 0
