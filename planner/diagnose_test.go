package planner

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// snapshot is one moment of one model, in testdata/diagnose: faults, which must be named right and nothing else, and
// healthy moments and decoys, which no veto may fall for.
type snapshot struct {
	Proves    string           `json:"proves"`
	Now       time.Time        `json:"now"`
	Model     ModelState       `json:"model"`
	Inventory *Inventory       `json:"inventory,omitempty"`
	Cluster   *ClusterEvidence `json:"cluster,omitempty"`
	Need      *int             `json:"need,omitempty"`
	// Expect are all vetoes and hints as "R1 veto application"; Unknown are rules that must say what they lack.
	Expect  []string `json:"expect"`
	Unknown []Rule   `json:"unknown,omitempty"`
}

func TestDiagnoseSnapshots(t *testing.T) {
	for kind, least := range map[string]int{"faults": 24, "healthy": 24} {
		files, err := filepath.Glob(filepath.Join("testdata", "diagnose", kind, "*.json"))
		if err != nil || len(files) < least {
			t.Fatalf("%d %s, %d are wanted (%v)", len(files), kind, least, err)
		}
		for _, file := range files {
			t.Run(kind+"/"+filepath.Base(file), func(t *testing.T) {
				s := readSnapshot(t, file)
				if kind == "faults" && len(s.Expect) == 0 {
					t.Fatal("a fault must expect a finding")
				}
				got := findingNames(t, Diagnose(s.examined()), s.Unknown)
				if !slices.Equal(got, s.Expect) {
					t.Errorf("%s\n got %v\nwant %v", s.Proves, got, s.Expect)
				}
				for _, f := range got {
					if kind == "healthy" && slices.Contains([]string{"veto"}, fieldOf(f, 1)) {
						t.Errorf("false veto: %s", f)
					}
				}
			})
		}
	}
}

func (s snapshot) examined() Case {
	return Case{Now: s.Now, Model: &s.Model, Inventory: s.Inventory, Cluster: s.Cluster, NeedNow: s.Need, TTFT: 2 * time.Second}
}

func readSnapshot(t testing.TB, file string) snapshot {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var s snapshot
	if err := readStrict(f, &s); err != nil {
		t.Fatal(err)
	}
	if broken, err := s.Model.broken(false), s.Cluster.problem(); len(broken) > 0 || err != nil {
		t.Fatal(broken, err)
	}
	if s.Proves == "" {
		t.Fatal("a snapshot opens with what it proves")
	}
	return s
}

// findingNames lists vetoes and hints, and checks that each is whole and that the rules of unknown are.
func findingNames(t *testing.T, findings []Finding, unknown []Rule) []string {
	t.Helper()
	out := []string{}
	if len(findings) != 13 {
		t.Fatalf("%d findings, one for each of 13 rules is wanted", len(findings))
	}
	for i, f := range findings {
		if f.Rule != Rule(fmt.Sprintf("R%d", i+1)) {
			t.Errorf("finding %d is of %s", i, f.Rule)
		}
		if slices.Contains(unknown, f.Rule) && f.Verdict != Unknown {
			t.Errorf("%s is %s, its data are missing", f.Rule, f.Verdict)
		}
		if f.Verdict == Unknown && len(f.Missing) == 0 {
			t.Errorf("%s is unknown and does not say what it lacks", f.Rule)
		}
		if f.Verdict != Veto && f.Verdict != Hint {
			continue
		}
		if f.Owner == "" || f.Why == "" || f.Remedy == "" || len(f.Evidence) == 0 {
			t.Errorf("%s lacks an owner, a reason, a remedy or evidence: %+v", f.Rule, f)
		}
		out = append(out, fmt.Sprintf("%s %s %s", f.Rule, f.Verdict, f.Owner))
	}
	return out
}

func fieldOf(s string, i int) string {
	var fields [3]string
	fmt.Sscan(s, &fields[0], &fields[1], &fields[2])
	return fields[i]
}

// BenchmarkDiagnose is one model of eight replicas; the bar is 50 ms a snapshot.
func BenchmarkDiagnose(b *testing.B) {
	s := readSnapshot(b, filepath.Join("testdata", "diagnose", "faults", "r1_throttled_gpu_idle.json"))
	c := s.examined()
	for b.Loop() {
		Diagnose(c)
	}
}
