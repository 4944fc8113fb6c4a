-- One row per message whose sends and attempts are as they were, but not what follows from them: the watermark has passed a
-- `next_review_at` of it.
{{ config(only_in='incremental_run') }}

{{ due_messages('fct_transactions') }}
union
{{ due_messages('fct_messages') }}
