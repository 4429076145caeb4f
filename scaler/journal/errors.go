package journal

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Errors that a caller branches on; they come wrapped with the path and the reason.
var (
	// ErrUnavailable: the directory or file cannot be used as it is (missing permission, read-only, full, not a
	// directory). The daemon runs on without a journal and says so.
	ErrUnavailable = errors.New("journal unavailable")
	// ErrLocked: another process writes this journal.
	ErrLocked = errors.New("journal in use")
	// ErrFull: the disk, a quota or a size limit left no room. What was recorded before is still there; the record that
	// was refused is not. Later calls work again when there is room.
	ErrFull = errors.New("no room for the journal")
	// ErrNoJournal: the directory has no journal that this version can read.
	ErrNoJournal = errors.New("no journal")
	// ErrNoState: no State was recorded at or before the time asked for.
	ErrNoState = errors.New("no state recorded")
	// ErrClosed: the journal was closed.
	ErrClosed = errors.New("journal closed")
)

// resultCode is the primary SQLite result code of an error, SQLITE_OK when it is not SQLite's.
func resultCode(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return sqlite3.SQLITE_OK
}

// environmental reports whether an error is about the machine (permissions, space, locks, memory) and not about the
// content of the file. Only content is a reason to set a file aside.
func environmental(err error) bool {
	switch resultCode(err) {
	case sqlite3.SQLITE_PERM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_READONLY,
		sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN,
		sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_NOLFS, sqlite3.SQLITE_AUTH:
		return true
	}
	return false
}

func unavailable(path string, err error) error {
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, path, err)
}

// writing wraps an error of a write with the file it was for, and marks the ones that mean "full".
func writing(path, what string, err error) error {
	if resultCode(err) == sqlite3.SQLITE_FULL {
		return fmt.Errorf("journal %s: %s: %w: %w", path, what, ErrFull, err)
	}
	return fmt.Errorf("journal %s: %s: %w", path, what, err)
}
