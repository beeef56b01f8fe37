"""Enqueues texts in every way that psycopg has. Standard input: {"url", "texts"}. Standard output, for
each way, the payloads that were stored, in hex, null where the table's constraint refused the text."""

import json
import sys

import psycopg
from psycopg.types.json import Json, Jsonb

request = json.load(sys.stdin)
CALL = "SELECT posthaste.enqueue(%s, %s, %s)"
INSERT = "INSERT INTO posthaste.outbox (topic, key, payload) VALUES (%s, %s, %s) RETURNING id"
STORED = """SELECT coalesce(payload_binary, convert_to(payload, 'UTF8'))
            FROM posthaste.outbox WHERE id = %s"""
NAMED = "SELECT posthaste.enqueue(topic => %s, key => %s, payload => %s, content_type => %s)"


def plain(cursor, text):
    return cursor.execute(CALL, ("orders", "k", text))


def named(cursor, text):
    return cursor.execute(NAMED, ("orders", None, text, "text/plain"))


def binary(cursor, text):
    return cursor.execute(CALL.replace("%s)", "%b)"), ("orders", "k", text))


def as_bytes(cursor, text):
    return cursor.execute(CALL, ("orders", "k", text.encode()))


def inserted(cursor, text):
    return cursor.execute(INSERT, ("orders", "k", text))


def inserted_json(cursor, text):
    return cursor.execute(INSERT, ("orders", "k", Jsonb({"text": text})))


def inserted_bytes(cursor, text):
    sql = INSERT.replace("payload", "payload_binary")
    return cursor.execute(sql, ("orders", "k", text.encode()))


def json_value(wrap):
    return lambda cursor, text: cursor.execute(CALL, ("orders", "k", wrap({"text": text})))


WAYS = {
    "text": plain,
    "named arguments": named,
    "binary": binary,
    "bytes": as_bytes,
    "INSERT": inserted,
    "INSERT of jsonb": inserted_json,
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
                    try:
                        with connection.transaction():
                            (id,) = enqueue(cursor, text).fetchone()
                    except psycopg.errors.CheckViolation:
                        payloads.append(None)
                        continue
                    cursor.execute(STORED, (id,))
                    payloads.append(cursor.fetchone()[0].hex())
                stored[f"{factory.__name__}, {way}"] = payloads
json.dump(stored, sys.stdout)
