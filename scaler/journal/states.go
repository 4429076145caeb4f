package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"forewarm/planner"
)

var errStateTooLarge = errors.New("state is too large for the size cap")

// appendState stores a State, its Policy and the Memory that its Decision put out, under the Decision's number.
func (j *Journal) appendState(ctx context.Context, seq int64, s planner.State, p planner.Policy, m planner.Memory) error {
	return j.transact(ctx, func(tx *sql.Tx) error {
		size, err := j.insertModels(ctx, tx, seq, s.Models)
		if err != nil {
			return err
		}
		head := s
		head.Models = s.Models[:0] // keeps nil nil
		var payloads [3][]byte
		for i, v := range []any{head, p, m} {
			if payloads[i], err = j.fastPacker.packJSON(v); err != nil {
				return err
			}
			size += int64(len(payloads[i]))
		}
		if err := j.checkStateSize(size); err != nil {
			return err
		}
		at, err := nanoseconds(s.Now)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO states (seq, at, bytes, head, policy, memory) VALUES (?, ?, ?, ?, ?, ?)",
			seq, at, size, payloads[0], payloads[1], payloads[2]); err != nil {
			return err
		}
		return j.makeRoom(ctx, tx)
	})
}

// insertModels stores the models of a State one by one, so that only one is in memory as JSON: the sample paths of a
// large fleet are hundreds of megabytes.
func (j *Journal) insertModels(ctx context.Context, tx *sql.Tx, seq int64, models []planner.ModelState) (size int64, err error) {
	insert, err := tx.PrepareContext(ctx, "INSERT INTO state_models (seq, pos, payload) VALUES (?, ?, ?)")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, insert.Close()) }()
	for i := range models {
		payload, err := j.fastPacker.packJSON(&models[i])
		if err != nil {
			return 0, fmt.Errorf("model %q: %w", models[i].Name, err)
		}
		size += int64(len(payload))
		if err := j.checkStateSize(size); err != nil {
			return 0, err
		}
		if _, err := insert.ExecContext(ctx, seq, i, payload); err != nil {
			return 0, fmt.Errorf("model %q: %w", models[i].Name, err)
		}
	}
	return size, nil
}

func (j *Journal) checkStateSize(size int64) error {
	if size > j.opts.stateMax() {
		return fmt.Errorf("%w: more than %d bytes packed, a sixteenth of size_max, %d", errStateTooLarge, j.opts.stateMax(), j.opts.SizeMax)
	}
	return nil
}

// StateInfo names a recorded State.
type StateInfo struct {
	At time.Time
	// Version is the number of the Decision that was made from it.
	Version int64
	// Bytes is what it takes in the journal.
	Bytes int64
}

// States lists the recorded States with from ≤ At < to, oldest first; empty when there are none.
func (r *Reader) States(ctx context.Context, from, to time.Time) (_ []StateInfo, err error) {
	lo, hi, err := interval(from, to)
	if err != nil {
		return nil, r.reading("states", err)
	}
	rows, err := r.db.QueryContext(ctx, "SELECT seq, at, bytes FROM states WHERE at >= ? AND at < ? ORDER BY at, seq", lo, hi)
	if err != nil {
		return nil, r.reading("states", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var out []StateInfo
	for rows.Next() {
		var info StateInfo
		var at int64
		if err := rows.Scan(&info.Version, &at, &info.Bytes); err != nil {
			return nil, r.reading("states", err)
		}
		info.At = time.Unix(0, at).UTC()
		out = append(out, info)
	}
	if err := rows.Err(); err != nil {
		return nil, r.reading("states", err)
	}
	return out, nil
}

// StateAt returns the newest State recorded at or before a time, with the Policy it was decided under and the whole
// Decision that came out, Memory included: planner.Decide of the first two encodes to the same JSON as the third.
// Without such a State the error wraps ErrNoState.
func (r *Reader) StateAt(ctx context.Context, at time.Time) (s planner.State, p planner.Policy, d planner.Decision, err error) {
	ns, err := nanoseconds(at)
	if err != nil {
		return s, p, d, r.reading("state", err)
	}
	err = r.view(ctx, func(tx *sql.Tx) error {
		var seq int64
		var head, policy, memory []byte
		row := tx.QueryRowContext(ctx, "SELECT seq, head, policy, memory FROM states WHERE at <= ? ORDER BY at DESC, seq DESC LIMIT 1", ns)
		if err := row.Scan(&seq, &head, &policy, &memory); errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("%w at or before %s", ErrNoState, stamp(at))
		} else if err != nil {
			return err
		}
		if err := errors.Join(unpackJSON(head, &s), unpackJSON(policy, &p)); err != nil {
			return fmt.Errorf("record %d: %w", seq, err)
		}
		if err := readModels(ctx, tx, seq, &s); err != nil {
			return fmt.Errorf("record %d: %w", seq, err)
		}
		if d, err = decision(ctx, tx, seq); err != nil {
			return err
		}
		if err := unpackJSON(memory, &d.Memory); err != nil {
			return fmt.Errorf("record %d: memory: %w", seq, err)
		}
		return nil
	})
	if err != nil {
		return planner.State{}, planner.Policy{}, planner.Decision{}, r.reading("state", err)
	}
	return s, p, d, nil
}

func readModels(ctx context.Context, tx *sql.Tx, seq int64, s *planner.State) (err error) {
	rows, err := tx.QueryContext(ctx, "SELECT payload FROM state_models WHERE seq = ? ORDER BY pos", seq)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var payload sql.RawBytes
		if err := rows.Scan(&payload); err != nil {
			return err
		}
		data, err := unpack(payload, nil)
		if err != nil {
			return fmt.Errorf("model %d: %w", len(s.Models), err)
		}
		var m planner.ModelState
		if err := json.Unmarshal(data, &m); err != nil {
			return fmt.Errorf("model %d: %w", len(s.Models), err)
		}
		s.Models = append(s.Models, m)
	}
	return rows.Err()
}
