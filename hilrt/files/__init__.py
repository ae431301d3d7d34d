"""Files from elsewhere, read within limits: a bad file costs an error, not the machine.

In reading order: `text` (regular files, lines of compressed files, files written whole), `archive`
(ZIP archives, limited by their contents), `formats` (JSON, MessagePack, XML without document
types).
"""
