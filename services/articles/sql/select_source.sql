-- select_source: the name of this outbox.
SELECT source
FROM articles_outbox;
