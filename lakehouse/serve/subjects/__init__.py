"""The read side of the Confluent Schema Registry's API, below `/ccompat/v7`, of the Avro, JSON and Protobuf schemas of a catalog.

`catalogsubjects` reads rows of the log, and finds subjects, versions and ids in them; `sameschemas` compares schemas, and
`registryapi` answers requests.
"""
