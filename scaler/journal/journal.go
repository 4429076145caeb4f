package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"forewarm/coldstart"
	"forewarm/planner"
)

// groupTicks is how many Decisions share one set of whole rows: an hour of ticks of 15 s. Whole rows are then well below
// a tenth of the bytes, and dropping the oldest group drops an hour.
const groupTicks = 240

// Journal is an open journal that this process writes. Its methods may be called from several goroutines; writes happen
// one after the other. The methods of Reader work on it too and see every write that has returned.
type Journal struct {
	*Reader
	write *sql.DB // one connection
	lock  *os.File
	opts  Options
	log   *slog.Logger
	// groupTicks is the constant of that name, smaller in tests.
	groupTicks int

	mu         sync.Mutex // guards what follows
	closed     bool
	packer     *packer // for rows that are kept for weeks
	fastPacker *packer // for States, which are large and do not compress much anyway
	group      group
	recorded   recorded
	newest     newest
}

// group is what the open group of Decisions is written against. The zero group is none: the next tick opens one.
type group struct {
	seq   int64 // of the tick that opened it
	ticks int
	bytes int64
	tick  []byte // JSON of that tick
	// blocks are the first rows of each block in the group, which are stored whole.
	blocks map[int]block
	names  map[string]bool // models in the group
}

func newGroup() group { return group{blocks: map[int]block{}, names: map[string]bool{}} }

// block is a row of plans that is stored whole.
type block struct {
	seq  int64
	json []byte
}

// newest is the Decision that was recorded last; zero for none in this process.
type newest struct {
	seq int64
	at  time.Time
}

// recorded is what the last stored State was stored for.
type recorded struct {
	at      time.Time
	targets string
}

// Append is AppendDecision and then AppendState. A State that could not be stored is an error although the Decision was
// recorded; the next Append stores its own.
func (j *Journal) Append(ctx context.Context, s planner.State, p planner.Policy, d planner.Decision) error {
	if err := checkMoment(s, d); err != nil {
		return fmt.Errorf("journal %s: %w", j.path, err)
	}
	if err := j.AppendDecision(ctx, d); err != nil {
		return err
	}
	return j.AppendState(ctx, s, p, d)
}

// AppendDecision records a Decision with its Steps and its Memory, durably and together. d.Models must be sorted by Name
// without repeats, as Decide returns them. It is quick, so that it can come before the Decision is published; errors wrap
// ErrFull when there was no room.
func (j *Journal) AppendDecision(ctx context.Context, d planner.Decision) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return ErrClosed
	}
	if err := checkAppend(d); err != nil {
		return fmt.Errorf("journal %s: %w", j.path, err)
	}
	seq, err := j.appendDecision(ctx, d)
	if err != nil {
		j.newest = newest{}
		return writing(j.path, "recording the decision of "+stamp(d.At), err)
	}
	j.newest = newest{seq: seq, at: d.At}
	if err := j.vacuum(ctx, j.vacuumStep()); err != nil {
		return writing(j.path, "giving back free pages", err)
	}
	return nil
}

// AppendState stores the State and Policy that the newest recorded Decision, d, was made from, when a checkpoint is due
// or any target or answer differs from those of the last stored one; else it does nothing. s.Now must be d.At. A State
// holds the sample paths of every model and can take a second to store, so this comes after d was published. Errors wrap
// ErrFull when there was no room.
func (j *Journal) AppendState(ctx context.Context, s planner.State, p planner.Policy, d planner.Decision) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return ErrClosed
	}
	if err := checkMoment(s, d); err != nil {
		return fmt.Errorf("journal %s: %w", j.path, err)
	}
	if j.newest.seq == 0 || !j.newest.at.Equal(d.At) {
		return fmt.Errorf("journal %s: the state of %s belongs to no recorded decision", j.path, stamp(s.Now))
	}
	targets := targetsOf(d)
	if !j.stateDue(d.At, targets) {
		return nil
	}
	err := j.appendState(ctx, j.newest.seq, s, p, d.Memory)
	if err == nil || errors.Is(err, errStateTooLarge) { // which would be too large again at once
		j.recorded = recorded{at: d.At, targets: targets}
	}
	if err != nil {
		return writing(j.path, "recording the state of "+stamp(d.At)+" (its decision is recorded)", err)
	}
	return nil
}

func checkMoment(s planner.State, d planner.Decision) error {
	if !s.Now.Equal(d.At) {
		return fmt.Errorf("decision is of %s, its state of %s: they must be of one moment", stamp(d.At), stamp(s.Now))
	}
	return nil
}

func checkAppend(d planner.Decision) error {
	var errs []error
	if _, err := nanoseconds(d.At); err != nil {
		errs = append(errs, fmt.Errorf("decision: %w", err))
	}
	for i := 1; i < len(d.Models); i++ {
		if d.Models[i-1].Name >= d.Models[i].Name {
			errs = append(errs, fmt.Errorf("decision: models[%d] is %q after %q: names must ascend without repeats",
				i, d.Models[i].Name, d.Models[i-1].Name))
		}
	}
	return errors.Join(errs...)
}

// stateDue reports whether a State is to be stored with a Decision of this time and these targets. A clock that went
// back starts the count anew.
func (j *Journal) stateDue(at time.Time, targets string) bool {
	last := j.recorded
	return last.at.IsZero() || targets != last.targets || at.Before(last.at) || at.Sub(last.at) >= j.opts.CheckpointEvery
}

// targetsOf is everything in a Decision that anybody acts on, in a form that can be compared.
func targetsOf(d planner.Decision) string {
	type target struct {
		Name             string
		Replicas, Answer *int
		Nodes            int
	}
	targets := make([]target, 0, len(d.Models)+len(d.Pools)+len(d.Quotas))
	for _, m := range d.Models {
		targets = append(targets, target{Name: m.Name, Replicas: m.Replicas, Answer: m.Answer})
	}
	for _, p := range d.Pools {
		targets = append(targets, target{Name: "pool " + p.Pool, Nodes: p.Nodes})
	}
	for _, q := range d.Quotas {
		targets = append(targets, target{Name: "quota " + q.Queue + " " + q.Flavor, Nodes: q.Nominal})
	}
	text, err := json.Marshal(targets)
	if err != nil {
		panic("journal: " + err.Error()) // strings and integers always encode
	}
	return string(text)
}

// appendDecision stores one tick, its models and the Memory in one transaction and returns the tick's number.
func (j *Journal) appendDecision(ctx context.Context, d planner.Decision) (int64, error) {
	g := j.group
	if g.ticks == 0 || g.ticks >= j.groupTicks || g.bytes >= j.opts.groupMax() {
		g = newGroup()
	}
	var wrote tickRows
	err := j.transact(ctx, func(tx *sql.Tx) error {
		var err error
		if wrote, err = j.insertTick(ctx, tx, g, d); err != nil {
			return err
		}
		if err := j.dropAged(ctx, tx, d.At); err != nil {
			return err
		}
		return j.makeRoom(ctx, tx)
	})
	if err != nil {
		return 0, err
	}
	// Only now: rows of a transaction that failed must not become the dictionary of later ones.
	if g.ticks == 0 {
		g.seq, g.tick = wrote.seq, wrote.tick
	}
	maps.Copy(g.blocks, wrote.whole)
	for _, name := range wrote.names {
		g.names[name] = true
	}
	g.ticks++
	g.bytes += wrote.bytes
	j.group = g
	return wrote.seq, nil
}

// tickRows is what insertTick wrote.
type tickRows struct {
	seq   int64
	tick  []byte        // JSON
	whole map[int]block // the blocks that were stored whole
	names []string      // the models that the group did not have
	bytes int64
}

// rowBytes is what a row takes beside its payload: header, keys and its share of the page.
const rowBytes = 24

func (j *Journal) insertTick(ctx context.Context, tx *sql.Tx, g group, d planner.Decision) (tickRows, error) {
	at, err := nanoseconds(d.At)
	if err != nil {
		return tickRows{}, err
	}
	rest := d
	rest.Models, rest.Memory = d.Models[:0], planner.Memory{}
	wrote := tickRows{whole: map[int]block{}}
	if wrote.tick, err = json.Marshal(rest); err != nil {
		return tickRows{}, err
	}
	payload, err := j.packer.pack(wrote.tick, g.tick)
	if err != nil {
		return tickRows{}, err
	}
	base := sql.NullInt64{Int64: g.seq, Valid: g.ticks > 0}
	if err := tx.QueryRowContext(ctx, "INSERT INTO ticks (at, base, payload) VALUES (?, ?, ?) RETURNING seq",
		at, base, payload).Scan(&wrote.seq); err != nil {
		return tickRows{}, err
	}
	wrote.bytes = int64(len(payload)) + rowBytes
	if err := j.insertPlans(ctx, tx, g, d.Models, &wrote); err != nil {
		return tickRows{}, err
	}
	memory, err := j.packer.packJSON(d.Memory)
	if err != nil {
		return tickRows{}, err
	}
	_, err = tx.ExecContext(ctx, "INSERT OR REPLACE INTO memory (id, seq, payload) VALUES (1, ?, ?)", wrote.seq, memory)
	return wrote, err
}

// blockModels is how many models share a row of plans. Measured on a fleet of 100 whose plans are 120 kB of JSON a tick:
// rows of 1, 8, 16, 32 and 100 models take 17, 7.8, 6.8, 6.2 and 5.5 kB with a base, and reading one model inflates as
// many. Beyond 16 the window of DEFLATE (32 kB) no longer holds a row and its base.
const blockModels = 16

func (j *Journal) insertPlans(ctx context.Context, tx *sql.Tx, g group, models []planner.ModelDecision, wrote *tickRows) error {
	n := 0
	for row := range slices.Chunk(models, blockModels) {
		text, err := json.Marshal(row)
		if err != nil {
			return fmt.Errorf("models %q to %q: %w", row[0].Name, row[len(row)-1].Name, err)
		}
		whole, ok := g.blocks[n]
		payload, err := j.packer.pack(text, whole.json)
		if err != nil {
			return fmt.Errorf("models %q to %q: %w", row[0].Name, row[len(row)-1].Name, err)
		}
		base := sql.NullInt64{Int64: whole.seq, Valid: ok}
		if !ok {
			wrote.whole[n] = block{seq: wrote.seq, json: text}
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO plans (seq, block, first, base, payload) VALUES (?, ?, ?, ?, ?)",
			wrote.seq, n, row[0].Name, base, payload); err != nil {
			return err
		}
		wrote.bytes += int64(len(payload)) + rowBytes
		n++
	}
	for i := range models {
		if name := models[i].Name; !g.names[name] {
			if _, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO names (name, last_seq) VALUES (?, ?)", name, wrote.seq); err != nil {
				return fmt.Errorf("model %q: %w", name, err)
			}
			wrote.names = append(wrote.names, name)
		}
	}
	return nil
}

// transact runs f in one transaction that is committed when f succeeds and leaves no trace otherwise.
func (j *Journal) transact(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := j.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		// SQLite has already rolled back after some errors (a full disk); then there is nothing left to undo.
		if undo := tx.Rollback(); undo != nil && !errors.Is(undo, sql.ErrTxDone) && resultCode(err) == 0 {
			return errors.Join(err, undo)
		}
		return err
	}
	return tx.Commit()
}

// AddStarts records observed starts; one with the ID of an earlier one replaces it by the rule of coldstart.Ledger.Add:
// served replaces anything, failed anything but served, pending only a pending of at most its Total. Invalid samples are
// refused and reported, all of them in one error; the valid ones are recorded.
func (j *Journal) AddStarts(ctx context.Context, samples []coldstart.Sample) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return ErrClosed
	}
	var refused []error
	valid := make([]coldstart.Sample, 0, len(samples))
	for _, s := range samples {
		if err := s.Validate(); err != nil {
			refused = append(refused, fmt.Errorf("journal %s: start %q is refused: %w", j.path, s.ID, err))
			continue
		}
		valid = append(valid, s)
	}
	for batch := range slices.Chunk(valid, startsBatch) {
		err := j.transact(ctx, func(tx *sql.Tx) error {
			for _, s := range batch {
				if err := upsertStart(ctx, tx, s); err != nil {
					return err
				}
			}
			return j.makeRoom(ctx, tx)
		})
		if err != nil {
			return errors.Join(append(refused, writing(j.path, fmt.Sprintf("recording %d starts", len(samples)), err))...)
		}
	}
	return errors.Join(refused...)
}

// startsBatch is how many starts are one transaction, which bounds the log.
const startsBatch = 200

func upsertStart(ctx context.Context, tx *sql.Tx, s coldstart.Sample) error {
	started, err := nanoseconds(s.Started)
	if err != nil {
		return fmt.Errorf("start %q: %w", s.ID, err)
	}
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("start %q: %w", s.ID, err)
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO starts (id, started, outcome, total_ns, sample) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET started = excluded.started, outcome = excluded.outcome,
			total_ns = excluded.total_ns, sample = excluded.sample
		WHERE CASE excluded.outcome WHEN 'served' THEN 1 WHEN 'failed' THEN outcome <> 'served'
			ELSE outcome = 'pending' AND excluded.total_ns >= total_ns END`,
		s.ID, started, string(s.Outcome), int64(s.Total), string(text))
	return err
}

// Size returns the bytes that the journal takes on disk: the file and its log, without files set aside.
func (j *Journal) Size() (int64, error) {
	var sum int64
	for _, suffix := range sidecars {
		info, err := os.Stat(j.path + suffix)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("journal %s: %w", filepath.Dir(j.path), err)
		}
		sum += info.Size()
	}
	return sum, nil
}

// Close writes the log back into the file and lets go of the lock. A second Close does nothing.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil
	}
	j.closed = true
	var errs []error
	if j.Reader != nil {
		errs = append(errs, j.Reader.Close())
	}
	if j.write != nil { // the last connection to close writes the log back
		errs = append(errs, j.write.Close())
	}
	errs = append(errs, j.lock.Close()) // last: nobody else may write before
	return errors.Join(errs...)
}

// nanoseconds is a time as the database holds it. It refuses times that do not fit, the zero time among them.
func nanoseconds(t time.Time) (int64, error) {
	if y := t.Year(); y < 1970 || y > 2261 {
		return 0, fmt.Errorf("time is %s: years 1970 to 2261 are allowed", stamp(t))
	}
	return t.UnixNano(), nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
