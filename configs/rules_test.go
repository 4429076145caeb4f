package configs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// The rules of this repository, as a test: who may import whom, no clock and no global randomness in the core, names,
// file sizes, folders, pinned tools. `make check` runs them alone, `make test` with everything else.
//
// The checks are functions of data (an import graph, a source file, a list of folders) in rules_imports_test.go and
// rules_source_test.go; this file reads the data from the checkout. rules_broken_test.go feeds each check something
// broken, so that a rule that stopped catching anything fails there.

// repoRoot is where go test finds the repository from this package's folder.
const repoRoot = ".."

// topFolders are the folders that the layout knows; no other may stand at the top of the repository.
var topFolders = []string{".ci", ".git", "cmd", "coldstart", "configs", "forecast", "planner", "scaler", "sim"}

// TestRules checks the checkout and reports every violation at once.
func TestRules(t *testing.T) {
	graph, findings := loadGraph(t)
	if len(graph.own()) == 0 {
		t.Fatalf("go list found no package of module %s: nothing was checked", module)
	}
	findings = append(findings, checkImports(graph)...)

	coreFiles := 0
	for _, name := range goFiles(t) {
		src := read(t, name)
		findings = append(findings, checkNames(name, src)...)
		findings = append(findings, checkLength(name, src)...)
		if inCore(name) {
			coreFiles++
			findings = append(findings, checkCoreSource(name, src)...)
		}
	}
	if coreFiles == 0 {
		t.Fatalf("no Go file found under %s: nothing was checked", strings.Join(coreTrees, ", "))
	}

	findings = append(findings, checkFolders(folders(t), string(read(t, ".gitignore")))...)
	findings = append(findings, checkTools(goMod(t))...)
	for _, name := range []string{"Makefile", ".ci/run"} {
		findings = append(findings, checkDownloads(name, read(t, name))...)
	}
	for _, f := range findings {
		t.Error(f)
	}
}

// loadGraph asks go list for every package of the module and all that they reach, without test imports. A package of
// the module that does not load is a finding: its imports are unknown, which is not the same as none.
func loadGraph(t *testing.T) (importGraph, []string) {
	t.Helper()
	out := goCommand(t, "list", "-e", "-deps", "-buildvcs=false",
		"-json=ImportPath,Imports,ImportMap,Error", "./...")
	var findings []string
	graph := importGraph{}
	for dec := json.NewDecoder(strings.NewReader(out)); ; {
		var p listedPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return graph, findings
		} else if err != nil {
			t.Fatalf("reading the output of go list: %v", err)
		}
		graph[p.ImportPath] = p.imports()
		if within(p.ImportPath, module) && p.Error != nil {
			findings = append(findings, fmt.Sprintf("%s: does not load: %s", p.ImportPath, p.Error.Err))
		}
	}
}

// listedPackage is the part of go list's answer that the rules read.
type listedPackage struct {
	ImportPath string
	Imports    []string
	ImportMap  map[string]string // from the path in the source to the package, where they differ
	Error      *struct{ Err string }
}

func (p listedPackage) imports() []string {
	var resolved []string
	for _, path := range p.Imports {
		if mapped, ok := p.ImportMap[path]; ok {
			path = mapped
		}
		resolved = append(resolved, path)
	}
	return resolved
}

func goMod(t *testing.T) modFile {
	t.Helper()
	var mod modFile
	if err := json.Unmarshal([]byte(goCommand(t, "mod", "edit", "-json")), &mod); err != nil {
		t.Fatalf("reading go.mod: %v", err)
	}
	return mod
}

func goCommand(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = repoRoot
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

// goFiles lists the Go files under the folders of the layout, whatever their build tags, by path from the root.
func goFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, top := range topFolders {
		err := filepath.WalkDir(filepath.Join(repoRoot, top), func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")) {
				return fs.SkipDir
			}
			if d.Type().IsRegular() && path.Ext(name) == ".go" {
				rel, err := filepath.Rel(repoRoot, name)
				files = append(files, filepath.ToSlash(rel))
				return err
			}
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("walking %s: %v", top, err)
		}
	}
	return files
}

func folders(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(repoRoot)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(repoRoot, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return src
}
