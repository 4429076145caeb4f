package configs_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const module = "forewarm"

// coreTrees decide; they do no I/O, read no clock and draw no global random number. planner/report lies in planner.
var coreTrees = []string{"forecast", "coldstart", "planner", "sim"}

// adapters each speak to one outside system.
var adapters = []string{"scaler/journal", "scaler/keda", "scaler/prom", "scaler/kube", "scaler/web"}

// endToEnd boots everything; its files are tests, whatever they are called.
const endToEnd = "scaler/e2e"

// importGraph maps each package to its direct imports, without those of its tests.
type importGraph map[string][]string

// own returns the packages of the module, sorted, by path from the root of the repository.
func (g importGraph) own() []string {
	var paths []string
	for pkg := range g {
		if within(pkg, module) {
			paths = append(paths, strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/"))
		}
	}
	slices.Sort(paths)
	return paths
}

// within reports whether path is tree or lies under it.
func within(path, tree string) bool {
	return path == tree || strings.HasPrefix(path, tree+"/")
}

func withinAny(path string, trees []string) bool {
	return slices.ContainsFunc(trees, func(tree string) bool { return within(path, tree) })
}

// qualify turns paths from the root of the repository into import paths.
func qualify(paths ...string) []string {
	var qualified []string
	for _, p := range paths {
		qualified = append(qualified, module+"/"+p)
	}
	return qualified
}

// reachRule forbids the packages of one set to reach, over any number of imports, the packages of another.
type reachRule struct {
	from   []string // trees, from the root of the repository
	except []string // trees inside from that the rule leaves alone
	only   bool     // from names packages, not trees
	to     []string // trees, by import path
	why    string
}

func (r reachRule) applies(pkg string) bool {
	rel, own := strings.CutPrefix(pkg, module+"/")
	switch {
	case !own, withinAny(rel, r.except):
		return false
	case r.only:
		return slices.Contains(r.from, rel)
	}
	return withinAny(rel, r.from)
}

func reachRules() []reachRule {
	rules := []reachRule{
		{from: []string{"forecast"}, to: qualify("coldstart"), why: "forecast and coldstart do not import each other"},
		{from: []string{"coldstart"}, to: qualify("forecast"), why: "forecast and coldstart do not import each other"},
		{
			from: coreTrees,
			to: []string{"net/http", "google.golang.org/grpc", "k8s.io", "sigs.k8s.io", "github.com/prometheus",
				"os/exec", "database/sql"},
			why: "the core reaches no network, cluster, process or database",
		},
		{
			from: coreTrees, except: []string{"sim", "planner/report"}, to: qualify("sim", "scaler", "planner/report"),
			why: "the core does not know who calls it",
		},
		{from: []string{"sim"}, to: qualify("scaler", "planner/report"), why: siblings},
		{from: []string{"planner/report"}, to: qualify("scaler", "sim"), why: siblings},
		{from: []string{"scaler"}, except: []string{endToEnd}, to: qualify("sim", "planner/report"), why: siblings},
		{from: []string{"scaler"}, only: true, to: qualify(adapters...), why: "only cmd wires adapters into the loop"},
		{
			from: []string{"cmd/forewarm"}, to: []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime"},
			why: "the offline CLI links no Kubernetes client",
		},
	}
	for _, a := range adapters {
		others := slices.DeleteFunc(slices.Clone(adapters), func(o string) bool { return o == a })
		rules = append(rules, reachRule{from: []string{a}, to: qualify(others...),
			why: "an adapter imports no other adapter"})
	}
	return rules
}

const siblings = "sim, scaler and planner/report import the core and never each other"

// checkImports returns every violation of the import rules with the shortest chain of imports that makes it.
func checkImports(g importGraph) []string {
	var findings []string
	for _, r := range reachRules() {
		findings = append(findings, r.check(g)...)
	}
	for _, pkg := range g.own() {
		findings = append(findings, checkWiring(g, pkg)...)
		findings = append(findings, checkLibraries(g, pkg)...)
	}
	return findings
}

func (r reachRule) check(g importGraph) []string {
	var findings []string
	for _, pkg := range qualify(g.own()...) {
		if !r.applies(pkg) {
			continue
		}
		for _, target := range r.to {
			chain := g.chain(pkg, target)
			// When the chain leads through another package under this rule, that package's own finding names the import
			// that has to go; repeating it for everybody above would bury it.
			if chain == nil || slices.ContainsFunc(chain[1:], r.applies) {
				continue
			}
			findings = append(findings, fmt.Sprintf("%s: %s", strings.Join(chain, " -> "), r.why))
		}
	}
	return findings
}

// chain returns the shortest path of imports from a package into a tree, both ends included, or nil when there is none.
// It does not leave from inside the tree: a package is not said to reach itself.
func (g importGraph) chain(from, tree string) []string {
	cameFrom := map[string]string{from: ""}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		for _, next := range g[queue[0]] {
			if _, seen := cameFrom[next]; seen {
				continue
			}
			cameFrom[next] = queue[0]
			if within(next, tree) {
				var chain []string
				for p := next; p != ""; p = cameFrom[p] {
					chain = append(chain, p)
				}
				slices.Reverse(chain)
				return chain
			}
			queue = append(queue, next)
		}
	}
	return nil
}

// checkWiring returns a finding when a package outside cmd brings two adapters together.
func checkWiring(g importGraph, pkg string) []string {
	if within(pkg, "cmd") || pkg == "scaler" || withinAny(pkg, adapters) || within(pkg, endToEnd) {
		return nil // scaler and the adapters have stricter rules of their own
	}
	var chains []string
	for _, a := range adapters {
		if chain := g.chain(module+"/"+pkg, module+"/"+a); chain != nil {
			chains = append(chains, strings.Join(chain, " -> "))
		}
	}
	if len(chains) < 2 {
		return nil
	}
	return []string{fmt.Sprintf("%s: only cmd imports more than one adapter: %s", pkg, strings.Join(chains, "; "))}
}

// clientLibraries names the libraries that speak to each outside system, by the adapter that alone may import them.
// Instrumentation (client_golang/prometheus) is no client and free to all.
var clientLibraries = map[string][]string{
	"scaler/journal": {"database/sql", "modernc.org/sqlite"},
	"scaler/keda":    {"google.golang.org/grpc", "github.com/kedacore/keda/v2/pkg"},
	"scaler/prom":    {"github.com/prometheus/client_golang/api"},
	"scaler/kube":    {"k8s.io", "sigs.k8s.io/controller-runtime", "sigs.k8s.io/kueue", "sigs.k8s.io/karpenter"},
}

// thirdParty lists, for the packages that only compute and for the one that links a whole ecosystem, all that they may
// import beside the standard library and themselves. planner/report is a renderer and not among them. Of Kueue, Karpenter
// and KEDA only the API types are there for scaler/kube.
var thirdParty = map[string][]string{
	"forecast":  {"gonum.org/v1/gonum", "github.com/teambition/rrule-go"},
	"coldstart": {"gonum.org/v1/gonum"},
	"planner":   {"gonum.org/v1/gonum", module + "/forecast", module + "/coldstart"},
	"scaler/kube": {"k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go", "sigs.k8s.io/controller-runtime",
		"sigs.k8s.io/kueue/apis", "sigs.k8s.io/karpenter/pkg/apis", "github.com/kedacore/keda/v2/apis",
		module + "/scaler", module + "/planner", module + "/coldstart"},
}

// checkLibraries returns a finding for each direct import of a library that is not this package's to import.
func checkLibraries(g importGraph, pkg string) []string {
	var findings []string
	for _, path := range g[module+"/"+pkg] {
		for _, owner := range slices.Sorted(maps.Keys(clientLibraries)) {
			if withinAny(pkg, adapters) && !within(pkg, owner) && withinAny(path, clientLibraries[owner]) {
				findings = append(findings, fmt.Sprintf("%s -> %s: an adapter imports one client library; this one is %s's",
					pkg, path, owner))
			}
		}
		for _, tree := range slices.Sorted(maps.Keys(thirdParty)) {
			allowed := append(qualify(tree), thirdParty[tree]...)
			if !within(pkg, tree) || within(pkg, "planner/report") || isStandard(path) || withinAny(path, allowed) {
				continue
			}
			findings = append(findings, fmt.Sprintf("%s -> %s: %s imports only the standard library, %s",
				pkg, path, tree, strings.Join(thirdParty[tree], ", ")))
		}
	}
	return findings
}

// isStandard tells the standard library by the rule that go itself uses: its first path element has no dot. The module's
// own path has none either.
func isStandard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".") && first != module
}
