"""Reach a Kafka broker from Spark and Python, look at its topics, send messages.

`connection` needs no Kafka client; `topics` and `sender` do.
"""
