-- comparable_definitions: What `lakehouse diff` compares: each entity with its effective definition as flat attributes.
-- Grain: one row per message, group, endpoint, schema and Version of a schema.  Reads: flat_messages, messages, groups, endpoints, schemas, schemaversions.  Read by: snapshot_diff.
-- Messages come flattened, so that an edit of a base is seen in every message that extends it, and with what the specifications
-- infer, so that saying a default is no difference.
CREATE OR REPLACE VIEW comparable_definitions (
  registryid COMMENT 'Registry that the entity belongs to',
  kind COMMENT 'message, group, endpoint, schema or schemaversion',
  xid COMMENT 'XID of the entity',
  attributes COMMENT 'The definition: JSON Pointer to JSON text of the value; each role and message group of an endpoint is a separate one'
)
COMMENT 'What lakehouse diff compares: each entity with its effective definition as flat attributes.'
AS
WITH message_definitions AS (
  SELECT
    f.registryid,
    'message' AS kind,
    f.xid,
    map_zip_with(
      map_zip_with(f.attributes, f.inferred, (pointer, declared, inferred) -> coalesce(declared, inferred)),
      map('/deprecated', m.deprecated),
      (pointer, value, other) -> coalesce(value, other)
    ) AS attributes
  FROM flat_messages AS f
  INNER JOIN messages AS m ON m.registryid = f.registryid AND m.xid = f.xid
),

group_definitions AS (
  SELECT
    registryid,
    'group' AS kind,
    xid,
    map(
      '/name', to_json(named_struct('v', name)),
      '/description', to_json(named_struct('v', description)),
      '/documentation', to_json(named_struct('v', documentation)),
      '/labels', to_json(labels),
      '/deprecated', deprecated,
      '/envelope', to_json(named_struct('v', envelope)),
      '/protocol', to_json(named_struct('v', protocol))
    ) AS attributes
  FROM groups
),

endpoint_definitions AS (
  SELECT
    registryid,
    'endpoint' AS kind,
    xid,
    map_concat(
      map(
        '/name', to_json(named_struct('v', name)),
        '/description', to_json(named_struct('v', description)),
        '/documentation', to_json(named_struct('v', documentation)),
        '/labels', to_json(labels),
        '/deprecated', deprecated,
        '/channel', to_json(named_struct('v', channel)),
        '/envelope', to_json(named_struct('v', envelope)),
        '/envelopeoptions', envelopeoptions,
        '/protocol', to_json(named_struct('v', protocol))
      ),
      map_from_entries(
        transform(array_distinct(coalesce(usage, CAST(array() AS ARRAY<STRING>))), role -> struct(concat('/usage/', role) AS key, 'true' AS value))
      ),
      map_from_entries(
        transform(
          array_distinct(coalesce(messagegroups, CAST(array() AS ARRAY<STRING>))),
          xid -> struct(concat('/messagegroups/', replace(replace(xid, '~', '~0'), '/', '~1')) AS key, 'true' AS value)
        )
      ),
      map_from_entries(
        transform(
          map_entries(coalesce(from_json(protocoloptions, 'map<string,string>'), CAST(map() AS MAP<STRING, STRING>))),
          option -> struct(concat('/protocoloptions/', replace(replace(option.key, '~', '~0'), '/', '~1')) AS key, option.value AS value)
        )
      )
    ) AS attributes
  FROM endpoints
),

schema_definitions AS (
  SELECT
    registryid,
    'schema' AS kind,
    xid,
    map(
      '/deprecated', deprecated,
      '/defaultversionid', to_json(named_struct('v', defaultversionid)),
      '/compatibility', to_json(named_struct('v', compatibility))
    ) AS attributes
  FROM schemas
),

schemaversion_definitions AS (
  SELECT
    registryid,
    'schemaversion' AS kind,
    xid,
    map(
      '/name', to_json(named_struct('v', name)),
      '/description', to_json(named_struct('v', description)),
      '/documentation', to_json(named_struct('v', documentation)),
      '/labels', to_json(labels),
      '/format', to_json(named_struct('v', format)),
      '/schema', schema,
      '/schemauri', to_json(named_struct('v', schemauri)),
      '/contenttype', to_json(named_struct('v', contenttype))
    ) AS attributes
  FROM schemaversions
),

every AS (
  SELECT registryid, kind, xid, attributes FROM message_definitions
  UNION ALL
  SELECT registryid, kind, xid, attributes FROM group_definitions
  UNION ALL
  SELECT registryid, kind, xid, attributes FROM endpoint_definitions
  UNION ALL
  SELECT registryid, kind, xid, attributes FROM schema_definitions
  UNION ALL
  SELECT registryid, kind, xid, attributes FROM schemaversion_definitions
)

SELECT
  registryid,
  kind,
  xid,
  -- A struct of one member quotes a text as JSON does; the wrapping goes.
  transform_values(
    map_filter(attributes, (pointer, value) -> value IS NOT NULL AND value <> '{}'),
    (pointer, value) -> CASE WHEN startswith(value, '{"v":') THEN substring(value, 6, length(value) - 6) ELSE value END
  ) AS attributes
FROM every;
