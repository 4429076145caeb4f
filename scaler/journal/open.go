package journal

import (
	"bytes"
	"compress/flate"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// Report says what Open found. The zero value but for Path is a sound journal that was continued.
type Report struct {
	// Path is the journal's file.
	Path string
	// Created is set when a fresh journal was started.
	Created bool
	// Aside is the new name of a file that was in the way, its bytes untouched; empty when there was none. Why says what
	// was wrong with it.
	Aside string
	Why   string
}

// Open takes the writer's lock of dir, which is made when it does not exist, and opens its journal or starts one. now
// only names a file that is set aside. log gets an error when a file is set aside and warnings later; nil discards.
//
// A damaged file, another program's file and a journal of another schema version are set aside (Report.Aside), never
// fatal. Checking for damage reads the whole file, about a second per few hundred MiB.
//
// Errors: ErrUnavailable when the directory cannot be used, ErrLocked when another process writes it, and whatever
// Options.Validate says.
func Open(dir string, opts Options, now time.Time, log *slog.Logger) (*Journal, Report, error) {
	if err := opts.Validate(); err != nil {
		return nil, Report{}, fmt.Errorf("journal options: %w", err)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, Report{}, unavailable(dir, err)
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, Report{}, unavailable(dir, err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, Report{}, err
	}
	j := &Journal{lock: lock, opts: opts.withDefaults(), log: log, groupTicks: groupTicks,
		packer: newPacker(flate.DefaultCompression), fastPacker: newPacker(flate.BestSpeed)}
	report, err := j.open(context.Background(), filepath.Join(dir, fileName), now)
	if err != nil {
		return nil, report, errors.Join(err, j.Close())
	}
	return j, report, nil
}

func (j *Journal) open(ctx context.Context, path string, now time.Time) (Report, error) {
	report := Report{Path: path}
	why, exists, err := inspect(ctx, path)
	if err != nil {
		return report, unavailable(path, err)
	}
	if why != "" {
		report.Why = why
		if report.Aside, err = setAside(path, now); err != nil {
			return report, unavailable(path, fmt.Errorf("it %s and cannot be set aside: %w", why, err))
		}
		j.log.Error("journal set aside, starting a fresh one", "path", path, "aside", report.Aside, "why", why)
	}
	if report.Created = !exists || why != ""; report.Created {
		if err := create(ctx, path); err != nil {
			return report, unavailable(path, err)
		}
	}
	if err := j.connect(ctx, path); err != nil {
		return report, unavailable(path, err)
	}
	if err := j.shrink(ctx); err != nil {
		return report, unavailable(path, err)
	}
	return report, nil
}

// connect opens the one writing connection and those that read.
func (j *Journal) connect(ctx context.Context, path string) error {
	var err error
	if j.write, err = sql.Open("sqlite", dataSource(path, modeWrite, "synchronous(FULL)",
		fmt.Sprintf("wal_autocheckpoint(%d)", max(1, j.opts.logMax()/pageSize)),
		fmt.Sprintf("journal_size_limit(%d)", j.opts.logMax()))); err != nil {
		return err
	}
	j.write.SetMaxOpenConns(1)
	var mode string
	if err := j.write.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("journal mode is %q, must be wal: the file system does not support shared memory", mode)
	}
	// A write that changes nothing finds out now, not at the first tick, that the file is read-only.
	if _, err := j.write.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", schemaVersion)); err != nil {
		return err
	}
	j.Reader, err = openReader(path, modeRead)
	return err
}

// create makes a journal under a temporary name and renames it, so that a crash in between leaves no half-made journal.
func create(ctx context.Context, path string) error {
	fresh := path + ".new"
	for _, suffix := range sidecars {
		if err := os.Remove(fresh + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := createFile(ctx, fresh); err != nil {
		return fmt.Errorf("making %s: %w", fresh, err)
	}
	return os.Rename(fresh, path)
}

// sidecars are the endings of the files that belong to one database; the file itself comes first.
var sidecars = []string{"", "-journal", "-wal", "-shm"}

// inspect says what is wrong with the file at path, "" when it is a sound journal or nothing is there. It changes no
// byte of the file or its log, so that a file set aside is what was found. The error is about the machine.
func inspect(ctx context.Context, path string) (why string, exists bool, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		for _, suffix := range sidecars[1:] {
			if _, err := os.Stat(path + suffix); err == nil && suffix != "-shm" { // -shm holds nothing of its own
				return "is missing, but its log " + filepath.Base(path) + suffix + " is there", false, nil
			}
		}
		return "", false, nil
	}
	if err != nil {
		return "", true, err
	}
	if !info.Mode().IsRegular() {
		return "", true, fmt.Errorf("is not a regular file but %s", info.Mode().Type())
	}
	if why, err := checkHeader(path); why != "" || err != nil {
		return why, true, err
	}
	if _, err := os.Stat(path + "-journal"); err == nil {
		return "has a rollback journal, which forewarm does not use", true, nil
	}
	r, err := openReader(path, modeRead)
	if err != nil {
		return "", true, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if why, err = unsound(ctx, r.db); why != "" || err != nil {
		return why, true, err
	}
	// The one record a restart needs must be readable, or this is no usable journal.
	if _, _, err := r.Last(ctx); err != nil {
		if environmental(err) {
			return "", true, err
		}
		return "is damaged: " + err.Error(), true, nil
	}
	return "", true, nil
}

// checkHeader reads what SQLite would only report as a vague error (https://sqlite.org/fileformat2.html#the_database_header):
// the magic string, and the two version bytes, which make SQLite treat a file as read-only or unreadable.
func checkHeader(path string) (why string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	header := make([]byte, 100)
	switch n, err := io.ReadFull(f, header); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Sprintf("is torn: %d bytes, a SQLite file has at least 100", n), nil
	case err != nil:
		return "", err
	}
	if !bytes.HasPrefix(header, []byte("SQLite format 3\x00")) {
		return "is not a SQLite file", nil
	}
	if header[18] != 2 || header[19] != 2 {
		return fmt.Sprintf("is not a forewarm journal: file format %d/%d, must be 2/2 (write-ahead log)", header[18], header[19]), nil
	}
	return "", nil
}

// setAside renames a file and all that belongs to it to a name that is free, and returns the name.
func setAside(path string, now time.Time) (string, error) {
	stem := path + ".aside-" + now.UTC().Format("20060102T150405Z")
	aside := stem
	for n := 2; taken(aside); n++ {
		aside = fmt.Sprintf("%s.%d", stem, n)
	}
	for _, suffix := range sidecars {
		if err := os.Rename(path+suffix, aside+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return aside, nil
}

func taken(path string) bool {
	for _, suffix := range sidecars {
		if _, err := os.Lstat(path + suffix); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}
