"""What a differential test compared, so that it cannot become vacuous unnoticed."""

from __future__ import annotations

from collections import Counter

Tally = Counter[str]
"""Counts by their names: cases, scans by reader, rows kept and dropped, and the reasons why nothing was compared."""
