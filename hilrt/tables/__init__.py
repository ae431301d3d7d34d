"""Ports, connections and power bonds as tables of indices and gains."""
