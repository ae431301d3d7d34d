"""Key figures of the papers, reproduced with this package."""
