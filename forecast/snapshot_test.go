package forecast

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestSnapshotGoesOnAsBefore: an Auto restored from its snapshot gives the same paths, now and after more steps, and the
// same snapshot again.
func TestSnapshotGoesOnAsBefore(t *testing.T) {
	for shape, s := range hardSeries() {
		opts := Options{Horizon: 12}
		a, b := NewAuto(opts), NewAuto(opts)
		if err := a.Fit(s); err != nil {
			t.Fatal(err)
		}
		for _, v := range []float64{1, nan, 3} {
			a.Update(v, false)
		}
		data, err := a.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		if err := b.UnmarshalBinary(data); err != nil {
			t.Fatalf("%s: %v", shape, err)
		}
		if again, err := b.MarshalBinary(); err != nil || !slices.Equal(again, data) {
			t.Errorf("%s: the restored one writes another snapshot (%v)", shape, err)
		}
		for round := range 30 {
			blocks := Blocks{Ages: []int{12, 15, 40, 100, 300}}
			x, y := a.Sample(12, blocks), b.Sample(12, blocks)
			for i := range x.Paths {
				if !slices.Equal(x.Paths[i], y.Paths[i]) {
					t.Fatalf("%s, round %d, path %d: %v restored is %v", shape, round, i, x.Paths[i], y.Paths[i])
				}
			}
			if !x.Start.Equal(y.Start) {
				t.Fatalf("%s: the clock moved from %v to %v", shape, x.Start, y.Start)
			}
			a.Update(float64(round), false)
			b.Update(float64(round), false)
		}
	}
}

func TestSnapshotRefuses(t *testing.T) {
	a := NewAuto(Options{})
	if _, err := a.MarshalBinary(); err == nil || !strings.Contains(err.Error(), "not fitted") {
		t.Errorf("unfitted: %v", err)
	}
	if err := a.Fit(dailyDemand(500, time.Minute, nil, 1)); err != nil {
		t.Fatal(err)
	}
	data, err := a.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		data []byte
		opts Options
		says string
	}{
		"something else": {[]byte("{}"), Options{}, "not a snapshot"},
		"half":           {data[:len(data)/2], Options{}, "cut short"},
		"more":           {append(slices.Clone(data), 0), Options{}, "1 bytes too many"},
		"other horizon":  {data, Options{Horizon: 30}, "horizon of 10"},
	} {
		if err := NewAuto(c.opts).UnmarshalBinary(c.data); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", what, err, c.says)
		}
	}
}

// TestSnapshotSurvivesNoise: bytes from anywhere are an error or a state, never a panic on reading.
func TestSnapshotSurvivesNoise(t *testing.T) {
	a := NewAuto(Options{Horizon: 3})
	if err := a.Fit(dailyDemand(300, time.Hour, nil, 1)); err != nil {
		t.Fatal(err)
	}
	good, err := a.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		data := slices.Clone(good)
		for range rapid.IntRange(1, 8).Draw(t, "edits") {
			at := rapid.IntRange(len(snapshotMagic), len(snapshotMagic)+200).Draw(t, "at")
			data[at] = rapid.Byte().Draw(t, "byte")
		}
		_ = NewAuto(Options{Horizon: 3}).UnmarshalBinary(data)
	})
}
