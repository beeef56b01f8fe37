-- examine: the settings of this connection and the size of the file.
-- Concurrency: reads, waits for nobody. Index: none.
SELECT
    (SELECT journal_mode FROM pragma_journal_mode),
    (SELECT synchronous FROM pragma_synchronous),
    (SELECT timeout FROM pragma_busy_timeout),
    (SELECT page_count FROM pragma_page_count) * (SELECT page_size FROM pragma_page_size),
    (SELECT freelist_count FROM pragma_freelist_count) * (SELECT page_size FROM pragma_page_size)
