"""What runs the lab: the `hudilab` command, its runner of notebooks, servers, shipping.

May import everything else; nothing imports it but notebooks that start servers.
Start reading at `cli`: each command imports what it runs.
"""
