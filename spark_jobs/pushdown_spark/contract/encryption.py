"""Encryption of the credentials of a job, for exchange directories that others may read."""

from __future__ import annotations

import base64
import binascii
import os

KEY_VARIABLE = "AIRFLOW_PUSHDOWN_EXCHANGE_KEY"
"""The environment variable with the key, on the worker and in the driver."""
KEY_ALIAS = "airflow.pushdown.exchange.key"
"""The alias of the key in a Hadoop credential provider."""
KEY_WAYS = (
    f"a Kubernetes secret (conf spark.kubernetes.driver.secretKeyRef.{KEY_VARIABLE}=NAME:ENTRY), a Hadoop credential "
    f"provider with the alias {KEY_ALIAS} (conf spark.hadoop.hadoop.security.credential.provider.path), or the "
    f"variable {KEY_VARIABLE} in the environment of the cluster's drivers"
)
"""How a cluster passes the key to a driver, for messages."""

_PREFIX = "aes-256-gcm:"
_KEY_BYTES = 32
_NONCE_BYTES = 12


class DecryptionError(Exception):
    """A string cannot be decrypted. The message contains neither the string nor the key."""


def encrypt(text: str, key: str, context: str) -> str:
    """Return a string encrypted with a key, which only decrypts in the same context.

    `key` is 32 random bytes in URL-safe base64, as `Fernet.generate_key()` returns them. `context` is not encrypted.
    Raises `ValueError` for another key.
    """
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = os.urandom(_NONCE_BYTES)
    ciphertext = AESGCM(_key_bytes(key)).encrypt(nonce, text.encode(), context.encode())
    return _PREFIX + base64.b64encode(nonce + ciphertext).decode()


def is_encrypted(text: str) -> bool:
    """Return whether `encrypt` returned the text."""
    return text.startswith(_PREFIX)


def decrypt(text: str, key: str, context: str) -> str:
    """Decrypt the result of `encrypt` with the same key and context.

    Raises `DecryptionError` for another key, another context or a damaged text, and `ValueError` for an invalid key.
    """
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    cipher = AESGCM(_key_bytes(key))
    try:
        content = base64.b64decode(text.removeprefix(_PREFIX), validate=True)
        return cipher.decrypt(content[:_NONCE_BYTES], content[_NONCE_BYTES:], context.encode()).decode()
    except (InvalidTag, ValueError):
        # Not chained, because the cause adds nothing.
        raise DecryptionError("it was encrypted with another key or for another job spec, or it is damaged") from None


def _key_bytes(key: str) -> bytes:
    try:
        content = base64.urlsafe_b64decode(key.strip())
    except (binascii.Error, ValueError):
        content = b""
    if len(content) != _KEY_BYTES:
        raise ValueError("the key must be 32 random bytes in URL-safe base64, as Fernet.generate_key() returns them")
    return content
