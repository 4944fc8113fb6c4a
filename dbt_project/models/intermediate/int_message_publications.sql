-- One row a message id: where and when it was first published. Consumer records carry no topic, it comes from here.
with first_publications as (
  select
    cluster,
    msg_id,
    min(struct(published_at, topic, hour_source, producer_client)) as publication
  from {{ ref('int_messages') }}
  group by cluster, msg_id
)

select
  cluster,
  msg_id,
  publication.topic,
  publication.published_at,
  publication.hour_source,
  publication.producer_client
from first_publications
