"""The version, for files, messages and views; separate from `hilrt`, which imports everything."""

VERSION = "0.1.0"
