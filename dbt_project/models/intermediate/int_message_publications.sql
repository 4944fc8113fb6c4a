-- One row a message id: where and when it was first published. Consumer records carry no topic, it comes from here.
select
  cluster,
  msg_id,
  min(struct(published_at, topic, hour_source)).topic as topic,
  min(struct(published_at, topic, hour_source)).published_at as published_at,
  min(struct(published_at, topic, hour_source)).hour_source as hour_source
from {{ ref('int_messages') }}
group by cluster, msg_id
