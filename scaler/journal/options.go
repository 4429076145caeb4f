package journal

import (
	"errors"
	"fmt"
	"time"
)

// Options are the limits of a journal. A zero field takes its default, see DefaultOptions.
type Options struct {
	// CheckpointEvery is the longest time between two stored States; changes of targets store more. Default 10 minutes.
	CheckpointEvery time.Duration
	// KeepDecisions, KeepStates and KeepStarts are how long records are kept. Default 35, 7 and 90 days. A State does not
	// outlive its Decision.
	KeepDecisions time.Duration
	KeepStates    time.Duration
	KeepStarts    time.Duration
	// SizeMax bounds the bytes in the directory, the write-ahead log included, files set aside excluded. It may be
	// exceeded only by what is never dropped (see the package comment) and while a reader keeps a long transaction open.
	// Default 1 GiB, at least 1 MiB.
	SizeMax int64
}

// sizeFloor is the smallest SizeMax: an empty journal with its indexes and log takes about 100 KiB.
const sizeFloor = 1 << 20

const day = 24 * time.Hour

// DefaultOptions returns the limits that zero fields stand for.
func DefaultOptions() Options {
	return Options{
		CheckpointEvery: 10 * time.Minute,
		KeepDecisions:   35 * day,
		KeepStates:      7 * day,
		KeepStarts:      90 * day,
		SizeMax:         1 << 30,
	}
}

// Validate reports every limit out of range at once; zero fields are in range.
func (o Options) Validate() error {
	var errs []error
	for _, d := range []struct {
		key   string
		value time.Duration
		min   time.Duration
	}{
		{"checkpoint_every", o.CheckpointEvery, time.Second},
		{"keep_decisions", o.KeepDecisions, time.Hour},
		{"keep_states", o.KeepStates, time.Hour},
		{"keep_starts", o.KeepStarts, time.Hour},
	} {
		if d.value != 0 && (d.value < d.min || d.value > 3650*day) {
			errs = append(errs, fmt.Errorf("%s is %v: 0 (the default) or %v to 87600h are allowed", d.key, d.value, d.min))
		}
	}
	if o.SizeMax != 0 && o.SizeMax < sizeFloor {
		errs = append(errs, fmt.Errorf("size_max is %d bytes: 0 (the default) or at least %d are allowed", o.SizeMax, sizeFloor))
	}
	return errors.Join(errs...)
}

func (o Options) withDefaults() Options {
	d := DefaultOptions()
	fill := func(v *time.Duration, standard time.Duration) {
		if *v == 0 {
			*v = standard
		}
	}
	fill(&o.CheckpointEvery, d.CheckpointEvery)
	fill(&o.KeepDecisions, d.KeepDecisions)
	fill(&o.KeepStates, d.KeepStates)
	fill(&o.KeepStarts, d.KeepStarts)
	if o.SizeMax == 0 {
		o.SizeMax = d.SizeMax
	}
	return o
}

// SizeMax is shared out so that the sum stays below it at every moment: live pages of the file may fill three quarters;
// the log is cut back to a sixteenth; the largest single record, a State, may add a sixteenth to the file before older
// ones make room, and passes through the log on its way. The fixed part holds the shared memory of the log (32 KiB) and
// what a transaction touches however small it is.

const fixedBytes = 256 << 10

func (o Options) liveMax() int64 { return o.SizeMax/4*3 - fixedBytes }

func (o Options) stateMax() int64 { return o.SizeMax / 16 }

// logMax also has an upper bound: a long log slows readers down.
func (o Options) logMax() int64 { return min(o.SizeMax/16, 4<<20) }

// groupMax closes a group early under a small cap, because the newest group cannot be dropped.
func (o Options) groupMax() int64 { return o.liveMax() / 8 }
