"""Connect to a Kafka broker from Spark and Python, describe its topics, and send messages.

`connection` needs no Kafka client; `topics` and `sender` do.
"""
