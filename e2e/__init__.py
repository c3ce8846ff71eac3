"""End-to-end runs: local services, every example DAG, and checks of their outputs."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The directory of the checkout."""
