"""The process next to a server that writes: it gathers requests and commits them together (`process`, `append`).

The processes of the server hand requests to it over a local socket (`writerclient`, `wire`); one of them keeps it running. The
entity tables follow with Spark.
"""
