"""Sessions and readers under attack, faults and long runs; see docs/qualification.md."""
