"""What a differential run really compared, so that it cannot become vacuous unnoticed."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Tally:
    """Counts of one test: predicates judged, patterns checked, rows kept, rows dropped, scans by who ran them."""

    predicates: int = 0
    with_pattern: int = 0
    kept_lines: int = 0
    dropped_lines: int = 0
    raised: int = 0
    searched: int = 0
    given_up: int = 0
    refused: int = 0
    rows: int = 0
    reasons: dict[str, int] = field(default_factory=dict)

    def because(self, reason: str) -> None:
        """Remember why byte search was not used."""
        short = reason.split("(")[0][-60:]
        self.reasons[short] = self.reasons.get(short, 0) + 1
