package journal

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"forewarm/planner"
)

// writtenTicks is how many Decisions the journal of written has.
const writtenTicks = 20

// written makes a closed journal of a few Decisions and returns its directory and the last Decision. A journal closed in
// order is one file, so the first one made is copied for the others.
func written(tb testing.TB) (string, planner.Decision) {
	tb.Helper()
	dir := tb.TempDir()
	path := filepath.Join(dir, fileName)
	if writtenFile == nil {
		j, _ := mustOpen(tb, dir, Options{})
		for n := range writtenTicks {
			d := numbered(n + 1)
			mustAppend(tb, j, planner.State{Now: d.At}, planner.Policy{}, d)
		}
		if err := j.Close(); err != nil {
			tb.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			tb.Fatal(err)
		}
		writtenFile = data
	}
	for name, data := range map[string][]byte{path: writtenFile, filepath.Join(dir, lockName): nil} {
		if err := os.WriteFile(name, data, 0o644); err != nil {
			tb.Fatal(err)
		}
	}
	return dir, numbered(writtenTicks)
}

// writtenFile is used by tests that do not run in parallel.
var writtenFile []byte

// execute runs statements on a database file as another program would.
func execute(tb testing.TB, path string, statements ...string) {
	tb.Helper()
	db, err := sql.Open("sqlite", dataSource(path, modeCreate))
	if err != nil {
		tb.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			tb.Fatalf("%s: %v", s, err)
		}
	}
	if err := db.Close(); err != nil {
		tb.Fatal(err)
	}
}

// Whatever is wrong with the file: it is set aside with its bytes untouched, the Report and the log say why, and the
// journal that was started instead works.
func TestSetAside(t *testing.T) {
	edit := func(change func([]byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, change(data), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	statement := func(s ...string) func(*testing.T, string) {
		return func(t *testing.T, path string) { execute(t, path, s...) }
	}
	for _, test := range []struct {
		name   string
		damage func(*testing.T, string)
		why    string
	}{
		{"empty", edit(func([]byte) []byte { return nil }), "is torn: 0 bytes"},
		{"cut in the header", edit(func(b []byte) []byte { return b[:50] }), "is torn: 50 bytes"},
		{"cut in the middle", edit(func(b []byte) []byte { return b[:len(b)/2] }), "is damaged"},
		{"no SQLite file", edit(func(b []byte) []byte { return bytes.Repeat([]byte("log line\n"), 1000) }), "not a SQLite file"},
		{"zeroed page", edit(func(b []byte) []byte { clear(b[2*pageSize : 6*pageSize]); return b }), "is damaged"},
		{"older file format", edit(func(b []byte) []byte { b[18], b[19] = 1, 1; return b }), "not a forewarm journal"},
		{"another program's", statement("PRAGMA application_id = 252006675"), "another program's SQLite file"},
		{"newer version", statement("PRAGMA user_version = 7"), "newer forewarm: schema version 7, this one reads 1"},
		{"version 0", statement("PRAGMA user_version = 0"), "schema version 0"},
		{"a table more", statement("CREATE TABLE x (y)"), "has other tables"},
		{"a trigger", statement("CREATE TRIGGER x AFTER INSERT ON ticks BEGIN DELETE FROM memory; END"), "has other tables"},
		{"a table less", statement("DROP TABLE starts"), "has other tables"},
		{"memory lost", statement("DELETE FROM memory"), "the memory is of record 0"},
		{"decision lost", statement("DELETE FROM ticks WHERE seq = 20"), "the last decision is record 19"},
		{"flipped bit in a plan", statement("UPDATE plans SET payload = zeroblob(9) WHERE seq = 20"), "is damaged"},
		{"base lost", statement("DELETE FROM plans WHERE seq = 1"), "its base, record 1, is missing"},
		{"only the log is left", func(t *testing.T, path string) {
			if err := errors.Join(os.WriteFile(path+"-wal", []byte("log"), 0o644), os.Remove(path)); err != nil {
				t.Fatal(err)
			}
		}, "is missing, but its log"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir, _ := written(t)
			path := filepath.Join(dir, fileName)
			test.damage(t, path)
			before := filesOf(t, path)

			var logged bytes.Buffer
			j, report, err := Open(dir, Options{}, monday, slog.New(slog.NewTextHandler(&logged, nil)))
			if err != nil {
				t.Fatal(err)
			}
			defer j.Close()
			if !strings.Contains(report.Why, test.why) || !report.Created {
				t.Errorf("report is %+v, must say %q", report, test.why)
			}
			if want := path + ".aside-20260302T090000Z"; report.Aside != want {
				t.Errorf("set aside as %s, must be %s", report.Aside, want)
			}
			if !strings.Contains(logged.String(), "level=ERROR") || !strings.Contains(logged.String(), report.Aside) {
				t.Errorf("log is %q, must be an error that names the file", logged.String())
			}
			for suffix, data := range before {
				if after := filesOf(t, report.Aside)[suffix]; !bytes.Equal(after, data) {
					t.Errorf("file %q set aside has %d bytes that are not the %d found", suffix, len(after), len(data))
				}
			}
			d := numbered(1)
			mustAppend(t, j, planner.State{Now: d.At}, planner.Policy{}, d)
			if got := mustLast(t, j.Reader); asJSON(t, got) != asJSON(t, d) {
				t.Error("the fresh journal does not give back what it was given")
			}
		})
	}
}

// filesOf reads a database and its log, by ending. Shared memory holds nothing of its own.
func filesOf(tb testing.TB, path string) map[string][]byte {
	tb.Helper()
	files := map[string][]byte{}
	for _, suffix := range []string{"", "-journal", "-wal"} {
		data, err := os.ReadFile(path + suffix)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			tb.Fatal(err)
		}
		files[suffix] = data
	}
	return files
}

// Two files set aside in one second get two names.
func TestSetAsideTwice(t *testing.T) {
	dir := t.TempDir()
	var asides []string
	for _, content := range []string{"first", "second", "third"} {
		if err := os.WriteFile(filepath.Join(dir, fileName), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		j, report := mustOpen(t, dir, Options{})
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		kept, err := os.ReadFile(report.Aside)
		if err != nil || string(kept) != content {
			t.Errorf("%s holds %q, error %v, must hold %q", report.Aside, kept, err, content)
		}
		asides = append(asides, filepath.Base(report.Aside))
	}
	if want := "journal.db.aside-20260302T090000Z journal.db.aside-20260302T090000Z.2 journal.db.aside-20260302T090000Z.3"; strings.Join(asides, " ") != want {
		t.Errorf("set aside as %v, must be %s", asides, want)
	}
}

func TestUnavailable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	occupied := t.TempDir()
	if err := os.Mkdir(filepath.Join(occupied, fileName), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, dir, want string }{
		{"a file in the place of the directory", file, file},
		{"a file above it", filepath.Join(file, "deep", "er"), file},
		{"a directory in the place of the file", occupied, "is not a regular file"},
	} {
		j, _, err := Open(test.dir, Options{}, monday, nil)
		if j != nil || !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error is %v, must be ErrUnavailable and say %q", test.name, err, test.want)
		}
	}
}

// A second writer is refused and told who is there; the first goes on undisturbed, and after it the next may write.
func TestOneWriter(t *testing.T) {
	dir := t.TempDir()
	j, _ := mustOpen(t, dir, Options{})
	_, _, err := Open(dir, Options{}, monday, nil)
	if !errors.Is(err, ErrLocked) || errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("error is %v, must be ErrLocked and name the directory", err)
	}
	s, p, d := newFleet(2, 3, 12).next(t)
	mustAppend(t, j, s, p, d)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j, _ = mustOpen(t, dir, Options{})
	if got := mustLast(t, j.Reader); asJSON(t, got) != asJSON(t, d) {
		t.Error("the first writer's decision is gone")
	}
}

func TestOpenReadOnly(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenReadOnly(dir); !errors.Is(err, ErrNoJournal) || !strings.Contains(err.Error(), dir) {
		t.Errorf("empty directory: error is %v, must be ErrNoJournal and name it", err)
	}
	if _, err := OpenReadOnly(filepath.Join(dir, "nowhere")); !errors.Is(err, ErrNoJournal) {
		t.Errorf("no directory: error is %v, must be ErrNoJournal", err)
	}
	for _, test := range []struct{ statement, want string }{
		{"PRAGMA user_version = 9", "schema version 9"},
		{"PRAGMA application_id = 1", "another program's"},
		{"DROP TABLE starts", "other tables"},
	} {
		damaged, _ := written(t)
		execute(t, filepath.Join(damaged, fileName), test.statement)
		if _, err := OpenReadOnly(damaged); !errors.Is(err, ErrNoJournal) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error is %v, must be ErrNoJournal and say %q", test.statement, err, test.want)
		}
	}

	// A path with everything that means something in a URI.
	odd := filepath.Join(dir, "a b?c#d%20e&f=g")
	j, _ := mustOpen(t, odd, Options{})
	r, err := OpenReadOnly(odd)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f := newFleet(2, 3, 12)
	for range 3 {
		s, p, d := f.next(t)
		mustAppend(t, j, s, p, d)
		if got := mustLast(t, r); asJSON(t, got) != asJSON(t, d) {
			t.Error("a reader does not see what was just appended")
		}
	}
	if _, err := r.db.ExecContext(context.Background(), "DELETE FROM memory"); err == nil {
		t.Error("a reader may write")
	}
}

// FuzzOpen puts arbitrary bytes in the place of the journal and its log: Open never panics, always gives a journal that
// works, and what it did not take over lies aside unchanged.
func FuzzOpen(f *testing.F) {
	dir, _ := written(f)
	sound, err := os.ReadFile(filepath.Join(dir, fileName))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{}, []byte{})
	f.Add([]byte("not a database"), []byte("nor a log"))
	f.Add(sound, []byte{})
	f.Add(sound[:len(sound)/2], []byte{})
	for _, at := range []int{16, 18, 20, 21, 28, 31, 44, 47, 56, 59, 60, 68, 100, 105, pageSize + 2, 3*pageSize + 5, 5*pageSize + 1} {
		damaged := bytes.Clone(sound)
		damaged[at] ^= 0x55
		f.Add(damaged, []byte{0x37, 0x7f, 0x06, 0x82})
	}
	f.Fuzz(func(t *testing.T, file, log []byte) {
		dir := t.TempDir()
		path := filepath.Join(dir, fileName)
		if err := errors.Join(os.WriteFile(path, file, 0o644), os.WriteFile(path+"-wal", log, 0o644)); err != nil {
			t.Fatal(err)
		}
		j, report, err := Open(dir, Options{}, monday, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		if report.Created != (report.Aside != "") || (report.Aside != "") != (report.Why != "") {
			t.Fatalf("report contradicts itself: %+v", report)
		}
		if report.Aside != "" {
			for suffix, want := range map[string][]byte{"": file, "-wal": log} {
				if got := filesOf(t, report.Aside)[suffix]; !bytes.Equal(got, want) {
					t.Fatalf("file %q set aside has other bytes than were found (%s)", suffix, report.Why)
				}
			}
		}
		d := planner.Decision{At: monday, Models: []planner.ModelDecision{{Name: "a"}}}
		mustAppend(t, j, planner.State{Now: monday}, planner.Policy{}, d)
		if got := mustLast(t, j.Reader); asJSON(t, got) != asJSON(t, d) {
			t.Fatal("the journal does not give back what it was given")
		}
	})
}
