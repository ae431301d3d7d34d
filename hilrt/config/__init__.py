"""The session file: its tables as structs, reading it, its schema, units, and what is wrong with a
value.
"""
