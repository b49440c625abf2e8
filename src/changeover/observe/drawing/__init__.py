"""Drawings of teams, conversations and workflows: what is drawn, where it is placed, and as text, Mermaid or SVG."""
