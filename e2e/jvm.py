"""What the JVMs of tests and end-to-end runs are started with; needs nothing but Python."""

from __future__ import annotations

QUICK = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    " -XX:ReservedCodeCacheSize=400m -XX:-UseCodeCacheFlushing"
)
"""They live for seconds or minutes: the optimising compiler would take half of their time, the verifier a tenth."""
