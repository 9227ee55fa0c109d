"""The process beside a server that writes: it gathers requests (`process`), and commits them together (`batches`, `append`).

The processes of the server hand requests to it over a local socket (`client`, `wire`); one of them keeps it running (`keeper`).
The entity tables follow with Spark (`tables`).
"""
