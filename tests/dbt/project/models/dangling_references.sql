select registryid, source_xid, relation, target
from {{ source('xregistry', 'entity_references') }}
where status = 'dangling'
