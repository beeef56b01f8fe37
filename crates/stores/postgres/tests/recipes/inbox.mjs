const RECORD = 'INSERT INTO posthaste.inbox (consumer, id) VALUES ($1, $2) ON CONFLICT DO NOTHING';

// Runs the handler unless this consumer has handled the message; whether it ran. The client is one of
// pool.connect(). Acknowledge the message to the broker when this resolves, never before.
export async function handleOnce(client, consumer, messageId, handler) {
  await client.query('BEGIN');
  try {
    const { rowCount } = await client.query(RECORD, [consumer, messageId]);
    if (rowCount === 1) await handler(client); // else a copy: its effects are there already
    // A transaction with a failed statement is rolled back by COMMIT, without an error.
    const { command } = await client.query('COMMIT');
    if (command !== 'COMMIT') throw new Error('a statement failed, so nothing was committed');
    return rowCount === 1;
  } catch (error) {
    await client.query('ROLLBACK').catch(() => {});
    throw error;
  }
}
