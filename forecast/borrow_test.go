package forecast

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestInheritAddsUpDuringTheSwap(t *testing.T) {
	old := minutes(10, 11, 12, 6, 3)
	s := minutes(7, 9, 12)
	s.Start = old.TimeAt(3)
	got, b, err := s.Inherit(old)
	if err != nil {
		t.Fatal(err)
	}
	if want := []float64{10, 11, 12, 13, 12, 12}; !equalValues(got.Values, want) || !got.Start.Equal(old.Start) {
		t.Errorf("inherited %v since %v, want %v", got.Values, got.Start, want)
	}
	if b.Steps != 3 || b.Shared != 2 || b.Ratio != 1 || !strings.Contains(b.String(), "3 steps inherited") {
		t.Errorf("statement %+v, %s", b, b)
	}
	// An old model that ended before leaves a gap, and one that began later leads to nothing.
	s.Start = old.TimeAt(7)
	if got, _, err := s.Inherit(old); err != nil || !math.IsNaN(got.Values[5]) || !math.IsNaN(got.Values[6]) || got.Values[7] != 7 {
		t.Errorf("over a gap: %v, %v", got.Values, err)
	}
	s.Start = old.TimeAt(-1)
	if got, b, err := s.Inherit(old); err != nil || b.Steps != 0 || !equalValues(got.Values, []float64{7, 19, 23}) {
		t.Errorf("an old model that began later: %v, %+v, %v", got.Values, b, err)
	}
	old.Step = time.Hour
	if _, _, err := s.Inherit(old); err == nil || !strings.Contains(err.Error(), "must be the same") {
		t.Errorf("steps that differ: %v", err)
	}
}

// equalValues takes NaN for equal to NaN.
func equalValues(a, b []float64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] && !(math.IsNaN(a[i]) && math.IsNaN(b[i])) {
			return false
		}
	}
	return true
}

// TestBorrowedShapeKnowsTheBurst: a model six hours old, a tenth of its sibling's size, must expect the sibling's
// burst at nine; alone it cannot.
func TestBorrowedShapeKnowsTheBurst(t *testing.T) {
	sibling := dailyDemand(10*1440+8*60+55, time.Minute, nil, 51)
	young := dailyDemand(sibling.Len(), time.Minute, nil, 52).Tail(6 * 60)
	for i := range young.Values {
		young.Values[i] *= 0.1
	}
	whole, b, err := young.BorrowShape(sibling)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(b.Ratio-0.1) > 0.01 || b.Steps != sibling.Len()-young.Len() || !strings.Contains(b.String(), "sibling") {
		t.Errorf("borrowed %+v: %s", b, b)
	}
	peak := func(s Series) float64 {
		a := NewAuto(Options{Horizon: 20})
		if err := a.Fit(s); err != nil {
			t.Fatal(err)
		}
		return a.Sample(20, blocksFor(s, 200, 20)).PeakQuantile(0.9, 0, 20)
	}
	if got := peak(whole); got < 25 || got > 40 {
		t.Errorf("with the sibling's shape the p90 of the peak is %.3g, want about 30", got)
	}
	if got := peak(young); got > 25 {
		t.Errorf("alone the p90 of the peak is %.3g: it cannot know of the burst", got)
	}
	// Two days of its own are enough.
	grown := dailyDemand(3*1440, time.Minute, nil, 53)
	grown.Start = sibling.TimeAt(1440)
	if got, b, err := grown.BorrowShape(sibling); err != nil || b.Steps != 0 || got.Len() != grown.Len() || b.String() != "own history only" {
		t.Errorf("a series of three days borrowed %+v, %v", b, err)
	}
}
