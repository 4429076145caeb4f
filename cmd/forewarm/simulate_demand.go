package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"forewarm/forecast"
	"forewarm/sim"
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
	}
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
