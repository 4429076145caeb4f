package configs_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// Each check of the rules is fed something broken and something sound: a rule that no longer catches the first, or that
// starts to complain about the second, fails here.

// soundGraph is a module that keeps every import rule, with each thing that a rule might wrongly complain about.
func soundGraph() importGraph {
	return importGraph{
		"forewarm/forecast":       {"math", "gonum.org/v1/gonum/stat", "github.com/teambition/rrule-go"},
		"forewarm/coldstart":      {"time", "gonum.org/v1/gonum/stat"},
		"forewarm/planner":        {"forewarm/forecast", "forewarm/coldstart", "encoding/json"},
		"forewarm/planner/report": {"forewarm/planner", "forewarm/planner/report/page", "html/template"},
		"forewarm/sim":            {"forewarm/planner", "forewarm/forecast", "forewarm/sim/queue"},
		"forewarm/scaler":         {"forewarm/planner", "github.com/prometheus/client_golang/prometheus"},
		"forewarm/scaler/journal": {"forewarm/planner", "database/sql", "modernc.org/sqlite"},
		"forewarm/scaler/keda":    {"forewarm/scaler", "google.golang.org/grpc"},
		"forewarm/scaler/prom":    {"forewarm/scaler", "github.com/prometheus/client_golang/api"},
		"forewarm/scaler/kube":    {"forewarm/scaler", "k8s.io/client-go", "github.com/kedacore/keda/v2/apis/keda/v1alpha1"},
		"forewarm/scaler/e2e":     {"forewarm/sim", "forewarm/scaler/kube", "forewarm/scaler/keda"},
		"forewarm/configs":        {"forewarm/planner", "forewarm/scaler/prom"},
		"forewarm/cmd/forewarm":   {"forewarm/sim", "forewarm/scaler/journal", "forewarm/scaler/prom"},
		"forewarm/cmd/forewarmd":  {"forewarm/sim", "forewarm/scaler", "forewarm/scaler/keda", "forewarm/scaler/kube"},
		"google.golang.org/grpc":  {"net/http"},
		"k8s.io/client-go":        {"net/http"},
	}
}

func TestRulesCatchImports(t *testing.T) {
	if got := checkImports(soundGraph()); got != nil {
		t.Fatalf("a sound module has findings:\n%s", strings.Join(got, "\n"))
	}
	tests := []struct {
		name  string
		pkg   string   // gets one more import
		path  string   // that import
		extra []string // what the imported package imports in turn
		want  string
	}{
		{"forecast to coldstart", "forecast", "forewarm/coldstart", nil,
			"forewarm/forecast -> forewarm/coldstart: forecast and coldstart do not import each other"},
		{"coldstart to forecast", "coldstart", "forewarm/forecast", nil,
			"forewarm/coldstart -> forewarm/forecast: forecast and"},
		{"core to http over a library", "sim", "example.com/fetch", []string{"net/http"},
			"forewarm/sim -> example.com/fetch -> net/http: the core reaches no network"},
		{"core to grpc", "planner", "google.golang.org/grpc/status", nil, "grpc/status: the core reaches no network"},
		{"core to kubernetes", "forecast", "k8s.io/api/core/v1", nil,
			"k8s.io/api/core/v1: the core reaches no network"},
		{"core to kubernetes sigs", "coldstart", "sigs.k8s.io/yaml", nil,
			"sigs.k8s.io/yaml: the core reaches no network"},
		{"core to prometheus", "sim", "github.com/prometheus/common/model", nil,
			"common/model: the core reaches no network"},
		{"core to a process", "sim", "os/exec", nil, "forewarm/sim -> os/exec: the core reaches no"},
		{"core to a database", "planner", "database/sql", nil, "forewarm/planner -> database/sql: the core reaches no"},
		{"report to the network", "planner/report", "net/http", nil,
			"forewarm/planner/report -> net/http: the core reaches no"},
		{"core to the loop", "planner", "forewarm/scaler", nil,
			"forewarm/planner -> forewarm/scaler: the core does not know"},
		{"core to sim", "forecast", "forewarm/sim", nil, "forewarm/forecast -> forewarm/sim: the core does not know"},
		{"core to report", "forecast", "forewarm/planner/report", nil, "forewarm/planner/report: the core does not know"},
		{"sim to scaler", "sim", "forewarm/scaler", nil,
			"forewarm/sim -> forewarm/scaler: sim, scaler and planner/report"},
		{"sim to an adapter", "sim", "forewarm/scaler/web", nil,
			"forewarm/sim -> forewarm/scaler/web: sim, scaler and"},
		{"sim to report", "sim", "forewarm/planner/report", nil,
			"forewarm/sim -> forewarm/planner/report: sim, scaler and"},
		{"report to sim", "planner/report", "forewarm/sim", nil,
			"forewarm/planner/report -> forewarm/sim: sim, scaler and"},
		{"report to scaler", "planner/report", "forewarm/scaler", nil, "report -> forewarm/scaler: sim, scaler and"},
		{"scaler to sim", "scaler", "forewarm/sim", nil, "forewarm/scaler -> forewarm/sim: sim, scaler and"},
		{"adapter to report", "scaler/web", "forewarm/planner/report", nil,
			"web -> forewarm/planner/report: sim, scaler and"},
		{"adapter to adapter", "scaler/keda", "forewarm/scaler/prom", nil,
			"forewarm/scaler/keda -> forewarm/scaler/prom: an adapter imports no other adapter"},
		{"scaler to adapter", "scaler", "forewarm/scaler/web", nil,
			"forewarm/scaler -> forewarm/scaler/web: only cmd wires"},
		{"wiring outside cmd", "configs", "forewarm/scaler/keda", nil,
			"configs: only cmd imports more than one adapter"},
		{"offline CLI to client-go", "cmd/forewarm", "example.com/kit", []string{"k8s.io/client-go/rest"},
			"forewarm/cmd/forewarm -> example.com/kit -> k8s.io/client-go/rest: the offline CLI"},
		{"offline CLI to controller-runtime", "cmd/forewarm", "sigs.k8s.io/controller-runtime/pkg/client", nil,
			"controller-runtime/pkg/client: the offline CLI"},
		{"second client library", "scaler/keda", "database/sql", nil,
			"scaler/keda -> database/sql: an adapter imports one"},
		{"forecast to a new library", "forecast", "github.com/spf13/cobra", nil,
			"forecast -> github.com/spf13/cobra: forecast imports"},
		{"coldstart to a new library", "coldstart", "example.com/stats", nil,
			"coldstart -> example.com/stats: coldstart imports"},
		{"kube to a controller of Kueue", "scaler/kube", "sigs.k8s.io/kueue/pkg/cache", nil,
			"kube -> sigs.k8s.io/kueue/pkg/cache: scaler/kube imports only"},
		{"kube to KEDA's scalers", "scaler/kube", "github.com/kedacore/keda/v2/pkg/scalers", nil,
			"scaler/kube imports only"},
		{"kube to an adapter", "scaler/kube", "forewarm/scaler/prom", nil,
			"kube -> forewarm/scaler/prom: an adapter imports no other"},
		{"another adapter to client-go", "scaler/prom", "k8s.io/client-go/rest", nil,
			"prom -> k8s.io/client-go/rest: an adapter imports one client library; this one is scaler/kube's"},
		{"planner to configs", "planner", "forewarm/configs", nil, "planner -> forewarm/configs: planner imports only"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := soundGraph()
			pkg := module + "/" + tt.pkg
			g[pkg] = append(g[pkg], tt.path)
			if tt.extra != nil {
				g[tt.path] = tt.extra
			}
			wantFinding(t, checkImports(g), tt.want)
		})
	}
}

// TestRulesNameTheCulprit: of many packages above one forbidden import, only the one that makes it is named.
func TestRulesNameTheCulprit(t *testing.T) {
	g := soundGraph()
	g["forewarm/forecast"] = append(g["forewarm/forecast"], "net/http")
	got := checkImports(g)
	if len(got) != 1 || !strings.HasPrefix(got[0], "forewarm/forecast -> net/http: ") {
		t.Errorf("got %d findings, want only forecast's own:\n%s", len(got), strings.Join(got, "\n"))
	}
}

func TestRulesCatchCoreSource(t *testing.T) {
	tests := []struct {
		name string
		file string
		src  string
		want string // part of a finding; empty when the source is sound
	}{
		{"now", "sim/a.go",
			`import "time"` + "\n" + `var t = time.Now()`, "sim/a.go:3: time.Now: in the core time comes in"},
		{"now as a value", "sim/a.go", `import "time"` + "\n" + `var clock = time.Now`, "sim/a.go:3: time.Now"},
		{"renamed time", "sim/a.go", `import clock "time"` + "\n" + `var t = clock.Now()`, "sim/a.go:3: time.Now"},
		{"dot time", "sim/a.go", `import . "time"` + "\n" + `var t = Now()`, "sim/a.go:2: imports time with a dot"},
		{"clock in a test", "sim/a_test.go",
			`import "time"` + "\n" + `var t = time.Now()`, "sim/a_test.go:3: time.Now"},
		{"deadline", "sim/a.go",
			`import "context"` + "\n" + `var f = context.WithTimeout`, "sim/a.go:3: context.WithTimeout"},
		{"global v2", "forecast/a.go", `import "math/rand/v2"` + "\n" + `var x = rand.Float64()`,
			"forecast/a.go:3: math/rand/v2.Float64: randomness in the core"},
		{"generic v2", "forecast/a.go",
			`import "math/rand/v2"` + "\n" + `var x = rand.N[int](3)`, "a.go:3: math/rand/v2.N:"},
		{"global v1", "forecast/a.go", `import "math/rand"` + "\n" + `var x = rand.Intn(3)`, "a.go:3: math/rand.Intn:"},
		{"renamed rand", "forecast/a.go",
			`import r "math/rand/v2"` + "\n" + `var x = r.IntN(3)`, "a.go:3: math/rand/v2.IntN:"},
		{"dot rand", "forecast/a.go",
			`import . "math/rand/v2"` + "\n" + `var x = IntN(3)`, "a.go:2: imports math/rand/v2 with a dot"},
		{"crypto", "planner/a.go",
			`import r "crypto/rand"` + "\n" + `var x = r.Reader`, "planner/a.go:2: imports crypto/rand"},
		{"maphash", "planner/a.go", `import "hash/maphash"`, "planner/a.go:2: imports hash/maphash"},
		{"os", "planner/report/a.go", `import "os"`, "planner/report/a.go:2: imports os: the core performs no I/O"},
		{"os below", "planner/a.go", `import "os/signal"`, "planner/a.go:2: imports os/signal"},
		{"net", "coldstart/a.go", `import "net"`, "coldstart/a.go:2: imports net:"},
		{"broken", "coldstart/a.go", `func {`, "does not parse"},

		{"durations and dates", "sim/a.go",
			`import "time"` + "\n" + `var t = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Hour)`, ""},
		{"seeded", "sim/a.go",
			`import "math/rand/v2"` + "\n" + `func f(s uint64) *rand.Rand { return rand.New(rand.NewPCG(s, 1)) }`, ""},
		{"variable called rand", "sim/a.go",
			`import r "math/rand/v2"` + "\n" + `func f(rand *r.Rand) float64 { return rand.Float64() }`, ""},
		{"variable hides the import", "sim/a.go",
			`import "math/rand/v2"` + "\n" + `func f(rand *rand.Rand) float64 { return rand.Float64() }`, ""},
		{"method called Now", "sim/a.go", `func f(w interface{ Now() int }) int { return w.Now() }`, ""},
		{"random test", "sim/a_test.go", `import "math/rand/v2"` + "\n" + `var x = rand.Float64()`, ""},
		{"file in a test", "sim/a_test.go", `import "os"` + "\n" + `var x = os.Args`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := checkCoreSource(tt.file, []byte("package p\n"+tt.src+"\n"))
			if tt.want != "" {
				wantFinding(t, got, tt.want)
			} else if got != nil {
				t.Errorf("sound source has findings:\n%s", strings.Join(got, "\n"))
			}
		})
	}
}

// TestRulesCatchEveryName holds each entry of the clock and constructor lists against the check.
func TestRulesCatchEveryName(t *testing.T) {
	for _, tt := range []struct {
		names map[string][]string
		found bool
	}{{clockNames, true}, {seededNames, false}} {
		for imported, names := range tt.names {
			for _, name := range names {
				src := "package p\nimport x \"" + imported + "\"\nvar _ = x." + name + "\n"
				if got := checkCoreSource("sim/a.go", []byte(src)); (len(got) == 1) != tt.found {
					t.Errorf("%s.%s: got findings %q, want one: %t", imported, name, got, tt.found)
				}
			}
		}
	}
}

func TestRulesKnowTheCore(t *testing.T) {
	for name, want := range map[string]bool{
		"forecast/a.go": true, "coldstart/a.go": true, "planner/a.go": true, "planner/report/a.go": true,
		"sim/a_test.go": true,
		"scaler/a.go":   false, "simple/a.go": false, "cmd/forewarm/forecast.go": false, "configs/a.go": false,
	} {
		if got := inCore(name); got != want {
			t.Errorf("inCore(%q) = %t, want %t", name, got, want)
		}
	}
}

func TestRulesCatchNames(t *testing.T) {
	for _, name := range vagueNames {
		wantFinding(t, checkNames("sim/a.go", []byte("package "+name+"\n")), "sim/a.go:1: package "+name)
		wantFinding(t, checkNames("sim/a_test.go", []byte("package "+name+"_test\n")), "sim/a_test.go:1: package "+name)
		wantFinding(t, checkNames("sim/"+name+"/a.go", []byte("package arrivals\n")), "folder "+name)
	}
	wantFinding(t, checkNames("sim/a.go", nil), "no package clause")
	if got := checkNames("sim/utilisation.go", []byte("package sim\n")); got != nil {
		t.Errorf("sound name has findings: %q", got)
	}
}

func TestRulesCatchLength(t *testing.T) {
	long := []byte(strings.Repeat("\n", lineLimit+1))
	wantFinding(t, checkLength("sim/a.go", long), "sim/a.go:501: 501 lines, allowed are 500")
	if got := checkLength("sim/a.go", long[:lineLimit]); got != nil {
		t.Errorf("a file at the limit has findings: %q", got)
	}
	if got := checkLength("sim/a_test.go", long); got != nil {
		t.Errorf("a test file has findings: %q", got)
	}
}

func TestRulesCatchFolders(t *testing.T) {
	gitignore := "/bin/\n/*-data/\npkg/\n/internal\n"
	for _, name := range []string{"pkg", "kg", "internal", "docs", "bins"} {
		wantFinding(t, checkFolders([]string{"cmd", name}, gitignore), name+"/: no such folder in the layout")
	}
	if got := checkFolders(append([]string{"bin", "demo-data"}, topFolders...), gitignore); got != nil {
		t.Errorf("known and ignored folders have findings: %q", got)
	}
}

func TestRulesCatchTools(t *testing.T) {
	const staticcheck = `"Tool":[{"Path":"honnef.co/go/tools/cmd/staticcheck"}]`
	const pin = `"Require":[{"Path":"honnef.co/go/tools","Version":"v0.8.2"}]`
	for _, tt := range []struct{ name, mod, want string }{
		{"sound", `{` + pin + `,` + staticcheck + `}`, ""},
		{"no directive", `{` + pin + `}`, "no tool directive pins it"},
		{"no version", `{` + staticcheck + `}`, "no require directive pins its version"},
		{"replaced", `{` + pin + `,` + staticcheck + `,"Replace":[{"Old":{"Path":"example.com/a"}}]}`,
			"go.mod: replace example.com/a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var mod modFile
			if err := json.Unmarshal([]byte(tt.mod), &mod); err != nil {
				t.Fatal(err)
			}
			got := checkTools(mod)
			if tt.want != "" {
				wantFinding(t, got, tt.want)
			} else if got != nil {
				t.Errorf("a sound go.mod has findings: %q", got)
			}
		})
	}
}

func TestRulesCatchDownloads(t *testing.T) {
	for _, line := range []string{"go install example.com/x@latest", "go run example.com/x@v1.2.3 ./...",
		"go get example.com/x@v1", "curl -L https://example.com", "wget example.com"} {
		wantFinding(t, checkDownloads("Makefile", []byte("all:\n\t"+line+"\n")), "Makefile:2: ")
	}
	sound := "test:\n\t@go test ./...\n\tgo run ./cmd/forewarmd --demo\n\tgo tool staticcheck ./...\n"
	if got := checkDownloads("Makefile", []byte(sound)); got != nil {
		t.Errorf("a sound Makefile has findings: %q", got)
	}
}

// wantFinding fails unless one of the findings contains want.
func wantFinding(t *testing.T, got []string, want string) {
	t.Helper()
	for _, f := range got {
		if strings.Contains(f, want) {
			return
		}
	}
	t.Errorf("no finding contains %q; got %d:\n%s", want, len(got), strings.Join(got, "\n"))
}
