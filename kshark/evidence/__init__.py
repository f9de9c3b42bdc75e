"""Copies of parts of a capture that can be handed on: packets of chosen messages, evidence of findings, and captures
with comments for Wireshark.
"""
