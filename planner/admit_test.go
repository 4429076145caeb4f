package planner

import "testing"

// TestAdmissionString: without counted requests nothing is said about how many may come in or wait.
func TestAdmissionString(t *testing.T) {
	a := &Admission{Cause: ShortOfStock, Owner: OwnerPlatform, Why: "4 of 8 can be served", Load: Load{Requests: 38.04}}
	if got, want := a.String(), "no stock (platform): 4 of 8 can be served"; got != want {
		t.Errorf("got %q, not %q", got, want)
	}
	depth := 76
	a.QueueDepth = &depth
	if got, want := a.String(), "no stock (platform): 4 of 8 can be served; admit 38 requests/s and let at most 76 wait"; got != want {
		t.Errorf("got %q, not %q", got, want)
	}
}
