package configs_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// lineLimit is the longest that a Go file outside tests may be.
const lineLimit = 500

// clockNames are what the core may not take from a package because it reads the clock or waits for it, tests included.
var clockNames = map[string][]string{
	"time":    {"Now", "Since", "Until", "Sleep", "After", "Tick", "NewTimer", "NewTicker", "AfterFunc"},
	"context": {"WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause"},
}

// seededNames are all that the core may take from the random packages: types and constructors of seeded sources. Any
// other top-level name draws from the process-wide source.
var seededNames = map[string][]string{
	"math/rand":    {"New", "NewSource", "NewZipf", "Rand", "Source", "Source64", "Zipf"},
	"math/rand/v2": {"New", "NewPCG", "NewChaCha8", "NewZipf", "Rand", "Source", "PCG", "ChaCha8", "Zipf"},
}

// randomImports are random by themselves, however they are used.
var randomImports = []string{"crypto/rand", "hash/maphash"}

// outsideImports reach outside the process; the core takes an io.Reader instead.
var outsideImports = []string{"os", "net", "io/ioutil", "syscall"}

// inCore reports whether a file, by its path from the root, belongs to the core.
func inCore(name string) bool { return withinAny(path.Dir(name), coreTrees) }

func isTest(name string) bool { return strings.HasSuffix(name, "_test.go") }

// checkCoreSource returns, by file and line, each use of the clock, and outside tests each use of global randomness and
// each import of what performs I/O. It follows import names, so that a renamed import is seen, and scopes, so that a
// variable called rand is not mistaken for the package.
func checkCoreSource(name string, src []byte) []string {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, 0)
	if err != nil {
		return []string{fmt.Sprintf("does not parse, so its clock and randomness are unknown: %v", err)}
	}
	c := coreFile{name: name, fset: fset, imports: map[string]string{}}
	for _, spec := range file.Imports {
		c.importSpec(spec)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			c.selector(sel)
		}
		return true
	})
	return c.findings
}

type coreFile struct {
	name     string
	fset     *token.FileSet
	imports  map[string]string // local name to import path, of the packages that are looked at
	findings []string
}

func (c *coreFile) report(pos token.Pos, format string, args ...any) {
	p := c.fset.Position(pos)
	c.findings = append(c.findings, fmt.Sprintf("%s:%d: ", c.name, p.Line)+fmt.Sprintf(format, args...))
}

func (c *coreFile) importSpec(spec *ast.ImportSpec) {
	imported, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		c.report(spec.Pos(), "import path %s: %v", spec.Path.Value, err)
		return
	}
	if !isTest(c.name) {
		if slices.Contains(randomImports, imported) {
			c.report(spec.Pos(), "imports %s: randomness in the core is a seeded *rand.Rand argument", imported)
		}
		if slices.Contains(outsideImports, imported) || strings.HasPrefix(imported, "os/") {
			c.report(spec.Pos(), "imports %s: the core performs no I/O except on an io.Reader argument", imported)
		}
	}
	if clockNames[imported] == nil && seededNames[imported] == nil {
		return
	}
	local := path.Base(strings.TrimSuffix(imported, "/v2"))
	if spec.Name != nil {
		local = spec.Name.Name
	}
	switch local {
	case ".":
		c.report(spec.Pos(), "imports %s with a dot, which hides its uses from this check", imported)
	default:
		c.imports[local] = imported
	}
}

func (c *coreFile) selector(sel *ast.SelectorExpr) {
	x, ok := sel.X.(*ast.Ident)
	if !ok || x.Obj != nil { // Obj is set when the name is declared in this file: a variable, not the import
		return
	}
	imported, name := c.imports[x.Name], sel.Sel.Name
	if slices.Contains(clockNames[imported], name) {
		c.report(sel.Pos(), "%s.%s: in the core time comes in as an argument", imported, name)
	}
	if seeded := seededNames[imported]; seeded != nil && !isTest(c.name) && !slices.Contains(seeded, name) {
		c.report(sel.Pos(), "%s.%s: randomness in the core is a seeded *rand.Rand argument", imported, name)
	}
}

var vagueNames = []string{"util", "utils", "common", "helper", "helpers", "misc"}

// checkNames returns a finding for a package or folder whose name says nothing about what is in it.
func checkNames(name string, src []byte) []string {
	var findings []string
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.PackageClauseOnly)
	if err != nil {
		return []string{fmt.Sprintf("no package clause: %v", err)}
	}
	if pkg := strings.TrimSuffix(file.Name.Name, "_test"); slices.Contains(vagueNames, pkg) {
		findings = append(findings, fmt.Sprintf("%s:%d: package %s: name it after what it does",
			name, fset.Position(file.Name.Pos()).Line, pkg))
	}
	for _, folder := range strings.Split(path.Dir(name), "/") {
		if slices.Contains(vagueNames, folder) {
			findings = append(findings, fmt.Sprintf("%s:1: folder %s: name it after what it does", name, folder))
		}
	}
	return findings
}

// checkLength returns a finding when a file outside tests is longer than lineLimit.
func checkLength(name string, src []byte) []string {
	lines := bytes.Count(src, []byte("\n"))
	if isTest(name) || lines <= lineLimit {
		return nil
	}
	return []string{fmt.Sprintf("%s:%d: %d lines, allowed are %d", name, lineLimit+1, lines, lineLimit)}
}

// checkFolders returns a finding for each folder at the top that the layout does not know and .gitignore does not
// exclude there (a line "/name/", which may hold a pattern).
func checkFolders(names []string, gitignore string) []string {
	var findings []string
	for _, name := range names {
		if slices.Contains(topFolders, name) || ignored(name, gitignore) {
			continue
		}
		findings = append(findings, fmt.Sprintf("%s/: no such folder in the layout; allowed at the top are %s",
			name, strings.Join(topFolders, ", ")))
	}
	return findings
}

func ignored(folder, gitignore string) bool {
	for line := range strings.Lines(gitignore) {
		line = strings.TrimSpace(line)
		if len(line) < 3 || line[0] != '/' || line[len(line)-1] != '/' {
			continue
		}
		if ok, err := path.Match(line[1:len(line)-1], folder); ok && err == nil {
			return true
		}
	}
	return false
}

// modFile is the part of `go mod edit -json` that the rules read.
type modFile struct {
	Require []struct{ Path, Version string }
	Replace []struct{ Old struct{ Path string } }
	Tool    []struct{ Path string }
}

// requiredTools are the tools that the Makefile runs.
var requiredTools = []string{"honnef.co/go/tools/cmd/staticcheck"}

// checkTools returns a finding for each tool that go.mod does not pin, and for each replace directive.
func checkTools(mod modFile) []string {
	var findings, tools []string
	for _, tool := range mod.Tool {
		tools = append(tools, tool.Path)
		pinned := false
		for _, r := range mod.Require {
			pinned = pinned || within(tool.Path, r.Path) && r.Version != ""
		}
		if !pinned {
			findings = append(findings, fmt.Sprintf("go.mod: tool %s: no require directive pins its version", tool.Path))
		}
	}
	for _, tool := range requiredTools {
		if !slices.Contains(tools, tool) {
			findings = append(findings, fmt.Sprintf("go.mod: tool %s: the Makefile runs it and no tool directive pins it", tool))
		}
	}
	for _, r := range mod.Replace {
		findings = append(findings, fmt.Sprintf("go.mod: replace %s: every version comes from a require directive",
			r.Old.Path))
	}
	return findings
}

// unpinned matches commands that fetch a tool past go.mod.
var unpinned = regexp.MustCompile(`\bgo (install|run|get)\s+\S+@|\b(curl|wget)\b`)

// checkDownloads returns a finding for each line of a script that fetches something that go.mod does not pin.
func checkDownloads(name string, src []byte) []string {
	var findings []string
	line := 0
	for text := range strings.Lines(string(src)) {
		line++
		if m := unpinned.FindString(text); m != "" {
			findings = append(findings, fmt.Sprintf("%s:%d: %q fetches what go.mod does not pin; use a tool directive",
				name, line, m))
		}
	}
	return findings
}
