"""Decode the numbers of Avro and Thrift from bytes."""

from __future__ import annotations


class Cursor:
    """A position in bytes; a read past the end raises EOFError and does not move it.

    Args:
        data: The bytes.
        steps: The number of remaining reads, which cursors can share. After that, a read raises
            ValueError, because a few bytes can encode a long loop.
    """

    def __init__(self, data: bytes, steps: list[int]) -> None:
        self.data, self.at, self._steps = data, 0, steps

    def take(self, count: int) -> bytes:
        """Read this number of bytes."""
        self._steps[0] -= 1
        if count < 0 or self._steps[0] < 0:
            raise ValueError("a length is negative" if count < 0 else "it has too many parts")
        end = self.at + count
        if end > len(self.data):
            raise EOFError("it ends too early")
        part, self.at = self.data[self.at : end], end
        return part

    def number(self) -> int:
        """Read a number of at most ten bytes, with seven bits per byte and the lowest first."""
        value = 0
        for shift in range(0, 70, 7):
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ValueError("a number has more than 64 bits")

    def signed(self) -> int:
        """Read a number with its sign in the lowest bit."""
        value = self.number()
        return (value >> 1) ^ -(value & 1)
