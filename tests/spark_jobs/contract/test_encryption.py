"""Encrypted credentials only decrypt with the same key and for the same job."""

from __future__ import annotations

import base64
import os

import pytest

from pushdown_spark.contract.encryption import DecryptionError, decrypt, encrypt, is_encrypted

KEY = base64.urlsafe_b64encode(os.urandom(32)).decode()
OTHER = base64.urlsafe_b64encode(os.urandom(32)).decode()


def test_the_same_key_and_context_decrypt() -> None:
    text = encrypt("hush ü", KEY, "spec")
    assert is_encrypted(text)
    assert "hush" not in text
    assert decrypt(text, f"{KEY}\n", "spec") == "hush ü"


def test_each_encryption_is_different() -> None:
    assert encrypt("hush", KEY, "spec") != encrypt("hush", KEY, "spec")


@pytest.mark.parametrize(("key", "context"), [(OTHER, "spec"), (KEY, "another spec")], ids=["key", "context"])
def test_another_key_or_context_does_not_decrypt(key: str, context: str) -> None:
    with pytest.raises(DecryptionError, match="another key or for another job spec"):
        decrypt(encrypt("hush", KEY, "spec"), key, context)


@pytest.mark.parametrize("damage", [lambda text: text[:-8], lambda text: f"{text}*", lambda text: text[:12]])
def test_a_damaged_text_does_not_decrypt(damage) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DecryptionError):
        decrypt(damage(encrypt("hush", KEY, "spec")), KEY, "spec")


@pytest.mark.parametrize("key", ["", "password", base64.urlsafe_b64encode(b"16 bytes of text").decode(), "ü"])
def test_an_invalid_key_raises(key: str) -> None:
    with pytest.raises(ValueError, match="32 random bytes"):
        encrypt("hush", key, "spec")
