"""Files from elsewhere, read within limits: a stranger's file costs an error, not the machine.
Own files have their name only when they are whole.

Read in this order: `whole_file` (how files are written), `regular` (is it a file, and how large),
`text` (lines, also of compressed files), `archive` (ZIP archives, by what comes out of them), `xml`
(without document types), `msgpack` and `json`.
"""
