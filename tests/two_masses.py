"""The connections of `hilrt.models.two_mass`, for sessions in which both masses take part."""

CONNECTIONS = """
[[connections]]
from = "mass1.force"
to = "mass2.force"
[[connections]]
from = "mass2.x"
to = "mass1.x2"
[[connections]]
from = "mass2.v"
to = "mass1.v2"
"""
