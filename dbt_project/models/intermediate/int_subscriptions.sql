-- One row per period in which a consumer group is known to subscribe to a topic on a broker, as of the watermark. Published,
-- because the next incremental run compares its own rows with these.
{{ config(materialized='audited_table', contract={'enforced': true}) }}
select distinct
  subscriptions.cluster,
  subscriptions.broker,
  subscriptions.topic,
  subscriptions.consumer_group,
  subscriptions.tag_filter,
  subscriptions.tags,
  subscriptions.valid_from as subscribed_from,
  {{ valid_to_as_of('subscriptions') }} as subscribed_to
from {{ ref('stg_subscriptions') }} as subscriptions
inner join {{ ref('int_facts_as_of') }} as facts
  on subscriptions.cluster = facts.cluster and subscriptions.valid_from <= facts.as_of
where subscriptions.topic is not null and subscriptions.consumer_group is not null
