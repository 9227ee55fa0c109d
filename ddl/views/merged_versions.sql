-- merged_versions: Merged Versions: the definition of each Version that has a base over those of its bases, as flat attributes.
-- Grain: one row per Version that has a basemessage.  Reads: definition_chains.  Read by: merged_definitions.
-- What survives: a flat attribute of a base, unless a nearer definition has one at the same pointer; or at a pointer above
-- it that is not {}; or at one below it, while it is not {} itself. Then {} with survivors below goes. Exclusive attributes
-- are one slot, and another protocol or envelope drops what the bases say of theirs. docs/flattening.md shows it.
CREATE OR REPLACE VIEW merged_versions (
  registryid COMMENT 'Registry that the Version belongs to',
  version_xid COMMENT 'XID of the Version',
  chain_status COMMENT 'resolved; dangling: a base is not in the catalog; cycle; external: a base on another host; too_deep: not all were followed',
  chain_depth COMMENT 'How many bases were merged',
  definitions COMMENT 'The definitions that were found, nearest first: the own one and its bases',
  attributes COMMENT 'The merged definition as flat attributes: JSON Pointer to JSON text of the value',
  sought COMMENT 'XIDs of all messages that this definition was sought in, found or not'
)
COMMENT 'The definition of each Version that has a base over those of its bases, as flat attributes.'
AS
-- Layers: the bases from the root on, then the own definition; NULL when there is nothing to merge.
WITH layer_lists AS (
  SELECT
    *,
    CASE WHEN size(definitions) > 1 AND chain_status <> 'cycle' THEN reverse(transform(definitions, definition -> definition.attributes)) END AS layers
  FROM definition_chains
),

unions AS (
  SELECT
    *,
    aggregate(
      slice(layers, 2, size(layers) - 1),
      layers[0],
      (merged, layer) -> map_zip_with(merged, layer, (pointer, inherited, nearer) -> coalesce(nearer, inherited))
    ) AS united
  FROM layer_lists
),

-- The union is the result, unless pointers stand above others, or a slot or a protocol may hide something. With `/` behind
-- them and in their order, a pointer above others comes right before one of these.
judgements AS (
  SELECT
    *,
    layers IS NOT NULL AND (
      aggregate(
        sort_array(transform(map_keys(united), pointer -> concat(pointer, '/'))),
        struct(FALSE AS is_above, ' ' AS place),
        (before, place) -> struct(before.is_above OR startswith(place, before.place) AS is_above, place)
      ).is_above
      OR size(array_intersect(map_keys(united), array('/dataschema', '/dataschemauri', '/dataschemaxid'))) > 1
      OR array_join(map_keys(united), ' ') RLIKE '/protocoloptions/(key_base64|status)'
      OR size(array_distinct(array_compact(transform(layers, layer -> layer['/protocol'])))) > 1
      OR size(array_distinct(array_compact(transform(layers, layer -> layer['/envelope'])))) > 1
    ) AS needs_care
  FROM unions
),

-- What protocols and envelopes compare by: MQTT by its version too, where none is 5.0; others by the family only. A name
-- without a version is less precise and no other one.
comparisons AS (
  SELECT
    *,
    CASE WHEN needs_care THEN
      transform(
        layers,
        layer -> struct(
          layer AS attributes,
          map_keys(layer) AS pointers,
          upper(trim(BOTH ' "' FROM split_part(layer['/protocol'], '/', 1))) AS family,
          CASE WHEN upper(trim(BOTH ' "' FROM split_part(layer['/protocol'], '/', 1))) = 'MQTT'
            THEN regexp_replace(
              coalesce(nullif(trim(BOTH ' "' FROM substr(layer['/protocol'], length(split_part(layer['/protocol'], '/', 1)) + 2)), ''), '5.0'),
              '\\.0\\z',
              ''
            )
          END AS mqtt_version,
          upper(trim(BOTH '"' FROM split_part(layer['/envelope'], '/', 1))) AS envelope,
          nullif(trim(BOTH '"' FROM substr(layer['/envelope'], length(split_part(layer['/envelope'], '/', 1)) + 2)), '') AS envelope_version,
          arrays_overlap(map_keys(layer), array('/dataschema', '/dataschemauri', '/dataschemaxid')) AS sets_schema,
          transform(
            filter(map_keys(layer), pointer -> startswith(pointer, '/protocoloptions/') AND layer[pointer] <> '{}'),
            pointer -> split_part(pointer, '/', 3)
          ) AS options
        )
      )
    END AS careful
  FROM judgements
),

folds AS (
  SELECT
    *,
    aggregate(
      slice(careful, 2, size(careful) - 1),
      struct(careful[0].attributes, careful[0].family, careful[0].mqtt_version, careful[0].envelope, careful[0].envelope_version),
      (merged, layer) -> struct(
        map_concat(
          map_filter(
            merged.attributes,
            (p, leaf) -> NOT (
              map_contains_key(layer.attributes, p)
              OR (
                p RLIKE '\\A/protocoloptions(/|\\z)'
                AND (coalesce(merged.family <> layer.family, FALSE) OR coalesce(merged.mqtt_version <> layer.mqtt_version, FALSE))
              )
              OR (
                p RLIKE '\\A/envelope(metadata|options)(/|\\z)'
                AND (coalesce(merged.envelope <> layer.envelope, FALSE) OR coalesce(merged.envelope_version <> layer.envelope_version, FALSE))
              )
              OR (p IN ('/dataschema', '/dataschemauri', '/dataschemaxid') AND layer.sets_schema)
              OR (
                startswith(p, '/protocoloptions/')
                AND CASE split_part(p, '/', 3)
                  WHEN 'method' THEN coalesce(layer.family, merged.family, 'HTTP') = 'HTTP' AND array_contains(layer.options, 'status')
                  WHEN 'status' THEN coalesce(layer.family, merged.family, 'HTTP') = 'HTTP' AND array_contains(layer.options, 'method')
                  WHEN 'key' THEN coalesce(layer.family, merged.family, 'KAFKA') = 'KAFKA' AND array_contains(layer.options, 'key_base64')
                  WHEN 'key_base64' THEN coalesce(layer.family, merged.family, 'KAFKA') = 'KAFKA' AND array_contains(layer.options, 'key')
                  ELSE FALSE
                END
              )
              OR exists(
                layer.pointers,
                q -> (startswith(p, concat(q, '/')) AND layer.attributes[q] <> '{}') OR (leaf <> '{}' AND startswith(q, concat(p, '/')))
              )
            )
          ),
          layer.attributes
        ) AS attributes,
        coalesce(layer.family, merged.family) AS family,
        CASE WHEN layer.family IS NULL THEN merged.mqtt_version ELSE layer.mqtt_version END AS mqtt_version,
        coalesce(layer.envelope, merged.envelope) AS envelope,
        coalesce(layer.envelope_version, CASE WHEN coalesce(layer.envelope = merged.envelope, TRUE) THEN merged.envelope_version END) AS envelope_version
      )
    ).attributes AS folded
  FROM comparisons
)

SELECT
  registryid,
  version_xid,
  chain_status,
  CASE WHEN layers IS NULL THEN 0 ELSE size(definitions) - 1 END AS chain_depth,
  definitions,
  CASE
    WHEN layers IS NULL THEN definitions[0].attributes
    WHEN NOT needs_care THEN united
    ELSE map_filter(folded, (p, leaf) -> leaf <> '{}' OR NOT exists(map_keys(folded), q -> startswith(q, concat(p, '/'))))
  END AS attributes,
  sought
FROM folds;
