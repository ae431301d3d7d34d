"""The session file: its keys as structs, and how it is read.

Read in this order: `structs` (every key) with `table`, `stimuli` and `record_tables`, `from_toml`
(a table to a struct, all problems at once), `removed_keys`, `parse_toml` (text to tables),
`session_file` (the whole file with overrides), `problems` (findings) with `list_entries` and
`toml_lines` (where they are), `schema` (for editors), `registry` (adapter names to classes),
`port_patterns`, `tolerances`, `spawn_command`, `units`.
"""
