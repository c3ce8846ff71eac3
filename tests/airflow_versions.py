"""Marks of tests for what older releases of Airflow lack."""

from __future__ import annotations

import pytest
from airflow.providers.common.compat.version_compat import AIRFLOW_V_3_3_PLUS

stores_driver_ids = pytest.mark.skipif(not AIRFLOW_V_3_3_PLUS, reason="Airflow stores ids of drivers from 3.3 on")
