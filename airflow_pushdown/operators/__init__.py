"""Airflow operators. Each describes a job by its sources, its query and its output."""

from __future__ import annotations

from airflow_pushdown.operators.join import PushdownJoinOperator
from airflow_pushdown.operators.multi_scan import PushdownMultiScanOperator
from airflow_pushdown.operators.orc import LazyOrcScanOperator
from airflow_pushdown.operators.remote import RemoteScanOperator
from airflow_pushdown.operators.scan import PushdownScanOperator

__all__ = [
    "LazyOrcScanOperator",
    "PushdownJoinOperator",
    "PushdownMultiScanOperator",
    "PushdownScanOperator",
    "RemoteScanOperator",
]
