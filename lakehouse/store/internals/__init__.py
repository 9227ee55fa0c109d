"""All that reaches behind the Python API of Spark and Delta: objects of the JVM, and classes that a next release may rename.

Nothing outside this package does. Each function has a public way in its place, slower, which is taken when `jvm` says so. What
checks the statements of users and the SQL server have none: they refuse to start then.
"""
