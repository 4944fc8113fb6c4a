-- One row per cluster: the time up to which its traces are complete. Models use it instead of the current time.
{% set watermarks = var('watermarks') %}
select
  cluster,
  watermark
from
  values
  {% for cluster, watermark in watermarks.items() %}
    ('{{ cluster }}', timestamp '{{ watermark }}') {{- ',' if not loop.last }}
  {% else %}
    (cast(null as string), cast(null as timestamp))
  {% endfor %}
    as watermarks (cluster, watermark)
where cluster is not null
