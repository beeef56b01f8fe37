"""Enqueues texts in every way that psycopg has. Standard input: {"url", "texts"}. Standard output, for
each way, the payloads that were stored, in hex."""

import json
import sys

import psycopg
from psycopg.types.json import Json, Jsonb

request = json.load(sys.stdin)
CALL = "SELECT posthaste.enqueue(%s, %s, %s)"
NAMED = "SELECT posthaste.enqueue(topic => %s, key => %s, payload => %s, content_type => %s)"


def plain(cursor, text):
    return cursor.execute(CALL, ("orders", "k", text))


def named(cursor, text):
    return cursor.execute(NAMED, ("orders", None, text, "text/plain"))


def binary(cursor, text):
    return cursor.execute(CALL.replace("%s)", "%b)"), ("orders", "k", text))


def as_bytes(cursor, text):
    return cursor.execute(CALL, ("orders", "k", text.encode()))


def converted(cursor, text):
    sql = """INSERT INTO posthaste.outbox (topic, key, payload)
             VALUES (%s, %s, convert_to(%s, 'UTF8')) RETURNING id"""
    return cursor.execute(sql, ("orders", "k", text))


def inserted_bytes(cursor, text):
    sql = "INSERT INTO posthaste.outbox (topic, key, payload) VALUES (%s, %s, %s) RETURNING id"
    return cursor.execute(sql, ("orders", "k", text.encode()))


def json_value(wrap):
    return lambda cursor, text: cursor.execute(CALL, ("orders", "k", wrap({"text": text})))


WAYS = {
    "text": plain,
    "named arguments": named,
    "binary": binary,
    "bytes": as_bytes,
    "INSERT with convert_to": converted,
    "INSERT of bytes": inserted_bytes,
    "json": json_value(Json),
    "jsonb": json_value(Jsonb),
}

stored = {}
with psycopg.connect(request["url"]) as connection:
    for factory in (psycopg.Cursor, psycopg.ClientCursor):
        for way, enqueue in WAYS.items():
            if factory is psycopg.ClientCursor and way == "binary":
                continue
            with factory(connection) as cursor:
                payloads = []
                for text in request["texts"]:
                    (id,) = enqueue(cursor, text).fetchone()
                    cursor.execute("SELECT payload FROM posthaste.outbox WHERE id = %s", (id,))
                    payloads.append(cursor.fetchone()[0].hex())
                stored[f"{factory.__name__}, {way}"] = payloads
json.dump(stored, sys.stdout)
