package inbox

import (
	"context"
	"database/sql"
)

const record = "INSERT INTO posthaste.inbox (consumer, id) VALUES ($1, $2) ON CONFLICT DO NOTHING"

// HandleOnce runs the handler unless this consumer has handled the message; whether it ran. The driver is
// pgx (github.com/jackc/pgx/v5/stdlib), whose Commit fails where a statement had failed before.
// Acknowledge the message to the broker when this returns without an error, never before.
func HandleOnce(
	ctx context.Context, db *sql.DB, consumer, messageID string, handler func(*sql.Tx) error,
) (bool, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback() // does nothing after Commit
	result, err := tx.ExecContext(ctx, record, consumer, messageID)
	if err != nil {
		return false, err
	}
	rows, err := result.RowsAffected()
	if err != nil {
		return false, err
	}
	if rows == 1 { // else a copy: its effects are there already
		if err := handler(tx); err != nil {
			return false, err
		}
	}
	if err := tx.Commit(); err != nil {
		return false, err
	}
	return rows == 1, nil
}
