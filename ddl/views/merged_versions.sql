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
WITH layered_definitions AS (
  SELECT
    *,
    CASE WHEN size(definitions) > 1 AND chain_status <> 'cycle' THEN reverse(transform(definitions, definition -> definition.attributes)) END AS layers
  FROM definition_chains
),

united_layers AS (
  SELECT
    *,
    aggregate(
      slice(layers, 2, size(layers) - 1),
      layers[0],
      (merged, layer) -> map_zip_with(merged, layer, (pointer, inherited, nearer) -> coalesce(nearer, inherited))
    ) AS united
  FROM layered_definitions
),

-- The union is the result, unless pointers stand above others, or a slot or a protocol may hide something. With `/` behind
-- them and in their order, a pointer above others comes right before one of these.
judged_unions AS (
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
    ) AS may_hide
  FROM united_layers
),

-- What protocols and envelopes compare by: MQTT by its version too, where none is 5.0; others by the family only. A name
-- without a version is less precise and no other one.
compared_layers AS (
  SELECT
    *,
    CASE WHEN may_hide THEN
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
    END AS comparable_layers
  FROM judged_unions
),

-- Each layer over the result so far. `hidden` is what of that result goes by a rule for all of its pointers: all protocol
-- options, all of the envelope, the schema, and options whose slot the layer fills otherwise. Last, what goes by its path.
merged_layers AS (
  SELECT
    *,
    aggregate(
      slice(comparable_layers, 2, size(comparable_layers) - 1),
      struct(
        comparable_layers[0].attributes,
        comparable_layers[0].family,
        comparable_layers[0].mqtt_version,
        comparable_layers[0].envelope,
        comparable_layers[0].envelope_version
      ),
      (merged, layer) -> struct(
        map_concat(
          transform(
            array(
              struct(
                coalesce(merged.family <> layer.family, FALSE) OR coalesce(merged.mqtt_version <> layer.mqtt_version, FALSE) AS by_protocol,
                coalesce(merged.envelope <> layer.envelope, FALSE)
                OR coalesce(merged.envelope_version <> layer.envelope_version, FALSE) AS by_envelope,
                layer.sets_schema AS by_schema,
                array_compact(
                  array(
                    CASE WHEN coalesce(layer.family, merged.family, 'HTTP') = 'HTTP' AND array_contains(layer.options, 'status') THEN 'method' END,
                    CASE WHEN coalesce(layer.family, merged.family, 'HTTP') = 'HTTP' AND array_contains(layer.options, 'method') THEN 'status' END,
                    CASE WHEN coalesce(layer.family, merged.family, 'KAFKA') = 'KAFKA' AND array_contains(layer.options, 'key_base64') THEN 'key' END,
                    CASE WHEN coalesce(layer.family, merged.family, 'KAFKA') = 'KAFKA' AND array_contains(layer.options, 'key') THEN 'key_base64' END
                  )
                ) AS by_slot
              )
            ),
            hidden -> map_filter(
              merged.attributes,
              (pointer, text) -> NOT (
                map_contains_key(layer.attributes, pointer)
                OR (hidden.by_protocol AND pointer RLIKE '\\A/protocoloptions(/|\\z)')
                OR (hidden.by_envelope AND pointer RLIKE '\\A/envelope(metadata|options)(/|\\z)')
                OR (hidden.by_schema AND pointer IN ('/dataschema', '/dataschemauri', '/dataschemaxid'))
                OR (startswith(pointer, '/protocoloptions/') AND array_contains(hidden.by_slot, split_part(pointer, '/', 3)))
                OR exists(
                  layer.pointers,
                  nearer -> (startswith(pointer, concat(nearer, '/')) AND layer.attributes[nearer] <> '{}')
                  OR (text <> '{}' AND startswith(nearer, concat(pointer, '/')))
                )
              )
            )
          )[0],
          layer.attributes
        ) AS attributes,
        coalesce(layer.family, merged.family) AS family,
        CASE WHEN layer.family IS NULL THEN merged.mqtt_version ELSE layer.mqtt_version END AS mqtt_version,
        coalesce(layer.envelope, merged.envelope) AS envelope,
        coalesce(layer.envelope_version, CASE WHEN coalesce(layer.envelope = merged.envelope, TRUE) THEN merged.envelope_version END) AS envelope_version
      )
    ).attributes AS merged
  FROM compared_layers
)

SELECT
  registryid,
  version_xid,
  chain_status,
  CASE WHEN layers IS NULL THEN 0 ELSE size(definitions) - 1 END AS chain_depth,
  definitions,
  CASE
    WHEN layers IS NULL THEN definitions[0].attributes
    WHEN NOT may_hide THEN united
    ELSE map_filter(merged, (pointer, text) -> text <> '{}' OR NOT exists(map_keys(merged), other -> startswith(other, concat(pointer, '/'))))
  END AS attributes,
  sought
FROM merged_layers;
