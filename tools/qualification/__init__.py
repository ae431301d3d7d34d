"""Sessions and readers under attacks, faults and long runs; see docs/qualification.md."""
