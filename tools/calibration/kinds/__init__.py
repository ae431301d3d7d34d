"""Physics unknown to the verdict's calibration, chosen to mislead the verdict.

In reading order: `build` (notation of a kind), the kinds by their physics (`electrical`,
`mechanical`, `process`, `living`, `later`), `listed` (all kinds), `draws` (one session of a kind),
`expected` (its true error, computed before the product runs it), `tables` (results).
"""
