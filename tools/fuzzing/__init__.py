"""Parts of `tools/fuzz.py`: samples, mutations, readers, the limited child; by coverage: guided."""
