"""Keep a table well: table services, taking it back to an earlier commit, repairs.

May import the ground and the writer's modules beside this folder, except the ledger.
Start reading at `policy.tidy_options`: what the batches of a stream do by themselves.
"""
