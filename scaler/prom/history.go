package prom

import (
	"context"
	"errors"
	"fmt"
	"time"

	"forewarm/planner"
)

// History returns the load of one model over the whole steps of [from, to), aligned to the epoch, in tokens and
// requests per second. Values and marks follow the rules of the package comment; metric names are looked up over the
// whole range, so that a rename within it is followed.
//
// When parts of the range could not be read (a failed query, a warning of the server) the history is returned with
// those steps missing, together with an error that is planner.ErrPartial and names them. With any other error it is empty. A
// model of which no series exists in the range has a history of missing steps and planner.ErrPartial.
func (s *Source) History(ctx context.Context, name string, from, to time.Time) (planner.LoadHistory, error) {
	m, err := s.model(name)
	if err != nil {
		return planner.LoadHistory{}, err
	}
	g := newGrid(from, to, s.cfg.Step)
	if g.n == 0 {
		return planner.LoadHistory{}, fmt.Errorf("history of %s: no whole step of %v from %s to %s", name, s.cfg.Step,
			from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339))
	}
	r, err := s.resolveRange(ctx, m, g.start, g.end(g.n-1))
	if err != nil {
		return planner.LoadHistory{}, fmt.Errorf("history of %s: %w", name, err)
	}
	exprs := r.loadExprs("")
	if len(exprs) == 0 {
		h, _, _ := r.load(columns{}, "", g)
		return h, fmt.Errorf("history of %s: %w: no series matches from %s to %s, or none is scraped three times",
			name, planner.ErrPartial, g.start.Format(time.RFC3339), g.end(g.n-1).Format(time.RFC3339))
	}
	c, errs, read := s.readChunks(ctx, combine(exprs), g)
	if read == 0 {
		return planner.LoadHistory{}, fmt.Errorf("history of %s: %w", name, errors.Join(errs...))
	}
	h, _, _ := r.load(c, "", g)
	if len(errs) > 0 {
		return h, fmt.Errorf("history of %s: %w: %w", name, planner.ErrPartial, errors.Join(errs...))
	}
	return h, nil
}

// chunkFailuresMax is how many chunks in a row may fail before the rest is not asked for: the server is down.
const chunkFailuresMax = 2

// readChunks reads the grid in range queries of HistoryChunk steps. Every step is evaluated by itself on the server, so
// where the seams lie makes no difference. It returns what was read, what was not, and the number of steps read.
func (s *Source) readChunks(ctx context.Context, query string, g grid) (c columns, errs []error, read int) {
	c = columns{}
	failures := 0
	for lo := 0; lo < g.n; lo += s.cfg.HistoryChunk {
		hi := min(lo+s.cfg.HistoryChunk, g.n)
		err := ctx.Err()
		if err == nil && failures < chunkFailuresMax {
			err = s.readChunk(ctx, query, g, lo, hi, c)
		} else if err == nil {
			err = errors.New("not asked for after the failures before")
		}
		if err != nil {
			failures++
			errs = append(errs, fmt.Errorf("%s to %s is missing: %w",
				g.slice(lo, hi).start.Format(time.RFC3339), g.end(hi-1).Format(time.RFC3339), err))
			continue
		}
		failures = 0
		read += hi - lo
	}
	return c, errs, read
}

// chunkMin is the number of steps below which a range is no longer halved when the server refuses it as too large.
const chunkMin = 60

// readChunk reads steps [lo, hi) into c; on an error it leaves them missing.
func (s *Source) readChunk(ctx context.Context, query string, g grid, lo, hi int, c columns) error {
	part := g.slice(lo, hi)
	m, err := s.client.matrix(ctx, query, part.end(0), part.end(part.n-1), g.step)
	if err != nil && splittable(err) && part.n > chunkMin {
		mid := lo + part.n/2
		return errors.Join(s.readChunk(ctx, query, g, lo, mid, c), s.readChunk(ctx, query, g, mid, hi, c))
	}
	if err != nil {
		return err
	}
	got, err := decode(m, part)
	if err != nil {
		return err
	}
	c.paste(got, g, lo)
	return nil
}
