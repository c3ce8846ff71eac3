"""Credentials in text: the names that suggest one, and what is shown in its place."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import quote

_SECRET_NAME = re.compile(
    r"secret|passw(or)?d|token(?!iz)|credential|access[._-]?key|account[._-]?key\b|api[._-]?key|private[._-]?key",
    re.IGNORECASE,
)
_LOCATION_NAME = re.compile(
    r"(file|path|[._-](uri|provider|type|class|enabled))$|^GOOGLE_APPLICATION_CREDENTIALS$", re.IGNORECASE
)
"""Names that say where a credential is, or what provides it."""
_URL_WITH_PASSWORD = re.compile(r"://[^/\s:@]*:[^/\s@]+@")
_JAVA_PROPERTY = re.compile(r"(?<![^\s\"'])-D([^\s=]+)=")


def is_secret_name(name: str) -> bool:
    """Return whether the name of a setting or variable suggests that its value is a credential.

    Spark redacts similar names.

    >>> is_secret_name("fs.s3a.secret.key"), is_secret_name("hadoop.security.credential.provider.path")
    (True, False)
    """
    return _SECRET_NAME.search(name) is not None and _LOCATION_NAME.search(name) is None


def has_url_password(value: str) -> bool:
    """Return whether a value has a URL with a password.

    >>> has_url_password("https://me:hush@nexus/maven"), has_url_password("https://nexus:8081/maven")
    (True, False)
    """
    return _URL_WITH_PASSWORD.search(value) is not None


def is_secret_setting(name: str, value: str) -> bool:
    """Return whether a setting may be a credential by its name, or may have one in its value.

    >>> is_secret_setting("spark.driver.extraJavaOptions", "-Xss4m -Djavax.net.ssl.keyStorePassword=hush")
    True
    >>> is_secret_setting("spark.driver.extraJavaOptions", "-Djavax.net.ssl.keyStorePasswordFile=/run/password")
    False
    """
    return is_secret_name(name) or has_url_password(value) or any(map(is_secret_name, _JAVA_PROPERTY.findall(value)))


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
