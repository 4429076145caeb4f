package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	// fileName is the journal's file in its directory.
	fileName = "journal.db"
	// applicationID marks the file as forewarm's ("fwrn"), in the field of the header that SQLite keeps for this.
	applicationID = 0x6677726e
	// schemaVersion is the only version this program reads and writes.
	schemaVersion = 1
	pageSize      = 4096
	busyTimeoutMS = 5000
)

// schema is the whole database. Times are Unix nanoseconds. seq numbers Decisions in the order in which they were made,
// which is not the order of their times when a clock was set back. base is the seq of the row that is the dictionary of
// the payload, NULL when there is none; a tick without a base opens a group. plans.first is the first name of the block.
// names.last_seq is the tick at which the name first stood in the newest group that has it, so a name whose last_seq is in
// no kept group is in no kept row.
var schema = []string{
	`CREATE TABLE ticks (seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, base INTEGER, payload BLOB NOT NULL) STRICT`,
	`CREATE INDEX ticks_at ON ticks (at)`,
	`CREATE INDEX ticks_group ON ticks (seq) WHERE base IS NULL`,
	`CREATE TABLE names (name TEXT PRIMARY KEY, last_seq INTEGER NOT NULL) STRICT, WITHOUT ROWID`,
	`CREATE TABLE plans (seq INTEGER NOT NULL, block INTEGER NOT NULL, first TEXT NOT NULL, base INTEGER, ` +
		`payload BLOB NOT NULL, PRIMARY KEY (seq, block)) STRICT`,
	`CREATE TABLE memory (id INTEGER PRIMARY KEY CHECK (id = 1), seq INTEGER NOT NULL, payload BLOB NOT NULL) STRICT`,
	`CREATE TABLE states (seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, bytes INTEGER NOT NULL, head BLOB NOT NULL, ` +
		`policy BLOB NOT NULL, memory BLOB NOT NULL) STRICT`,
	`CREATE INDEX states_at ON states (at)`,
	`CREATE TABLE state_models (seq INTEGER NOT NULL, pos INTEGER NOT NULL, payload BLOB NOT NULL, ` +
		`PRIMARY KEY (seq, pos)) STRICT`,
	`CREATE TABLE starts (id TEXT PRIMARY KEY, started INTEGER NOT NULL, outcome TEXT NOT NULL, ` +
		`total_ns INTEGER NOT NULL, sample TEXT NOT NULL) STRICT`,
	`CREATE INDEX starts_started ON starts (started)`,
}

// dataSource names a database file for the driver, whatever characters its path has.
func dataSource(path, mode string, pragmas ...string) string {
	query := url.Values{"mode": {mode}, "_txlock": {"immediate"}}
	if mode != modeWrite && mode != modeCreate {
		query.Del("_txlock")
	}
	if mode == modeImmutable {
		query.Set("mode", modeRead)
		query.Set("immutable", "1")
	}
	query.Add("_pragma", "busy_timeout("+strconv.Itoa(busyTimeoutMS)+")")
	query.Add("_pragma", "trusted_schema(0)") // the file may come from anywhere
	query.Add("_pragma", "cell_size_check(1)")
	for _, p := range pragmas {
		query.Add("_pragma", p)
	}
	source := url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}
	return source.String()
}

// The modes of dataSource. Immutable is for a file that nobody writes, in a directory that this user may not write.
const (
	modeRead      = "ro"
	modeWrite     = "rw"
	modeCreate    = "rwc"
	modeImmutable = "immutable"
)

// createFile makes an empty journal under a path where no file is.
func createFile(ctx context.Context, path string) (err error) {
	db, err := sql.Open("sqlite", dataSource(path, modeCreate))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1) // the pragmas below are of one connection
	statements := []string{
		fmt.Sprintf("PRAGMA page_size = %d", pageSize),
		"PRAGMA auto_vacuum = INCREMENTAL", // before the first table, or it has no effect
		"PRAGMA journal_mode = WAL",
		"BEGIN IMMEDIATE",
	}
	statements = append(statements, schema...)
	statements = append(statements,
		fmt.Sprintf("PRAGMA application_id = %d", applicationID),
		fmt.Sprintf("PRAGMA user_version = %d", schemaVersion),
		"COMMIT",
	)
	for _, s := range statements {
		if _, err := db.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

// unsound says why a database is not a sound journal of this schema version, or "" when it is one. The error is about
// the machine, not the content.
func unsound(ctx context.Context, db *sql.DB) (why string, err error) {
	for _, check := range []func(context.Context, *sql.DB) (string, error){checkOwner, checkPages, checkSchema} {
		if why, err = check(ctx, db); why != "" || err != nil {
			break
		}
	}
	if err != nil && !environmental(err) {
		return "is damaged: " + err.Error(), nil
	}
	return why, err
}

func checkOwner(ctx context.Context, db *sql.DB) (string, error) {
	id, err := number(ctx, db, "PRAGMA application_id")
	if err != nil {
		return "", err
	}
	version, err := number(ctx, db, "PRAGMA user_version")
	switch {
	case err != nil:
		return "", err
	case id != applicationID:
		return fmt.Sprintf("is another program's SQLite file: application id %#x, must be %#x", id, applicationID), nil
	case version > schemaVersion:
		return fmt.Sprintf("was written by a newer forewarm: schema version %d, this one reads %d", version, schemaVersion), nil
	case version < schemaVersion:
		return fmt.Sprintf("has schema version %d, must be %d", version, schemaVersion), nil
	}
	return "", nil
}

func checkPages(ctx context.Context, db *sql.DB) (string, error) {
	found, err := texts(ctx, db, "PRAGMA quick_check(5)")
	if err != nil {
		return "", err
	}
	if len(found) != 1 || found[0] != "ok" {
		return "is damaged: " + strings.Join(found, "; "), nil
	}
	return "", nil
}

func checkSchema(ctx context.Context, db *sql.DB) (string, error) {
	found, err := texts(ctx, db, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY sql")
	if err != nil {
		return "", err
	}
	if !slices.Equal(found, slices.Sorted(slices.Values(schema))) {
		return fmt.Sprintf("has other tables than schema version %d", schemaVersion), nil
	}
	return "", nil
}

// querier is what a *sql.DB and a *sql.Tx share.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// number reads one integer.
func number(ctx context.Context, q querier, query string, args ...any) (int64, error) {
	var n int64
	if err := q.QueryRowContext(ctx, query, args...).Scan(&n); err != nil {
		return 0, err
	}
	return n, nil
}

// texts reads one column of text.
func texts(ctx context.Context, q querier, query string, args ...any) (_ []string, err error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var out []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, rows.Err()
}
