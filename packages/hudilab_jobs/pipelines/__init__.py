"""A pipeline: the source it reads, what it would store, and its report of each batch.

Start reading at `runner.opened`.
"""
