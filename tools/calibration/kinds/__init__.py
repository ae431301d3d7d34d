"""Physics that the verdict's calibration did not know, written to mislead it.

In reading order: `build` (how a kind is written), the kinds by their physics (`electrical`,
`mechanical`, `process`, `living`, `later`), `listed` (which there are), `draws` (a session of a
kind), `expected` (its true error before the product has seen it), `tables` (what came of it).
"""
