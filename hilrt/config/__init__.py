"""The session file: its keys as structs, and the functions that read it.

In reading order: `structs` (keys) with `session_tables` (keys of recording, views and stimuli),
`from_toml` (table to struct, all problems at once), `parse_toml` (text to tables),
`session_file` (the whole file with overrides), `session_builder` (sessions in Python),
`problems` (findings and their lines), `read_values` (entries of lists, patterns, commands,
tolerances), `schema` (for editors), `registry` (adapter names to classes), `units`.
"""
