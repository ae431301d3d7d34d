"""The version, for what is written, sent and shown; apart from the package's face, which imports
all of it.
"""

VERSION = "0.1.0"
