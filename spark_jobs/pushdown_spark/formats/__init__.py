"""Readers of files, one package for each format."""
