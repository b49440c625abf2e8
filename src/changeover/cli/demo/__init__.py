"""The demo: a support desk of five agents, and a process that is killed."""
