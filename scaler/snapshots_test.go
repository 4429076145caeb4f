package scaler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"forewarm/forecast"
	"forewarm/planner"
)

// waves is a Source of a noisy day; it counts what it is asked for.
type waves struct {
	asked []string
	err   error
}

func (w *waves) load(from, to time.Time) planner.LoadHistory {
	series := func(size float64) forecast.Series {
		s := forecast.Series{Start: from, Step: time.Minute}
		for at := from; at.Before(to); at = at.Add(time.Minute) {
			noise := rand.New(rand.NewPCG(1, uint64(at.Unix()))).Float64()
			s.Values = append(s.Values, size*(2+math.Sin(2*math.Pi*float64(at.Unix()%86400)/86400))*(0.9+0.2*noise))
		}
		return s
	}
	return planner.LoadHistory{Prompt: series(10000), Completion: series(1000), Requests: series(5)}
}

func (w *waves) History(_ context.Context, _ string, from, to time.Time) (planner.LoadHistory, error) {
	w.asked = append(w.asked, from.Format("2T15:04")+".."+to.Format("2T15:04"))
	if w.err != nil && !errors.Is(w.err, planner.ErrPartial) {
		return planner.LoadHistory{}, w.err
	}
	return w.load(from, to), w.err
}

func (w *waves) Observe(_ context.Context, now time.Time) (planner.Observation, error) {
	to := now.Truncate(time.Minute)
	return planner.Observation{At: now, Models: []planner.ModelObservation{{
		Name: "chat", Load: w.load(to.Add(-10*time.Minute), to), Replicas: &planner.Replicas{Ready: 3}}}}, nil
}

// shelf keeps snapshots in memory.
type shelf struct {
	data    map[string][]byte
	loadErr error
	saveErr error
	refused string
}

func (s *shelf) use(c *Config) {
	c.Snapshots = &Snapshots{
		Load: func(model string) ([]byte, error) { return s.data[model], s.loadErr },
		Save: func(model string, _ time.Time, data []byte) error {
			if s.saveErr == nil {
				s.data[model] = data
			}
			return s.saveErr
		},
		Refuse: func(model string, why error) error {
			s.refused = why.Error()
			delete(s.data, model)
			return fmt.Errorf("set aside: %w", why)
		},
	}
}

func newWaves(t *testing.T, w *waves, s *shelf) *Loop {
	t.Helper()
	return newLoop(t, nil, func(c *Config) {
		c.Source, c.History = w, 3*24*time.Hour
		if s != nil {
			s.use(c)
		}
	})
}

// sameKnowledge compares all that two loops' trackers know of the load, and what they plan with.
func sameKnowledge(t *testing.T, a, b *Loop) {
	t.Helper()
	x, errX := a.cfg.Tracker.Snapshot("chat")
	y, errY := b.cfg.Tracker.Snapshot("chat")
	if errX != nil || errY != nil {
		t.Fatal(errX, errY)
	}
	if string(x) != string(y) {
		t.Error("the restarted tracker knows something else")
	}
	p, q := a.Plan().Decision.Model("chat").Peak, b.Plan().Decision.Model("chat").Peak
	if p == nil || q == nil || p.Load != q.Load || p.Quantile != q.Quantile {
		t.Errorf("the peak is %+v, after the restart %+v", p, q)
	}
}

// A restart gives the forecast that there would have been without one, to the last digit: after an orderly end and
// after a crash, at once and after a while that nobody watched. Only the load since the snapshot is read.
func TestRestartForecastsAsIfThereWereNone(t *testing.T) {
	for name, c := range map[string]struct {
		orderly bool
		away    int // ticks
		asked   string
	}{
		"stopped and started":      {true, 0, "2T10:39..2T10:40"},
		"stopped for two hours":    {true, 480, "2T10:39..2T12:40"},
		"killed and started":       {false, 0, "2T10:00..2T10:40"},
		"killed, back in an hour":  {false, 240, "2T10:00..2T11:40"},
		"away for longer than use": {false, 25 * 240, "28T11:40..3T11:40"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole, first := &waves{}, &waves{}
			kept := &shelf{data: map[string][]byte{}}
			never, before := newWaves(t, whole, nil), newWaves(t, first, kept)
			next := ticks(never, monday, 400)
			ticks(before, monday, 400) // an hour and forty minutes: saved at 9:00 and at 10:00
			if c.orderly {
				before.saveAll(next)
			}
			next = next.Add(time.Duration(c.away) * never.cfg.Interval)
			second := &waves{}
			after := newWaves(t, second, kept)
			ticks(after, next, 1)
			if got := strings.Join(second.asked, " "); got != c.asked {
				t.Errorf("the restart read %q, want %q", got, c.asked)
			}
			if c.away > 24*240 {
				return // a history that was read in other pieces is not the same
			}
			ticks(never, next.Add(-time.Duration(c.away)*never.cfg.Interval), c.away+1)
			sameKnowledge(t, never, after)
			next = next.Add(never.cfg.Interval)
			ticks(never, next, 40)
			ticks(after, next, 40)
			sameKnowledge(t, never, after)
		})
	}
}

// What is wrong with a snapshot costs the reading of the history, is said in the log and counted, and is no failure any
// more once a new one is saved.
func TestBadSnapshotIsReadOver(t *testing.T) {
	good := &shelf{data: map[string][]byte{}}
	ticks(newWaves(t, &waves{}, good), monday, 1)
	other := newLoop(t, nil, func(c *Config) {
		c.Source, c.History = &waves{}, 3*24*time.Hour
		c.Tracker = newTrackerOf(t, 20*time.Minute)
		good.use(c)
	})
	for name, c := range map[string]struct {
		loop *Loop
		kept *shelf
		says string
	}{
		"noise":           {nil, &shelf{data: map[string][]byte{"chat": []byte("noise")}}, "decoding a snapshot"},
		"unreadable":      {nil, &shelf{data: map[string][]byte{}, loadErr: errors.New("I/O error")}, "snapshot of chat: I/O error"},
		"another horizon": {other, good, "horizon of 30 steps"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &waves{}
			l := c.loop
			if l == nil {
				l = newWaves(t, w, c.kept)
			} else {
				l.cfg.Source = w
			}
			var log bytes.Buffer
			l.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
			next := ticks(l, monday.Add(time.Minute), 1)
			if text := log.String(); !strings.Contains(text, "level=ERROR") || !strings.Contains(text, "part=restore_snapshot") || !strings.Contains(text, c.says) {
				t.Errorf("the log does not say %q:\n%s", c.says, text)
			}
			next = ticks(l, next, 1)
			if l.Plan().Decision.Model("chat").Peak == nil {
				t.Error("there is no forecast, although the history can be read")
			}
			if n := len(w.asked); w.asked[n-1][:4] != "27T0" {
				t.Errorf("the history was asked for %q", w.asked)
			}
			c.kept.loadErr = nil
			ticks(l, next, 1)
			if s := part(l, "restore_snapshot"); s.Error != "" || c.kept.data["chat"] == nil {
				t.Errorf("the status says %+v after a new snapshot of %d bytes", s, len(c.kept.data["chat"]))
			}
		})
	}
}

// A disk that is full is said and tried again; a history that was read in part is not kept, so that a restart reads
// it whole.
func TestSnapshotsThatAreNotSaved(t *testing.T) {
	kept := &shelf{data: map[string][]byte{}, saveErr: errors.New("no space left on device")}
	l := newWaves(t, &waves{}, kept)
	next := ticks(l, monday, 1)
	if s := part(l, "save_snapshot"); s.Error != "snapshot of chat: no space left on device" {
		t.Errorf("the status says %+v", s)
	}
	kept.saveErr = nil
	ticks(l, next, 241)
	if s := part(l, "save_snapshot"); s.Error != "" || kept.data["chat"] == nil {
		t.Errorf("an hour later the status says %+v", s)
	}
	partial := &shelf{data: map[string][]byte{}}
	l = newWaves(t, &waves{err: fmt.Errorf("store 3 is down: %w", planner.ErrPartial)}, partial)
	next = ticks(l, monday, 10)
	l.saveAll(next)
	if len(partial.data) > 0 {
		t.Error("what was learned from a part of the history is kept")
	}
}
