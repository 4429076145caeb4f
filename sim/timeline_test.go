package sim

import (
	"testing"

	"pgregory.net/rapid"
)

// The timeline against a search through all actors.
func TestTimelineNamesTheNextActor(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var line timeline
		var all []*actor
		for range rapid.IntRange(1, 60).Draw(rt, "operations") {
			if len(all) == 0 || rapid.Bool().Draw(rt, "add") {
				all = append(all, line.add(func() {}))
			}
			a := all[rapid.IntRange(0, len(all)-1).Draw(rt, "actor")]
			at := rapid.Int64Range(0, 20).Draw(rt, "at")
			if at == 20 {
				at = never
			}
			line.set(a, at)
			var want *actor
			for _, a := range all {
				if a.at != never && (want == nil || a.at < want.at) {
					want = a
				}
			}
			if got := line.first(); got != want {
				rt.Fatalf("next is %+v, want %+v", got, want)
			}
		}
	})
}
