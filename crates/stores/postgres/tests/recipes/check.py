"""Runs the recipe of the inbox against a database: python check.py URL."""

import sys
import threading
import uuid

import psycopg

from inbox import handle_once

url = sys.argv[1]
message = uuid.uuid4()


def connect():
    return psycopg.connect(url, autocommit=True)


def add(connection):
    connection.execute("INSERT INTO effect (message) VALUES (%s)", (message,))


def rows(table):
    return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


connection = connect()
connection.execute("CREATE TABLE effect (message uuid NOT NULL)")

# A handler that fails leaves nothing.
try:
    handle_once(connection, "billing", message, lambda c: (add(c), 1 / 0))
    sys.exit("the error of a handler was lost")
except ZeroDivisionError:
    assert (rows("effect"), rows("posthaste.inbox")) == (0, 0)


# A handler that swallows the error of a statement commits nothing, and is told so.
def swallows(c):
    add(c)
    try:
        c.execute("SELECT 1 / 0")
    except psycopg.Error:
        pass


try:
    handle_once(connection, "billing", message, swallows)
    sys.exit("a transaction that was rolled back counted as committed")
except RuntimeError:
    assert (rows("effect"), rows("posthaste.inbox")) == (0, 0)

# Twenty deliveries at once take effect once.
ran = []


def deliver():
    with connect() as own:
        ran.append(handle_once(own, "billing", message, add))


threads = [threading.Thread(target=deliver) for _ in range(20)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert sorted(ran) == [False] * 19 + [True], ran
assert (rows("effect"), rows("posthaste.inbox")) == (1, 1)

# A copy changes nothing; another consumer handles the message for itself.
assert handle_once(connection, "billing", message, add) is False
assert handle_once(connection, "shipping", str(message), add) is True
assert (rows("effect"), rows("posthaste.inbox")) == (2, 2)
print("ok")
