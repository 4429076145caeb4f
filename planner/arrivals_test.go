package planner

import (
	"testing"
	"time"

	"forewarm/coldstart"
)

// TestArrivalsOfFailures: a start that fails is there after it gave up and was made again; one that fails twice never is.
// With half of the starts failing the shares are 1/2, 1/4, 1/4; four standard deviations of 4000 draws are 3.2 points.
func TestArrivalsOfFailures(t *testing.T) {
	const paths = 4000
	lt := measured(coldstart.WarmNode, 2*time.Minute)
	lt.FailureProb = 0.5
	for _, test := range []struct {
		why                     string
		failedAfter, age, retry time.Duration
	}{
		{"gives up 5 min after its order, and starts for 2 min", 5 * time.Minute, time.Minute, 6 * time.Minute},
		{"overdue: it has given up by now", 5 * time.Minute, 7 * time.Minute, 2 * time.Minute},
		{"nobody saw one give up: when it should have served", 0, time.Minute, 3 * time.Minute},
	} {
		t.Run(test.why, func(t *testing.T) {
			lt.FailedAfter = test.failedAfter
			c := &course{now: monday, seed: 1, state: &ModelState{Name: "chat", LeadTimes: []coldstart.LeadTime{lt},
				Replicas: &Replicas{Starting: []StartingReplica{{ID: "a", Since: monday.Add(-test.age), Path: coldstart.WarmNode}}}}}
			again, lost := 0, 0
			for _, at := range c.arrivals(paths) {
				switch at[0] {
				case test.retry:
					again++
				case never:
					lost++
				}
			}
			for name, n := range map[string]int{"made again": again, "lost": lost} {
				if share := float64(n) / paths; share < 0.218 || share > 0.282 {
					t.Errorf("%s: a share of %.3f, want 0.25", name, share)
				}
			}
		})
	}
}
