"""What has landed as one shape: adapters as Spark expressions, captured messages, CloudEvents in their bindings."""
