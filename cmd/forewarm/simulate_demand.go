package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"forewarm/forecast"
	"forewarm/sim"
	"forewarm/sim/trace"
)

// loadDemand reads the rate tables that the models of a scenario name, relative to the folder of the scenario's file.
func loadDemand(s *sim.Scenario, folder string) error {
	for i := range s.World.Models {
		m := &s.World.Models[i]
		if t := m.Workload.Table; t != nil {
			if err := loadTable(t, folder, m.Workload.Timezone); err != nil {
				return fmt.Errorf("model %q: %w", m.Name, err)
			}
		}
		if t := m.Workload.Trace; t != nil {
			if err := loadTrace(t, folder, s.Seed); err != nil {
				return fmt.Errorf("model %q: %w", m.Name, err)
			}
		}
	}
	return nil
}

// loadTrace reads a trace once. What is wrong with it comes with the file's name before each line.
func loadTrace(t *sim.TraceSpec, folder string, seed uint64) error {
	path := t.File
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	trace, err := sim.NewTrace(*t, seed, func() (sim.Requests, io.Closer, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, nil, err
		}
		r, err := trace.NewReader(f, t.Model)
		if err != nil {
			f.Close()
			return nil, nil, err
		}
		return r, f, nil
	})
	if err != nil {
		return errors.New(t.File + ": " + strings.ReplaceAll(err.Error(), "\n", "\n"+t.File+": "))
	}
	t.Trace = trace
	return nil
}

func loadTable(t *sim.RateTable, folder, zone string) error {
	path := t.File
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	loc, err := time.LoadLocation(zone)
	if err != nil {
		return err
	}
	read := func(column string, into *forecast.Series) error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		s, err := forecast.ReadCSV(f, forecast.CSVOptions{Column: column, Location: loc, MissingWhere: t.MissingWhere})
		if err != nil {
			return fmt.Errorf("%s: %w", t.File, err)
		}
		*into = s
		return nil
	}
	if err := read(t.Column, &t.Rates); err != nil {
		return err
	}
	if t.PromptColumn == "" {
		return nil
	}
	if err := read(t.PromptColumn, &t.Prompt); err != nil {
		return err
	}
	return read(t.CompletionColumn, &t.Completion)
}
