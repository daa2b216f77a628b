"""Find a Java, and the jars on its class path: locked, fetched, archived; watch its process.

May import the ground, and `process` the runtime's settings.
Start reading at `find.find_java`, then `jars.verify`.
"""
