"""The read side of the Confluent Schema Registry's API, below `/ccompat/v7`, of the Avro, JSON and Protobuf schemas of a catalog.

`schemarecords` reads rows of the log, `catalogsubjects` finds subjects, versions and ids in them, `sameschemas` whether two
schemas are the same one, `registryapi` answers requests, and `described` describes them for OpenAPI.
"""
