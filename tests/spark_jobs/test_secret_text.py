"""Credentials in text."""

from __future__ import annotations

import pytest

from pushdown_spark.secret_text import is_secret_name, redact, redact_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("abcdef123", "***"),
        ("abc and abcdef123", "*** and ***"),
        ("postgresql://me:p%40ss%2Fword@db", "postgresql://me:***@db"),
        ("p@ss/word", "***"),
        ("nothing to hide", "nothing to hide"),
    ],
)
def test_secrets_are_replaced_whole(text: str, shown: str) -> None:
    assert redact(text, ("abc", "abcdef123", "", "p@ss/word")) == shown


def test_a_line_has_no_line_ends() -> None:
    assert redact_line("key hush:\n  at db", ("hush",)) == "key ***: at db"


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        ("fs.s3a.secret.key", True),
        ("fs.s3a.access.key", True),
        ("fs.s3a.session.token", True),
        ("fs.azure.account.key.lake.dfs.core.windows.net", True),
        ("fs.azure.account.oauth2.client.secret", True),
        ("fs.gs.auth.service.account.private.key", True),
        ("spark.my.api.key", True),
        ("API_KEY", True),
        ("PGPASSWORD", True),
        ("MYSQL_PASSWD", True),
        ("fs.azure.account.keyprovider.lake", False),
        ("fs.s3a.endpoint", False),
        ("fs.s3a.aws.credentials.provider", False),
        ("hadoop.security.credential.provider.path", False),
        ("spark.security.credentials.hive.enabled", False),
        ("spark.sql.tokenizer", False),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", False),
        ("spark.ui.port", False),
        ("KEYBOARD", False),
    ],
)
def test_only_names_that_suggest_a_credential_are_secret(name: str, is_secret: bool) -> None:
    assert is_secret_name(name) is is_secret
