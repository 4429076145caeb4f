package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The console blocks of the examples' README print what the commands in them print, and every example has one. With
// -rewrite (datadriven's) they are written anew; read the difference.
func TestExamples(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	dir := filepath.Join("configs", "examples")
	readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	ran := map[string]bool{}
	now := string(readme)
	for _, block := range strings.Split(string(readme), "```console\n$ ")[1:] {
		block, _, closed := strings.Cut(block, "```\n")
		command, want, _ := strings.Cut(block, "\n")
		args := strings.Fields(command)
		if !closed || len(args) < 4 || args[0] != "forewarm" {
			t.Fatalf("a block does not begin with a forewarm command:\n%s", block)
		}
		code, got, errs := forewarm(args[1:]...)
		now = strings.Replace(now, "$ "+command+"\n"+want+"```", "$ "+command+"\n"+got+"```", 1)
		if code != 0 || got != want && !rewriting() {
			t.Errorf("%s exits with %d and prints\n%s%s\nREADME has\n%s", command, code, got, errs, want)
		}
		ran[args[3]] = true
	}
	if rewriting() {
		if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	states, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(states) < 5 {
		t.Fatalf("%d examples (%v)", len(states), err)
	}
	for _, s := range states {
		if !ran[filepath.ToSlash(s)] {
			t.Errorf("%s is not in the README", s)
		}
	}
}

func rewriting() bool {
	f := flag.Lookup("rewrite")
	return f != nil && f.Value.String() == "true"
}
