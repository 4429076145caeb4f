package journal

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Bounds of what one Append drops because of age. They are far above the steady rate (one group an hour, about one State
// a tick), and they bound what a clock that jumps ahead costs.
const (
	agedStatesMax = 4
	agedStartsMax = 100
)

// dropAged drops what is older than its keep, counted from now.
func (j *Journal) dropAged(ctx context.Context, tx *sql.Tx, now time.Time) error {
	for _, q := range []struct {
		query string
		keep  time.Duration
		max   int
	}{
		{"DELETE FROM starts WHERE id IN (SELECT id FROM starts WHERE started < ? ORDER BY started LIMIT ?)",
			j.opts.KeepStarts, agedStartsMax},
		{"DELETE FROM state_models WHERE seq IN (SELECT seq FROM states WHERE at < ? ORDER BY seq LIMIT ?)",
			j.opts.KeepStates, agedStatesMax},
		{"DELETE FROM states WHERE seq IN (SELECT seq FROM states WHERE at < ? ORDER BY seq LIMIT ?)",
			j.opts.KeepStates, agedStatesMax},
	} {
		if _, err := tx.ExecContext(ctx, q.query, now.Add(-q.keep).UnixNano(), q.max); err != nil {
			return fmt.Errorf("dropping old records: %w", err)
		}
	}
	// The oldest group is old when the next one already begins before the limit.
	second, ok, err := secondGroup(ctx, tx)
	if err != nil || !ok {
		return err
	}
	began, err := number(ctx, tx, "SELECT at FROM ticks WHERE seq = ?", second)
	if err != nil || began >= now.Add(-j.opts.KeepDecisions).UnixNano() {
		return err
	}
	return dropBefore(ctx, tx, second)
}

// secondGroup returns the tick that opens the second oldest group; ok is false when there is only one.
func secondGroup(ctx context.Context, tx *sql.Tx) (seq int64, ok bool, err error) {
	err = tx.QueryRowContext(ctx, "SELECT seq FROM ticks WHERE base IS NULL ORDER BY seq LIMIT 1 OFFSET 1").Scan(&seq)
	if err == sql.ErrNoRows {
		return 0, false, nil
	}
	return seq, err == nil, err
}

// dropBefore drops every Decision before a tick that opens a group, the States made with them, and names nobody uses.
func dropBefore(ctx context.Context, tx *sql.Tx, seq int64) error {
	for _, query := range []string{
		"DELETE FROM ticks WHERE seq < ?",
		"DELETE FROM plans WHERE seq < ?",
		"DELETE FROM state_models WHERE seq < ?",
		"DELETE FROM states WHERE seq < ?",
		"DELETE FROM names WHERE last_seq < ?",
	} {
		if _, err := tx.ExecContext(ctx, query, seq); err != nil {
			return fmt.Errorf("dropping the oldest decisions: %w", err)
		}
	}
	return nil
}

// makeRoom drops records until the live pages fit the size cap, or nothing more may go.
func (j *Journal) makeRoom(ctx context.Context, tx *sql.Tx) error {
	for {
		over, err := j.overCap(ctx, tx)
		if err != nil || over <= 0 {
			return err
		}
		dropped, err := dropOldest(ctx, tx)
		if err != nil {
			return err
		}
		if !dropped {
			j.log.Warn("journal is over its size cap and holds nothing that may be dropped", "path", j.path, "over_bytes", over)
			return nil
		}
	}
}

// overCap is by how many bytes the pages in use exceed what they may; negative when there is room.
func (j *Journal) overCap(ctx context.Context, q querier) (int64, error) {
	pages, err := number(ctx, q, "PRAGMA page_count")
	if err != nil {
		return 0, err
	}
	free, err := number(ctx, q, "PRAGMA freelist_count")
	if err != nil {
		return 0, err
	}
	return (pages-free)*pageSize - j.opts.liveMax(), nil
}

// dropOldest drops one thing: the oldest State, else the oldest group of Decisions but the newest group, else the oldest
// starts, which are then alone over the cap but for one group, itself bounded to an eighth of it.
func dropOldest(ctx context.Context, tx *sql.Tx) (bool, error) {
	var state sql.NullInt64
	if err := tx.QueryRowContext(ctx, "SELECT min(seq) FROM states").Scan(&state); err != nil {
		return false, err
	}
	if state.Valid {
		for _, query := range []string{"DELETE FROM state_models WHERE seq = ?", "DELETE FROM states WHERE seq = ?"} {
			if _, err := tx.ExecContext(ctx, query, state.Int64); err != nil {
				return false, fmt.Errorf("dropping the oldest state: %w", err)
			}
		}
		return true, nil
	}
	second, ok, err := secondGroup(ctx, tx)
	if err != nil {
		return false, err
	}
	if ok {
		return true, dropBefore(ctx, tx, second)
	}
	result, err := tx.ExecContext(ctx,
		"DELETE FROM starts WHERE id IN (SELECT id FROM starts ORDER BY started LIMIT ?)", agedStartsMax)
	if err != nil {
		return false, fmt.Errorf("dropping the oldest starts: %w", err)
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// shrink brings a journal under a cap that may have been lowered since it was written, in small transactions so that the
// log stays small, and gives the pages back to the file system.
func (j *Journal) shrink(ctx context.Context) error {
	for more := true; more; {
		err := j.transact(ctx, func(tx *sql.Tx) error {
			over, err := j.overCap(ctx, tx)
			if more = false; err != nil || over <= 0 {
				return err
			}
			more, err = dropOldest(ctx, tx)
			return err
		})
		if err != nil {
			return err
		}
		if err := j.vacuum(ctx, j.vacuumStep()); err != nil {
			return err
		}
	}
	for before, after := int64(1), int64(0); after < before; {
		var err error
		if before, err = number(ctx, j.write, "PRAGMA freelist_count"); err != nil {
			return err
		}
		if err = j.vacuum(ctx, j.vacuumStep()); err != nil {
			return err
		}
		if after, err = number(ctx, j.write, "PRAGMA freelist_count"); err != nil {
			return err
		}
	}
	// A reader may keep the log from being cut; then the next automatic checkpoint does it.
	_, err := j.write.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	return err
}

// vacuumStep is how many pages one Append gives back at most: half of what the log may hold, since every page given back
// may move another one through it.
func (j *Journal) vacuumStep() int64 { return max(16, j.opts.logMax()/pageSize/2) }

// vacuum gives up to n free pages back to the file system when more than an eighth of the file is free. Fewer are kept
// for what comes next: giving a page back and taking it again would move pages for nothing.
func (j *Journal) vacuum(ctx context.Context, n int64) error {
	pages, err := number(ctx, j.write, "PRAGMA page_count")
	if err != nil {
		return err
	}
	free, err := number(ctx, j.write, "PRAGMA freelist_count")
	if err != nil {
		return err
	}
	if free -= max(64, pages/8); free <= 0 {
		return nil
	}
	_, err = j.write.ExecContext(ctx, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", min(n, free)))
	return err
}
