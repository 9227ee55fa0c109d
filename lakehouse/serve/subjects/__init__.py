"""The read side of the Confluent Schema Registry's API, below `/ccompat/v7`, of the Avro, JSON and Protobuf schemas of a catalog.

`catalogsubjects` reads rows of the log, finds subjects, versions and ids in them, and knows which schemas are the same one;
`registryapi` answers requests.
"""
