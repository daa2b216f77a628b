"""The `hudilab` command: run notebooks, servers and jobs, and build bundles.

Only notebooks import this package. Start reading at `cli`, whose commands import the other modules.
"""
