package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Snapshots keeps one file per model beside the journal: what forecasters have learned, so that a restart need not
// read weeks of history. They are derived data: removing the folder costs nothing but that reading. One process
// writes them, the one that holds the journal; it is not safe for concurrent use on one model.
//
// A file is a line with the version of its form, a line of JSON (snapshotHead), the data, and the SHA-256 of all
// before. It is written under another name and renamed, so that a crash leaves the old file or the new one.
// Options.SizeMax does not count the folder.
type Snapshots struct{ dir string }

const (
	snapshotFolder = "forecasters"
	snapshotEnding = ".forecast"
	// snapshotForm is the first line; its number is the version. A file of another version is set aside.
	snapshotForm = "forewarm-snapshot 1\n"
	// snapshotKeep is how long a file stays that nobody writes any more: that of a removed model, or one set aside.
	snapshotKeep = 35 * day
	// snapshotNameMax is the longest escaped model name in a file name; file systems allow 255 bytes.
	snapshotNameMax = 180
)

// snapshotHead says what a snapshot is of.
type snapshotHead struct {
	Model string `json:"model"`
	// Basis is what the data was learned under, as the writer names it: a reader with another basis does not want it.
	Basis string    `json:"basis"`
	Saved time.Time `json:"saved"`
}

// OpenSnapshots makes the folder in the directory of a journal that is open, and removes what has not been written
// for 35 days before now. It returns ErrUnavailable, wrapped, when the folder cannot be used.
func OpenSnapshots(journalDir string, now time.Time) (*Snapshots, error) {
	s := &Snapshots{filepath.Join(journalDir, snapshotFolder)}
	if err := os.MkdirAll(s.dir, 0o750); err != nil {
		return nil, unavailable(s.dir, err)
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, unavailable(s.dir, err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, unavailable(s.dir, err)
		}
		if !info.Mode().IsRegular() || now.Sub(info.ModTime()) < snapshotKeep {
			continue
		}
		if err := os.Remove(filepath.Join(s.dir, e.Name())); err != nil {
			return nil, unavailable(s.dir, err)
		}
	}
	return s, nil
}

func (s *Snapshots) path(model string) string {
	name := url.PathEscape(model)
	if len(name) > snapshotNameMax {
		sum := sha256.Sum256([]byte(model))
		name = hex.EncodeToString(sum[:])
	}
	return filepath.Join(s.dir, name+snapshotEnding)
}

// Write replaces a model's snapshot. The new one is on disk when it returns; an error leaves the old one.
func (s *Snapshots) Write(model, basis string, now time.Time, data []byte) (err error) {
	head, err := json.Marshal(snapshotHead{model, basis, now.UTC()})
	if err != nil {
		return fmt.Errorf("snapshot of %s: %w", model, err)
	}
	whole := bytes.Join([][]byte{[]byte(snapshotForm), head, []byte("\n"), data}, nil)
	sum := sha256.Sum256(whole)
	path := s.path(model)
	fresh := path + ".new"
	defer func() {
		if err != nil {
			err = fmt.Errorf("snapshot of %s: %w", model, errors.Join(err, removed(fresh)))
		}
	}()
	f, err := os.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(append(whole, sum[:]...))
	if err == nil {
		err = f.Sync() // before the rename, or a power cut could leave an empty file under the real name
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

func removed(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Aside is the error about a snapshot that was set aside.
type Aside struct {
	Path, Aside, Why string
}

func (e *Aside) Error() string {
	return fmt.Sprintf("%s %s: set aside as %s", e.Path, e.Why, filepath.Base(e.Aside))
}

// Read returns the data of a model's snapshot, nil when there is none, or none of this basis. A file that is damaged
// or of another version is set aside, its bytes untouched, and reported as an *Aside.
func (s *Snapshots) Read(model, basis string, now time.Time) ([]byte, error) {
	whole, err := os.ReadFile(s.path(model))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("snapshot of %s: %w", model, err)
	}
	head, data, why := parseSnapshot(whole)
	if why != "" {
		return nil, s.SetAside(model, why, now)
	}
	if head.Model != model || head.Basis != basis {
		return nil, nil
	}
	return data, nil
}

// parseSnapshot takes a file apart, or says what is wrong with it.
func parseSnapshot(whole []byte) (head snapshotHead, data []byte, why string) {
	name, _, _ := strings.Cut(snapshotForm, " ")
	first, rest, found := bytes.Cut(whole, []byte("\n"))
	switch {
	case !found || !bytes.HasPrefix(first, []byte(name+" ")):
		return head, nil, "is not a snapshot"
	case string(first)+"\n" != snapshotForm:
		return head, nil, fmt.Sprintf("is of another version: %q, must be %q", first, strings.TrimSpace(snapshotForm))
	case len(rest) < sha256.Size:
		return head, nil, fmt.Sprintf("is torn: %d bytes", len(whole))
	}
	body := whole[:len(whole)-sha256.Size]
	if sum := sha256.Sum256(body); !bytes.Equal(sum[:], whole[len(body):]) {
		return head, nil, "is damaged: its checksum does not match"
	}
	line, data, found := bytes.Cut(body[len(snapshotForm):], []byte("\n"))
	if !found {
		return head, nil, "is damaged: it has no head"
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return head, nil, "is damaged: " + err.Error()
	}
	return head, data, ""
}

// SetAside renames a model's snapshot, which is what why says, and returns the *Aside, or why it could not be renamed.
func (s *Snapshots) SetAside(model, why string, now time.Time) error {
	path := s.path(model)
	aside, err := setAside(path, now)
	if err != nil {
		return fmt.Errorf("%s %s and cannot be set aside: %w", path, why, err)
	}
	return &Aside{path, aside, why}
}
