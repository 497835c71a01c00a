"""Bytes between storage and a peer's memory: the port, the engine, and the door to C."""
