"""Reach a Kafka broker from Spark and Python, look at its topics, send messages.

May import the ground, the writer and the runtime's settings.
Start reading at `topics.access`.
"""
