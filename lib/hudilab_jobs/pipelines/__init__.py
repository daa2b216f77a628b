"""A pipeline's parts: the source it reads, what it would store, and what it says of each batch.

May import what a job may. Start reading at `hudilab_jobs.stream`, which puts them together.
"""
