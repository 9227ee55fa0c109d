-- merged_definitions: Merged definitions: the definition of each message over those of its bases, as leaves.
-- Grain: one row per message of scope.  Reads: scope, messages, versions, base_paths.  Read by: message_chains, flat_messages, flat_attributes.
-- The leaf rule: a leaf of a base survives unless a nearer definition has a leaf at the same pointer; or at a pointer above
-- it that is not {}; or at one below it, while it is not {} itself. Then {} with survivors below goes. Exclusive attributes
-- are one slot, and another protocol or envelope drops what the bases say of theirs. docs/flattening.md shows it.
CREATE OR REPLACE VIEW merged_definitions (
  registryid COMMENT 'Registry that the message belongs to',
  xid COMMENT 'XID of the message',
  group_xid COMMENT 'XID of the message group, or the endpoint, that holds the message',
  messageid COMMENT 'Id of the message in its group',
  xref COMMENT 'XID of the message that this one stands for; NULL for one with a definition of its own',
  version_xid COMMENT 'XID of the Version that the message shows; that of another message when xref is set; NULL: there is none',
  chain_status COMMENT 'none: no base; resolved; dangling: a base, or what xref names, is not in the catalog; cycle; external: a base on another host; too_deep',
  chain_depth COMMENT 'How many bases were merged',
  definitions COMMENT 'The definitions that were found, nearest first: the own one and its bases',
  attributes COMMENT 'The merged definition as leaves: JSON Pointer to JSON text of the value',
  document_uris COMMENT 'URIs of the documents that hold the message now, sorted',
  depends_on COMMENT 'XIDs of all messages that this definition was sought in, found or not'
)
COMMENT 'The definition of each message over those of its bases, as leaves.'
AS
WITH shown AS (
  SELECT
    registryid,
    xid,
    group_xid,
    messageid,
    xref,
    document_uris,
    concat(xid, '/versions/', defaultversionid) AS version_xid
  FROM scope
  WHERE xref IS NULL
  UNION ALL
  SELECT
    s.registryid,
    s.xid,
    s.group_xid,
    s.messageid,
    s.xref,
    s.document_uris,
    concat(t.xid, '/versions/', t.defaultversionid) AS version_xid
  FROM scope AS s
  LEFT JOIN messages AS t ON t.registryid = s.registryid AND t.xid = s.xref AND t.xref IS NULL
  WHERE s.xref IS NOT NULL
),

own AS (
  SELECT /*+ SHUFFLE_HASH(s) */
    s.registryid,
    s.xid,
    s.group_xid,
    s.messageid,
    s.xref,
    s.document_uris,
    s.version_xid AS shown_version_xid,
    v.xid AS version_xid,
    v.basemessage,
    v.base_xid,
    v.attributes
  FROM shown AS s
  LEFT JOIN versions AS v ON v.registryid = s.registryid AND v.xid = s.version_xid
),

steps AS (
  SELECT
    registryid,
    version_xid,
    is_open,
    is_cycle,
    depth,
    base_version_xid
  FROM base_paths
  LATERAL VIEW OUTER posexplode(array_distinct(path)) AS depth, base_version_xid
),

found AS (
  SELECT /*+ SHUFFLE_HASH(s) */
    s.registryid,
    s.version_xid,
    any_value(s.is_open) AS is_open,
    any_value(s.is_cycle) AS is_cycle,
    collect_list(CASE WHEN v.xid IS NOT NULL THEN struct(s.depth, v.xid AS version_xid, v.basemessage, v.base_xid, v.attributes) END) AS bases
  FROM steps AS s
  LEFT JOIN versions AS v ON v.registryid = s.registryid AND v.xid = s.base_version_xid
  GROUP BY s.registryid, s.version_xid
),

chained AS (
  SELECT /*+ SHUFFLE_HASH(f) */
    o.registryid,
    o.xid,
    o.group_xid,
    o.messageid,
    o.xref,
    o.document_uris,
    o.version_xid,
    o.basemessage,
    coalesce(f.is_open, FALSE) AS is_open,
    coalesce(f.is_cycle, FALSE) AS is_cycle,
    concat(
      CASE WHEN o.version_xid IS NULL
        THEN CAST(array() AS ARRAY<STRUCT<depth: INT, version_xid: STRING, basemessage: STRING, base_xid: STRING, attributes: MAP<STRING, STRING>>>)
        ELSE array(struct(-1 AS depth, o.version_xid, o.basemessage, o.base_xid, o.attributes))
      END,
      CASE WHEN size(f.bases) > 1 THEN array_sort(f.bases, (a, b) -> a.depth - b.depth) WHEN size(f.bases) = 1 THEN f.bases ELSE array() END
    ) AS definitions
  FROM own AS o
  LEFT JOIN found AS f ON f.registryid = o.registryid AND f.version_xid = o.shown_version_xid
),

-- Layers: the bases from the root on, then the own definition; NULL when there is nothing to merge.
layered AS (
  SELECT
    registryid,
    xid,
    group_xid,
    messageid,
    xref,
    document_uris,
    version_xid,
    basemessage,
    is_open,
    is_cycle,
    definitions,
    CASE WHEN size(definitions) > 1 AND NOT is_cycle THEN reverse(transform(definitions, d -> d.attributes)) END AS layers
  FROM chained
),

united AS (
  SELECT
    *,
    aggregate(
      slice(layers, 2, size(layers) - 1),
      layers[0],
      (merged, layer) -> map_zip_with(merged, layer, (pointer, inherited, nearer) -> coalesce(nearer, inherited))
    ) AS united
  FROM layered
),

pointed AS (
  SELECT
    *,
    concat('\u0002', array_join(map_keys(united), '\u0002'), '\u0002') AS pointers
  FROM united
),

-- The union is the result, unless pointers stand above others, or a slot or a protocol may hide something.
judged AS (
  SELECT
    *,
    layers IS NOT NULL AND (
      array_join(sort_array(split(replace(pointers, '/', '\u0001'), '\u0002')), '\u0002') RLIKE '\u0002([^\u0002]++)\u0002\\1\u0001'
      OR size(array_intersect(map_keys(united), array('/dataschema', '/dataschemauri', '/dataschemaxid'))) > 1
      OR (contains(pointers, '/protocoloptions/status') AND contains(pointers, '/protocoloptions/method'))
      OR (contains(pointers, '/protocoloptions/key_base64') AND pointers RLIKE '/protocoloptions/key[/\u0002]')
      OR size(array_distinct(filter(transform(layers, layer -> layer['/protocol']), protocol -> protocol IS NOT NULL))) > 1
      OR size(array_distinct(filter(transform(layers, layer -> layer['/envelope']), envelope -> envelope IS NOT NULL))) > 1
    ) AS needs_care
  FROM pointed
),

-- What protocols and envelopes compare by: MQTT by its version too, where none is 5.0; others by the family only. A name
-- without a version is less precise and no other one.
compared AS (
  SELECT
    *,
    CASE WHEN needs_care THEN
      transform(
        layers,
        layer -> struct(
          layer AS leaves,
          map_keys(layer) AS pointers,
          upper(trim(BOTH '"' FROM split_part(layer['/protocol'], '/', 1))) AS family,
          CASE WHEN upper(layer['/protocol']) LIKE '"MQTT%'
            THEN coalesce(nullif(regexp_replace(trim(BOTH '"' FROM split_part(layer['/protocol'], '/', 2)), '\\.0\\z', ''), ''), '5')
          END AS mqtt_version,
          upper(trim(BOTH '"' FROM split_part(layer['/envelope'], '/', 1))) AS envelope,
          nullif(trim(BOTH '"' FROM split_part(layer['/envelope'], '/', 2)), '') AS envelope_version,
          arrays_overlap(map_keys(layer), array('/dataschema', '/dataschemauri', '/dataschemaxid')) AS sets_schema,
          exists(map_keys(layer), q -> q RLIKE '\\A/protocoloptions/method(/|\\z)' AND layer[q] <> '{}') AS sets_method,
          exists(map_keys(layer), q -> q RLIKE '\\A/protocoloptions/status(/|\\z)' AND layer[q] <> '{}') AS sets_status,
          exists(map_keys(layer), q -> q RLIKE '\\A/protocoloptions/key(/|\\z)' AND layer[q] <> '{}') AS sets_key,
          exists(map_keys(layer), q -> q RLIKE '\\A/protocoloptions/key_base64(/|\\z)' AND layer[q] <> '{}') AS sets_key_base64
        )
      )
    END AS careful
  FROM judged
),

folded AS (
  SELECT
    *,
    aggregate(
      slice(careful, 2, size(careful) - 1),
      named_struct(
        'leaves', careful[0].leaves,
        'family', careful[0].family,
        'mqtt_version', careful[0].mqtt_version,
        'envelope', careful[0].envelope,
        'envelope_version', careful[0].envelope_version
      ),
      (merged, layer) -> named_struct(
        'leaves', map_concat(
          map_filter(
            merged.leaves,
            (p, leaf) -> NOT (
              map_contains_key(layer.leaves, p)
              OR (
                p RLIKE '\\A/protocoloptions(/|\\z)'
                AND (coalesce(merged.family <> layer.family, FALSE) OR coalesce(merged.mqtt_version <> layer.mqtt_version, FALSE))
              )
              OR (
                p RLIKE '\\A/envelope(metadata|options)(/|\\z)'
                AND (
                  coalesce(merged.envelope <> layer.envelope, FALSE)
                  OR coalesce(merged.envelope_version <> layer.envelope_version, FALSE)
                )
              )
              OR (p IN ('/dataschema', '/dataschemauri', '/dataschemaxid') AND layer.sets_schema)
              OR (
                coalesce(layer.family, merged.family, 'HTTP') = 'HTTP'
                AND (
                  (layer.sets_status AND p RLIKE '\\A/protocoloptions/method(/|\\z)')
                  OR (layer.sets_method AND p RLIKE '\\A/protocoloptions/status(/|\\z)')
                )
              )
              OR (
                coalesce(layer.family, merged.family, 'KAFKA') = 'KAFKA'
                AND (
                  (layer.sets_key_base64 AND p RLIKE '\\A/protocoloptions/key(/|\\z)')
                  OR (layer.sets_key AND p RLIKE '\\A/protocoloptions/key_base64(/|\\z)')
                )
              )
              OR exists(
                layer.pointers,
                q -> (startswith(p, concat(q, '/')) AND layer.leaves[q] <> '{}') OR (leaf <> '{}' AND startswith(q, concat(p, '/')))
              )
            )
          ),
          layer.leaves
        ),
        'family', coalesce(layer.family, merged.family),
        'mqtt_version', CASE WHEN layer.family IS NULL THEN merged.mqtt_version ELSE layer.mqtt_version END,
        'envelope', coalesce(layer.envelope, merged.envelope),
        'envelope_version', CASE WHEN layer.envelope IS NULL THEN merged.envelope_version ELSE coalesce(layer.envelope_version, CASE WHEN layer.envelope = merged.envelope THEN merged.envelope_version END) END
      )
    ).leaves AS folded
  FROM compared
)

SELECT
  registryid,
  xid,
  group_xid,
  messageid,
  xref,
  version_xid,
  CASE
    WHEN is_cycle THEN 'cycle'
    WHEN version_xid IS NULL THEN 'dangling'
    WHEN basemessage IS NULL THEN 'none'
    WHEN element_at(definitions, -1).basemessage IS NULL THEN 'resolved'
    WHEN is_open THEN 'too_deep'
    WHEN element_at(definitions, -1).base_xid IS NULL THEN 'external'
    ELSE 'dangling'
  END AS chain_status,
  CASE WHEN layers IS NULL THEN 0 ELSE size(definitions) - 1 END AS chain_depth,
  definitions,
  CASE
    WHEN version_xid IS NULL THEN CAST(map() AS MAP<STRING, STRING>)
    WHEN layers IS NULL THEN definitions[0].attributes
    WHEN NOT needs_care THEN united
    ELSE map_filter(folded, (p, leaf) -> leaf <> '{}' OR NOT exists(map_keys(folded), q -> startswith(q, concat(p, '/'))))
  END AS attributes,
  document_uris,
  CASE WHEN basemessage IS NULL AND xref IS NULL THEN array(xid) ELSE
  array_distinct(
    concat(
      array_compact(array(xid, xref)),
      transform(definitions, d -> array_join(slice(split(d.version_xid, '/'), 1, 5), '/')),
      transform(filter(definitions, d -> d.base_xid IS NOT NULL), d -> array_join(slice(split(d.base_xid, '/'), 1, 5), '/'))
    )
  ) END AS depends_on
FROM folded;
