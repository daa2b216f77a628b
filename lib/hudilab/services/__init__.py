"""Start, find and stop real servers on loopback, each in a process of its own."""
