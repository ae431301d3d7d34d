"""Samples and inputs between the master and its subsystems: channels, wire protocol, peers,
keys.
"""
