"""Changeover beside other libraries: the same handoffs with a scripted model, each library in its own environment."""
