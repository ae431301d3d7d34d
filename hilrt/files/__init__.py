"""Reading of foreign files within limits: a bad file causes an error, not a crash.

In reading order: `text` (regular files, lines of compressed files, files written whole), `archive`
(ZIP archives, limited by their contents), `formats` (JSON, MessagePack, XML without document
types).
"""
