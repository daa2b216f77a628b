"""Find a Java, and the jars on its class path: locked, fetched, archived.

May import the ground.
Start reading at `find.find_java`, then `jars.verify`.
"""
