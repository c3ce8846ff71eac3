"""The whole product end to end: services of its own, every example DAG, and what they must have left."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The directory of the checkout."""
