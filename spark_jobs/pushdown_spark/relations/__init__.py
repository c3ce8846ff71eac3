"""Declared sources whose schema is known."""
