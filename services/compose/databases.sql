-- One database for each service; they make their own tables.
CREATE DATABASE transaction_db;
CREATE DATABASE users_db;
