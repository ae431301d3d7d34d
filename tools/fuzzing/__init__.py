"""Parts of `tools/fuzz.py`: samples, mutations, the readers, and the limited child."""
