package coldstart_test

import (
	"fmt"
	"time"

	"forewarm/coldstart"
)

// Five starts of about three minutes, then a pod that has been starting for ten: it raises the p90 at once.
func Example() {
	key := coldstart.Key{Model: "chat-70b", Shape: "4x1/H200", Path: coldstart.WarmNode}
	monday := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	ledger, err := coldstart.NewLedger(coldstart.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	add := func(id string, after, total time.Duration, outcome coldstart.Outcome) {
		s := coldstart.Sample{ID: id, Key: key, Started: monday.Add(after), Total: total, Outcome: outcome}
		if err := ledger.Add(s); err != nil {
			fmt.Println(err)
		}
	}
	for i, s := range []int{150, 160, 170, 180, 190} {
		add(fmt.Sprint("pod-", i), time.Duration(i)*time.Minute, time.Duration(s)*time.Second, coldstart.Served)
	}
	show := func() {
		lt := ledger.Estimate(key, monday.Add(time.Hour))
		fmt.Printf("%s, %d samples (%d pending): p50 %v, p90 %v\n", lt.Basis, lt.Samples, lt.Censored,
			lt.Quantile(.5), lt.Quantile(.9).Round(time.Second))
	}
	show()
	add("pod-5", 50*time.Minute, 5*time.Second, coldstart.Pending)
	show()
	add("pod-5", 50*time.Minute, 10*time.Minute, coldstart.Pending)
	show()
	left := ledger.Estimate(key, monday.Add(time.Hour)).Remaining(10*time.Minute, .5)
	fmt.Println("that pod needs a further", left.Round(time.Second), "in the median")
	// Output:
	// measured, 5 samples (0 pending): p50 2m50s, p90 3m10s
	// measured, 6 samples (1 pending): p50 2m50s, p90 3m10s
	// measured, 6 samples (1 pending): p50 3m0s, p90 13m7s
	// that pod needs a further 3m57s in the median
}
