"""Drivers on clusters."""
