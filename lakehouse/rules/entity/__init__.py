"""Rules about one entity: tests of values by table, and in code what a table cannot say."""
