"""Readers for the file formats that this package decodes itself."""
