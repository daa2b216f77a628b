"""What runs the lab: the `hudilab` command, its runner of notebooks, servers, shipping.

Only notebooks import it.
Start reading at `cli`: each command imports what it runs.
"""
