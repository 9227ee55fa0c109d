"""Payloads and values made up: from JSON Schema, JSON Structure, Avro and Protobuf, and from types and names of attributes."""
