package forecast

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestEventfulSnapshotGoesOnAsBefore: restored before, in the middle of and after a learned event, beside a holiday
// and one of a stated size, the paths and what is said of the events ahead are those of the one that was not
// interrupted.
func TestEventfulSnapshotGoesOnAsBefore(t *testing.T) {
	berlin := mustLocation(t, "Europe/Berlin")
	sunday := time.Sunday
	first := midnight(monday.In(berlin)).Add(10 * time.Hour)
	calendar, err := NewCalendar([]Event{
		{Name: "all-hands", Start: first, Duration: 2 * time.Hour, RampUp: 30 * time.Minute, Recurrence: "FREQ=DAILY;INTERVAL=2", Learn: true},
		{Name: "launch", Start: first.Add(14*day + time.Hour), Duration: 6 * time.Hour, Multiplier: 2},
		{Name: "holiday", Start: midnight(first.Add(15 * day)), Days: 1, Like: &sunday},
	})
	if err != nil {
		t.Fatal(err)
	}
	const step = 10 * time.Minute
	whole := dailyDemand(int(18*day/step), step, berlin, 3)
	opts := Options{Horizon: 6}
	for _, at := range []time.Duration{14*day + 5*time.Hour, 14*day + 11*time.Hour + step, 15*day + 3*time.Hour} {
		cut := int(at / step)
		a := WithEvents(NewAuto(opts), calendar, "chat").(*Eventful)
		b := WithEvents(NewAuto(opts), calendar, "chat").(*Eventful)
		s := whole
		s.Values = whole.Values[:cut]
		if err := a.Fit(s); err != nil {
			t.Fatal(err)
		}
		data, err := a.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		if err := b.UnmarshalBinary(data); err != nil {
			t.Fatal(err)
		}
		blocks := Blocks{Ages: []int{6, 40, 150, 300}}
		for i := cut; i < cut+300; i++ {
			x, y := a.Sample(12, blocks), b.Sample(12, blocks)
			for j := range x.Paths {
				if !slices.Equal(x.Paths[j], y.Paths[j]) {
					t.Fatalf("cut at %v, step %d, path %d: %v restored is %v", at, i-cut, j, x.Paths[j], y.Paths[j])
				}
			}
			until := x.Start.Add(3 * time.Hour)
			said, saysNow := a.Ahead(x.Start, until), b.Ahead(x.Start, until)
			if len(said) != len(saysNow) {
				t.Fatalf("cut at %v, step %d: %d events ahead, restored %d", at, i-cut, len(said), len(saysNow))
			}
			for j := range said {
				if said[j].Why != saysNow[j].Why || said[j].Multiplier != saysNow[j].Multiplier {
					t.Fatalf("cut at %v, step %d: %+v restored is %+v", at, i-cut, said[j], saysNow[j])
				}
			}
			v, low := whole.Values[i], i%7 == 0
			a.Update(v, low)
			b.Update(v, low)
		}
	}
}

func TestEventfulSnapshotRefuses(t *testing.T) {
	event := Event{Name: "launch", Start: monday.Add(2 * day), Duration: 3 * day, Multiplier: 2}
	calendar, err := NewCalendar([]Event{event})
	if err != nil {
		t.Fatal(err)
	}
	event.Name = "all-hands"
	other, err := NewCalendar([]Event{event})
	if err != nil {
		t.Fatal(err)
	}
	a := WithEvents(NewAuto(Options{}), calendar, "chat").(*Eventful)
	if _, err := a.MarshalBinary(); err == nil || !strings.Contains(err.Error(), "not fitted") {
		t.Errorf("unfitted: %v", err)
	}
	if err := a.Fit(dailyDemand(72, time.Hour, nil, 1)); err != nil {
		t.Fatal(err)
	}
	data, err := a.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		into Forecaster
		data []byte
		says string
	}{
		"another calendar": {WithEvents(NewAuto(Options{}), other, "chat"), data, `no event "launch" at 2024-`},
		"half":             {WithEvents(NewAuto(Options{}), calendar, "chat"), data[:len(data)/2], "EOF"},
		"another horizon":  {WithEvents(NewAuto(Options{Horizon: 3}), calendar, "chat"), data, "horizon of 10"},
		"another method":   {WithEvents(NewLastValue(Options{}), calendar, "chat"), data, `"last" has no snapshot`},
		"no events at all": {NewAuto(Options{}), data, "not a snapshot"},
	} {
		err := c.into.(interface{ UnmarshalBinary([]byte) error }).UnmarshalBinary(c.data)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", what, err, c.says)
		}
	}
}
