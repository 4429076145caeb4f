package journal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var saved = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

func openSnapshots(t *testing.T, dir string) *Snapshots {
	t.Helper()
	s, err := OpenSnapshots(dir, saved)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Names that are no file names are kept apart, the last write counts, and another basis is not served.
func TestSnapshotsRoundTrip(t *testing.T) {
	dir := t.TempDir()
	s := openSnapshots(t, dir)
	for _, model := range []string{"chat-70b", "org/chat:70b", "../chat", strings.Repeat("ü", 200), "."} {
		if data, err := s.Read(model, "b", saved); data != nil || err != nil {
			t.Errorf("%q before: %q, %v", model, data, err)
		}
		for _, data := range []string{"older " + model, model} {
			if err := s.Write(model, "b", saved, []byte(data)); err != nil {
				t.Fatal(err)
			}
		}
	}
	s = openSnapshots(t, dir)
	for _, model := range []string{"chat-70b", "org/chat:70b", "../chat", strings.Repeat("ü", 200), "."} {
		if data, err := s.Read(model, "b", saved); err != nil || string(data) != model {
			t.Errorf("%q: %q, %v", model, data, err)
		}
		if data, err := s.Read(model, "other", saved); data != nil || err != nil {
			t.Errorf("%q of another basis: %q, %v", model, data, err)
		}
	}
	entries, err := os.ReadDir(filepath.Join(dir, snapshotFolder))
	if err != nil || len(entries) != 5 {
		t.Errorf("%d files, %v: want one a model", len(entries), err)
	}
}

// Whatever byte is changed and wherever the file is cut, it is set aside with its bytes untouched and not read again.
func TestDamagedSnapshotIsSetAside(t *testing.T) {
	s := openSnapshots(t, t.TempDir())
	write := func() []byte {
		if err := s.Write("chat", "b", saved, []byte("some data")); err != nil {
			t.Fatal(err)
		}
		whole, err := os.ReadFile(s.path("chat"))
		if err != nil {
			t.Fatal(err)
		}
		return whole
	}
	check := func(what string, damaged []byte, says string) {
		t.Helper()
		if err := os.WriteFile(s.path("chat"), damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		data, err := s.Read("chat", "b", saved)
		var aside *Aside
		if data != nil || !errors.As(err, &aside) || !strings.Contains(aside.Why, says) {
			t.Fatalf("%s: %q, %v, want %q", what, data, err, says)
		}
		if kept, err := os.ReadFile(aside.Aside); err != nil || !bytes.Equal(kept, damaged) {
			t.Errorf("%s: what was set aside is %q, %v", what, kept, err)
		}
		if data, err := s.Read("chat", "b", saved); data != nil || err != nil {
			t.Errorf("%s: then %q, %v", what, data, err)
		}
	}
	whole := write()
	for i := range whole {
		damaged := bytes.Clone(whole)
		damaged[i] ^= 1
		check("a flipped bit", damaged, "")
	}
	for n := range whole {
		check("cut", whole[:n], "")
	}
	check("another version", bytes.Replace(whole, []byte("snapshot 1"), []byte("snapshot 2"), 1), `is of another version: "forewarm-snapshot 2"`)
	check("another program's", []byte("SQLite format 3\x00"), "is not a snapshot")
	write()
	if data, err := s.Read("chat", "b", saved); err != nil || string(data) != "some data" {
		t.Errorf("a fresh one after all: %q, %v", data, err)
	}
}

// A write that fails leaves the old snapshot and no litter; what nobody writes any more is removed in the end.
func TestSnapshotsStayWhole(t *testing.T) {
	dir := t.TempDir()
	s := openSnapshots(t, dir)
	if err := s.Write("chat", "b", saved, []byte("old")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(s.path("chat")+".new", 0o700); err != nil { // in the way, for root as well
		t.Fatal(err)
	}
	if err := s.Write("chat", "b", saved, []byte("new")); err == nil || !strings.Contains(err.Error(), "snapshot of chat") {
		t.Errorf("a write that cannot be: %v", err)
	}
	if data, err := s.Read("chat", "b", saved); err != nil || string(data) != "old" {
		t.Errorf("after a write that failed: %q, %v", data, err)
	}
	now := time.Now()
	if err := os.Chtimes(s.path("chat"), now, now.Add(-snapshotKeep)); err != nil {
		t.Fatal(err)
	}
	if s, err := OpenSnapshots(dir, now.Add(time.Minute)); err != nil {
		t.Fatal(err)
	} else if data, err := s.Read("chat", "b", saved); data != nil || err != nil {
		t.Errorf("after %v: %q, %v", snapshotKeep, data, err)
	}
	if _, err := OpenSnapshots(s.path("x")+"/\x00", saved); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a folder that cannot be: %v", err)
	}
}
