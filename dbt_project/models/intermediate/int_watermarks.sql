-- One row a cluster: the time up to which its traces are complete, the models' only "now".
{% set watermarks = var('watermarks') %}
{% for cluster, watermark in watermarks.items() %}
select
  '{{ cluster }}' as cluster,
  timestamp '{{ watermark }}' as watermark
{% if not loop.last %}union all{% endif %}
{% else %}
select
  cast(null as string) as cluster,
  cast(null as timestamp) as watermark
where false
{% endfor %}
