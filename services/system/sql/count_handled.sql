-- count_handled: events that the consumer has recorded, and those it gave up.
SELECT (SELECT count(*) FROM posthaste.inbox WHERE consumer = 'settlement'),
    (SELECT count(*) FROM posthaste.inbox_dead WHERE consumer = 'settlement')
