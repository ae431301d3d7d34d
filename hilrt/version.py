"""The version, for files, messages and views, importable without the rest of `hilrt`."""

VERSION = "0.1.0"
