-- 0003 inbox, undone. What had been handled is forgotten: copies of it take effect again.

DROP TABLE posthaste.inbox_dead;
DROP TABLE posthaste.inbox_log;
DROP TABLE posthaste.inbox_lane;
DROP TABLE posthaste.inbox;
