-- 0002 log identity, undone. Consumers that tell copies by seq take what is sent again for new.
DROP TABLE posthaste_identity;
