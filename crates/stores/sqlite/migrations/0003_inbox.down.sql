-- 0003 inbox, undone. What had been handled is forgotten: copies of it take effect again.
DROP TABLE posthaste_inbox_dead;
DROP TABLE posthaste_inbox_log;
DROP TABLE posthaste_inbox_lane;
DROP TABLE posthaste_inbox;
