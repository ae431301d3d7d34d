"""Tools for a checkout: benchmarks, qualification, calibration, and the papers' figures.

Each package has its page: docs/benchmarks.md, docs/qualification.md, docs/calibration.md and
docs/paper_claims.md. `watched_session` and `audience` are shared by several of them.
"""
