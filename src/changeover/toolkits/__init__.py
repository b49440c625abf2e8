"""Toolkits: carry out the calls that models make."""
