"""Read foreign files within limits, so that a bad file causes an error and not a crash.

In reading order: `text` (regular files, lines of compressed files, files written whole), `archive`
(ZIP archives, limited by their contents), `formats` (JSON, MessagePack, XML without document
types).
"""
