"""Plays configurations with Tidegate and with Debian's haproxy and compares what came of it."""
