from psycopg.pq import TransactionStatus

RECORD = "INSERT INTO posthaste.inbox (consumer, id) VALUES (%s, %s) ON CONFLICT DO NOTHING"


def handle_once(connection, consumer, message_id, handler):
    """Runs the handler unless this consumer has handled the message; whether it ran.

    The connection is one of psycopg.connect(url, autocommit=True), else `transaction` would only set
    a savepoint. Acknowledge the message to the broker when this returns, never before.
    """
    with connection.transaction():
        if connection.execute(RECORD, (consumer, message_id)).rowcount == 0:
            return False  # a copy: its effects are there already
        handler(connection)
        if connection.info.transaction_status == TransactionStatus.INERROR:
            raise RuntimeError("a statement of the handler failed, so nothing can be committed")
    return True
