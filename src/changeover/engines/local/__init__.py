"""The engine in this process: conversations run on one event loop, which a lease protects from other processes."""
