"""Declared sources, the scan requests for them, and the stores of their files."""
