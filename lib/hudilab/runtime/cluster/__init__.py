"""Reach a Spark cluster: its master, its applications and their drivers; submit programs to it.

May import the ground, the writer and the rest of the runtime.
Start reading at `submit.submit`; `master` speaks to the master.
"""
