select
  coalesce(protocol_family, 'any') as protocol_family,
  count(*) as messages,
  count(ce_type) as events
from {{ source('xregistry', 'flat_messages') }}
where chain_status in ('none', 'resolved')
group by all
