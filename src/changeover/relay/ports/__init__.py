"""Ports: what the core needs from outside, as protocols, and the records that they take and give."""
