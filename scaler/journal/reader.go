package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"forewarm/coldstart"
	"forewarm/planner"
)

// readersMax bounds the connections of one Reader.
const readersMax = 4

// Reader reads a journal, also while another process writes it; each call sees one consistent moment. Its methods may be
// called from several goroutines. A damaged record is an error that names it, never a wrong plan.
type Reader struct {
	db   *sql.DB
	path string
}

// OpenReadOnly opens the journal of a directory for reading, without the writer's lock. The user needs read permission,
// and write permission in the directory as well while the journal was not closed in order (SQLite then has to read the
// log through shared memory).
//
// Errors: ErrNoJournal when the directory has no journal of this schema version, saying what it has instead;
// ErrUnavailable when it cannot be read.
func OpenReadOnly(dir string) (*Reader, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, unavailable(dir, err)
	}
	path := filepath.Join(dir, fileName)
	switch _, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: %s has no %s", ErrNoJournal, dir, fileName)
	case err != nil:
		return nil, unavailable(path, err)
	}
	switch why, err := checkHeader(path); {
	case err != nil:
		return nil, unavailable(path, err)
	case why != "":
		return nil, fmt.Errorf("%w: %s %s", ErrNoJournal, path, why)
	}
	return openForeign(context.Background(), path)
}

// openForeign opens a file that this process does not write, trying again without shared memory where the directory
// does not allow it and nobody can be writing.
func openForeign(ctx context.Context, path string) (*Reader, error) {
	var last error
	for _, mode := range []string{modeRead, modeImmutable} {
		r, err := openReader(path, mode)
		if err != nil {
			return nil, unavailable(path, err)
		}
		// Not the whole of unsound: reading every page would make the CLI wait, and each record has its own checksum.
		why, err := checkOwner(ctx, r.db)
		if why == "" && err == nil {
			why, err = checkSchema(ctx, r.db)
		}
		if why == "" && err == nil {
			return r, nil
		}
		closing := r.Close()
		if why != "" {
			return nil, errors.Join(fmt.Errorf("%w: %s %s", ErrNoJournal, path, why), closing)
		}
		last = errors.Join(err, closing)
		code := resultCode(err)
		denied := code == sqlite3.SQLITE_CANTOPEN || code == sqlite3.SQLITE_READONLY
		if log, statErr := os.Stat(path + "-wal"); !denied || statErr == nil && log.Size() > 0 {
			break
		}
	}
	return nil, unavailable(path, last)
}

func openReader(path, mode string) (*Reader, error) {
	db, err := sql.Open("sqlite", dataSource(path, mode, "query_only(1)"))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(readersMax)
	return &Reader{db: db, path: path}, nil
}

// Close ends reading.
func (r *Reader) Close() error { return r.db.Close() }

// reading wraps an error of a read with the file and what was read; nil stays nil.
func (r *Reader) reading(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("journal %s: reading %s: %w", r.path, what, err)
}

// view runs f on one consistent moment of the journal.
func (r *Reader) view(ctx context.Context, f func(*sql.Tx) error) (err error) {
	tx, err := r.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() {
		if undo := tx.Rollback(); err == nil && undo != nil {
			err = undo
		}
	}()
	return f(tx)
}

// Last returns the newest Decision, whole, its Memory included; ok is false when none was ever recorded.
func (r *Reader) Last(ctx context.Context) (d planner.Decision, ok bool, err error) {
	err = r.view(ctx, func(tx *sql.Tx) error {
		var newest sql.NullInt64
		if err := tx.QueryRowContext(ctx, "SELECT max(seq) FROM ticks").Scan(&newest); err != nil {
			return err
		}
		seq, m, found, err := memory(ctx, tx)
		if err != nil {
			return err
		}
		if newest.Valid != found || newest.Int64 != seq {
			return fmt.Errorf("the memory is of record %d, the last decision is record %d: they must be one", seq, newest.Int64)
		}
		if ok = found; !ok {
			return nil
		}
		d, err = decision(ctx, tx, seq)
		d.Memory = m
		return err
	})
	if err != nil {
		return planner.Decision{}, false, r.reading("the last decision", err)
	}
	return d, ok, nil
}

// LastMemory returns the Memory of the newest Decision; ok is false when none was ever recorded. It needs nothing but
// that one row, so it works when Last finds the Decision damaged.
func (r *Reader) LastMemory(ctx context.Context) (m planner.Memory, ok bool, err error) {
	err = r.view(ctx, func(tx *sql.Tx) error {
		_, m, ok, err = memory(ctx, tx)
		return err
	})
	if err != nil {
		return planner.Memory{}, false, r.reading("the memory", err)
	}
	return m, ok, nil
}

func memory(ctx context.Context, tx *sql.Tx) (seq int64, m planner.Memory, ok bool, err error) {
	var payload []byte
	switch err := tx.QueryRowContext(ctx, "SELECT seq, payload FROM memory").Scan(&seq, &payload); {
	case errors.Is(err, sql.ErrNoRows):
		return 0, m, false, nil
	case err != nil:
		return 0, m, false, err
	}
	if err := unpackJSON(payload, &m); err != nil {
		return 0, m, false, fmt.Errorf("record %d: memory: %w", seq, err)
	}
	return seq, m, true, nil
}

// deltaRow is a stored payload with what is needed to read it.
type deltaRow struct {
	base        sql.NullInt64
	payload     []byte
	basePayload []byte // nil when base is not valid, or its row is gone
}

// decision puts a Decision together from its rows; its Memory is zero, since only the last one is kept.
func decision(ctx context.Context, tx *sql.Tx, seq int64) (d planner.Decision, err error) {
	var tick deltaRow
	if err := tx.QueryRowContext(ctx, "SELECT t.base, t.payload, b.payload FROM ticks t LEFT JOIN ticks b ON b.seq = t.base "+
		"WHERE t.seq = ?", seq).Scan(&tick.base, &tick.payload, &tick.basePayload); err != nil {
		return d, fmt.Errorf("record %d: %w", seq, err)
	}
	if d, err = unpackTick(tick); err != nil {
		return d, fmt.Errorf("record %d: %w", seq, err)
	}
	rows, err := tx.QueryContext(ctx, "SELECT p.base, p.payload, b.payload FROM plans p "+
		"LEFT JOIN plans b ON b.seq = p.base AND b.block = p.block WHERE p.seq = ? ORDER BY p.block", seq)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var p deltaRow
		if err := rows.Scan(&p.base, &p.payload, &p.basePayload); err != nil {
			return d, err
		}
		block, err := unpackPlans(p)
		if err != nil {
			return d, fmt.Errorf("record %d: %w", seq, err)
		}
		d.Models = append(d.Models, block...)
	}
	return d, rows.Err()
}

// unpackTick returns all of a Decision that is not about one model.
func unpackTick(row deltaRow) (d planner.Decision, err error) {
	data, err := unpackDelta(row)
	if err != nil {
		return d, err
	}
	return d, json.Unmarshal(data, &d)
}

func unpackPlans(row deltaRow) (block []planner.ModelDecision, err error) {
	data, err := unpackDelta(row)
	if err != nil {
		return nil, err
	}
	return block, json.Unmarshal(data, &block)
}

// plansOf selects the blocks that one model is in, if it is in the Decision at all; CROSS JOIN makes SQLite walk the ticks
// in order of time and look up the rest.
const plansOf = "SELECT t.seq, t.at, t.base, t.payload, tb.payload, p.base, p.payload, pb.payload FROM ticks t " +
	"CROSS JOIN plans p ON p.seq = t.seq AND p.block = (SELECT max(block) FROM plans WHERE seq = t.seq AND first <= ?) " +
	"LEFT JOIN ticks tb ON tb.seq = t.base LEFT JOIN plans pb ON pb.seq = p.base AND pb.block = p.block "

// planRow is one row of plansOf.
type planRow struct {
	seq, at     int64
	tick, plans deltaRow
}

func (p *planRow) scan(rows *sql.Rows) error {
	return rows.Scan(&p.seq, &p.at, &p.tick.base, &p.tick.payload, &p.tick.basePayload,
		&p.plans.base, &p.plans.payload, &p.plans.basePayload)
}

// view turns a row into what was published of the model at that moment; ok is false when the Decision was without it.
func (p *planRow) view(model string) (v planner.PlanView, ok bool, err error) {
	var d planner.Decision
	block, err := unpackPlans(p.plans)
	if err == nil {
		d, err = unpackTick(p.tick)
	}
	if err != nil {
		return v, false, fmt.Errorf("record %d: %w", p.seq, err)
	}
	d.Models = block
	v, ok = d.View(model)
	v.Version = p.seq
	return v, ok, nil
}

// DecisionAt returns the newest plan of a model at or before a time, as it was published then: Version is the number of
// the Decision in this journal, Stale and AgeSeconds are zero. ok is false when there is none.
func (r *Reader) DecisionAt(ctx context.Context, model string, at time.Time) (v planner.PlanView, ok bool, err error) {
	what := fmt.Sprintf("the plan of %q at %s", model, stamp(at))
	ns, err := nanoseconds(at)
	if err != nil {
		return v, false, r.reading(what, err)
	}
	// A name that is in no kept record must not cost a walk through all of them.
	switch n, err := number(ctx, r.db, "SELECT count(*) FROM names WHERE name = ?", model); {
	case err != nil:
		return v, false, r.reading(what, err)
	case n == 0:
		return v, false, nil
	}
	for last := (planRow{at: ns, seq: math.MaxInt64}); ; {
		page, err := r.plans(ctx, "WHERE (t.at, t.seq) < (?, ?) ORDER BY t.at DESC, t.seq DESC LIMIT ?",
			model, last.at, last.seq, atPage)
		if err != nil {
			return v, false, r.reading(what, err)
		}
		for _, last = range page {
			if v, ok, err = last.view(model); ok || err != nil {
				return v, ok, r.reading(what, err)
			}
		}
		if len(page) < atPage {
			return planner.PlanView{}, false, nil
		}
	}
}

// atPage is how many records DecisionAt looks at at once: the first one nearly always has the model.
const atPage = 4

// decisionsPage is how many plans Decisions reads at once. No transaction is open while the caller looks at them: a long
// one would keep the writer's log from being cut back.
const decisionsPage = 256

// Decisions iterates over the plans of a model with from ≤ At < to, oldest first, as DecisionAt returns them. An error
// ends the iteration and comes as its last element.
func (r *Reader) Decisions(ctx context.Context, model string, from, to time.Time) iter.Seq2[planner.PlanView, error] {
	return func(yield func(planner.PlanView, error) bool) {
		what := fmt.Sprintf("the plans of %q", model)
		at, end, err := interval(from, to)
		if err != nil {
			yield(planner.PlanView{}, r.reading(what, err))
			return
		}
		for seq := int64(-1); ; {
			page, err := r.plans(ctx, "WHERE (t.at, t.seq) > (?, ?) AND t.at < ? ORDER BY t.at, t.seq LIMIT ?",
				model, at, seq, end, decisionsPage)
			if err != nil {
				yield(planner.PlanView{}, r.reading(what, err))
				return
			}
			for i := range page {
				at, seq = page[i].at, page[i].seq
				v, ok, err := page[i].view(model)
				if err != nil {
					yield(planner.PlanView{}, r.reading(what, err))
					return
				}
				if ok && !yield(v, nil) {
					return
				}
			}
			if len(page) < decisionsPage {
				return
			}
		}
	}
}

func (r *Reader) plans(ctx context.Context, where string, args ...any) (_ []planRow, err error) {
	rows, err := r.db.QueryContext(ctx, plansOf+where, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var out []planRow
	for rows.Next() {
		var p planRow
		if err := p.scan(rows); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, rows.Err()
}

// interval turns [from, to) into nanoseconds; a zero from is the beginning, a zero to the end.
func interval(from, to time.Time) (lo, hi int64, err error) {
	hi = math.MaxInt64
	if !from.IsZero() {
		if lo, err = nanoseconds(from); err != nil {
			return 0, 0, fmt.Errorf("from: %w", err)
		}
	}
	if !to.IsZero() {
		if hi, err = nanoseconds(to); err != nil {
			return 0, 0, fmt.Errorf("to: %w", err)
		}
	}
	return lo, hi, nil
}

// Models returns the names of all models with a recorded plan, sorted.
func (r *Reader) Models(ctx context.Context) ([]string, error) {
	names, err := texts(ctx, r.db, "SELECT name FROM names ORDER BY name")
	return names, r.reading("the models", err)
}

// Starts returns the recorded starts, oldest first.
func (r *Reader) Starts(ctx context.Context) ([]coldstart.Sample, error) {
	found, err := texts(ctx, r.db, "SELECT sample FROM starts ORDER BY started, id")
	if err != nil {
		return nil, r.reading("starts", err)
	}
	out := make([]coldstart.Sample, len(found))
	for i, text := range found {
		if err := json.Unmarshal([]byte(text), &out[i]); err != nil {
			return nil, r.reading("starts", fmt.Errorf("%s: %w", text, err))
		}
	}
	return out, nil
}
