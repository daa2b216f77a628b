"""What runs the lab: the `hudilab` command, its runner of notebooks, servers, shipping.

Nothing imports it but notebooks.
Start reading at `cli`: each command imports what it runs.
"""
