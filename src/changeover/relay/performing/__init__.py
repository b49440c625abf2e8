"""The effects, each in a file of its own; `perform` finds the right one."""
