"""The local engine: runs conversations on one event loop of this process; other processes may share the store."""
