package planner

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// degreeColumns are the kinds of parallelism after the first, tp.
var degreeColumns = []string{"pp_size", "attention_dp_size", "moe_ep_size"}

const measurementsMax = 1_000_000

// ReadMeasurements reads a CSV file of runs: a header with the columns model_path, isl, osl, concurrency, ttft_ms and
// tpot_ms, any of system, backend, backend_version, precision, tp_size, pp_size, attention_dp_size and moe_ep_size, which
// name the group together with the model, and measured (a date). Other columns are passed over. Where concurrency is
// empty, batch_size stands in. It returns every problem of the file with its line, the column, the value and what is
// allowed.
func ReadMeasurements(r io.Reader) ([]Measurement, error) {
	in := csv.NewReader(r)
	in.ReuseRecord = true
	header, err := in.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("line 1: the file is empty: a header is needed")
	} else if err != nil {
		return nil, err
	}
	column := map[string]int{}
	for i, name := range header {
		column[strings.TrimPrefix(strings.TrimSpace(name), "\ufeff")] = i
	}
	var errs []error
	for _, need := range []string{"model_path", "isl", "osl", "concurrency", "ttft_ms", "tpot_ms"} {
		if _, ok := column[need]; !ok {
			errs = append(errs, fmt.Errorf("line 1: there is no column %q", need))
		}
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	var out []Measurement
	for {
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, errors.Join(append(errs, err)...)
		}
		if len(out) == measurementsMax {
			return nil, fmt.Errorf("more than %d runs", measurementsMax)
		}
		line, _ := in.FieldPos(0)
		row := measurementRow{record: record, column: column, line: line}
		out = append(out, row.measurement())
		errs = append(errs, row.errs...)
		if len(errs) > 100 {
			return nil, errors.Join(append(errs, errors.New("and maybe more"))...)
		}
	}
	if len(out) == 0 && errs == nil {
		errs = append(errs, errors.New("there is no run below the header"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return out, nil
}

type measurementRow struct {
	record []string
	column map[string]int
	line   int
	errs   []error
}

func (r *measurementRow) text(name string) string {
	i, ok := r.column[name]
	if !ok {
		return ""
	}
	return strings.TrimSpace(r.record[i])
}

func (r *measurementRow) number(name string, lo, hi float64) float64 {
	v, err := strconv.ParseFloat(r.text(name), 64)
	if err != nil || !(v >= lo && v <= hi) || math.IsInf(v, 0) {
		r.errs = append(r.errs, fmt.Errorf("line %d: %s is %q: a number of %g to %g is allowed", r.line, name, r.text(name), lo, hi))
	}
	return v
}

func (r *measurementRow) measurement() Measurement {
	level := "concurrency"
	if r.text(level) == "" && r.text("batch_size") != "" {
		level = "batch_size"
	}
	return Measurement{
		Setup: r.setup(), Line: r.line, Date: strings.Clone(r.text("measured")),
		Concurrency: r.number(level, 1, 1e6),
		Prompt:      Tokens(r.number("isl", 1, 1e8)),
		Completion:  Tokens(r.number("osl", 2, 1e8)),
		TTFT:        Milliseconds(r.number("ttft_ms", 0, 1e9)),
		TPOT:        Milliseconds(r.number("tpot_ms", 1e-3, 1e6)),
	}
}

func (r *measurementRow) setup() Setup {
	text := func(name string) string { return strings.Clone(r.text(name)) } // the record is used again
	if r.text("model_path") == "" {
		r.errs = append(r.errs, fmt.Errorf("line %d: model_path is empty: a name is needed", r.line))
	}
	s := Setup{Model: text("model_path"), GPU: text("system"), Engine: text("backend"), Version: text("backend_version"),
		Precision: text("precision"), OnlyTensor: true}
	var parallel []string
	if r.text("tp_size") != "" {
		s.TensorParallel = int(r.number("tp_size", 1, 1024))
		parallel = append(parallel, fmt.Sprintf("tp%d", s.TensorParallel))
	}
	for _, name := range degreeColumns {
		if r.text(name) == "" {
			continue
		}
		if degree := r.number(name, 0, 1024); degree > 1 {
			parallel = append(parallel, fmt.Sprintf("%s%g", strings.TrimSuffix(name, "_size"), degree))
			s.OnlyTensor = false
		}
	}
	s.Parallel = strings.Join(parallel, " ")
	return s
}
