-- 0005 inbox_page, undone. What pages held is forgotten: copies of it take effect again.

DROP TABLE posthaste_inbox_page;
