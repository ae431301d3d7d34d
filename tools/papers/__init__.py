"""The key figures of the papers, redrawn from runs of this package."""
