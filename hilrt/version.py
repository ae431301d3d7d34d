"""The version, for files, messages and views; apart from the package's face, which imports all of
it.
"""

VERSION = "0.1.0"
