"""Credentials in text: the names that suggest one, and what is shown in its place."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import quote

SECRET_NAME = re.compile(
    r"secret|passw(or)?d|token|credential|access[._-]?key|account[._-]?key\b|api[._-]?key|private[._-]?key",
    re.IGNORECASE,
)
"""Names of settings and variables that suggest a credential. Spark redacts similar names."""


def redact(text: str, secrets: Iterable[str]) -> str:
    """Return a text with `***` for each secret, also where it is part of a URL. Empty secrets are ignored.

    >>> redact("abcdef and a%2Fb", ["abc", "abcdef", "a/b", ""])
    '*** and ***'
    """
    forms = {form for secret in secrets if secret for form in (secret, quote(secret, safe=""))}
    # A secret may begin with another one.
    pattern = "|".join(map(re.escape, sorted(forms, key=len, reverse=True)))
    return re.sub(pattern, "***", text) if forms else text


def redact_line(text: str, secrets: Iterable[str]) -> str:
    """Return a text on one line, with `***` for each secret."""
    return " ".join(redact(text, secrets).split())
