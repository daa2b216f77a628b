"""A pipeline's parts: the folder it reads, and what it would store.

May import what a job may. Start reading at `hudilab.jobs.stream`, which puts them together.
"""
