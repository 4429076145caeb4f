package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"forewarm/coldstart"
	"forewarm/coldstart/evidence"
)

type coldstartFlags struct {
	kube, logs          []string
	at, format, journal string
	price               float64 // US dollars per replica and hour, 0 is unknown
}

// newColdstartCmd returns the verb that takes starts apart.
func newColdstartCmd() *cobra.Command {
	var f coldstartFlags
	cmd := &cobra.Command{
		Use:   "coldstart [--kube FILE]... [--log FILE]... [FILE]...",
		Short: "Take replica starts apart, phase by phase, from cluster dumps and engine logs",
		Long: `Coldstart takes replica starts apart: how long each phase took, from the pod's creation (or the log's first line) to the
first answer, which source says so, and what no source explains. It prints a waterfall per start and the distribution
per start path.

--kube takes what kubectl get pods, events, nodes, nodeclaims -o json print, or kubectl describe pod. --log takes logs of
vLLM, SGLang, TGI and llama.cpp's server, rotated and compressed ones too; kubectl logs --timestamps gives the best ones,
--prefix tells pods apart. Files without a flag are told apart by their content, so one flag may be followed by several.

--journal takes the starts that a daemon has watched, out of its data directory, and ranks their phases by how many warm
replicas each second less would save.`,
		Example: `  kubectl get pods,events,nodes,nodeclaims -A -o json > cluster.json
  kubectl logs --timestamps chat-70b-7c9d-x2 > chat-70b-7c9d-x2.log
  forewarm coldstart --kube cluster.json --log chat-70b-7c9d-x2.log
  forewarm coldstart --journal /var/lib/forewarm --usd-per-replica-hour 12.50`,
		RunE: func(cmd *cobra.Command, rest []string) error {
			if err := checkFormat(f.format, "table", "json", "svg"); err != nil {
				return err
			}
			return f.run(cmd, rest)
		},
	}
	cmd.Flags().StringArrayVar(&f.kube, "kube", nil, "dump of pods, events, nodes or nodeclaims, - for standard input")
	cmd.Flags().StringArrayVar(&f.logs, "log", nil, "log of an engine, - for standard input")
	cmd.Flags().StringVar(&f.at, "at", "", "RFC 3339 time at which the files were taken; else what they tell, and for logs alone when they were written")
	cmd.Flags().StringVar(&f.journal, "journal", "", "data directory of forewarmd")
	cmd.Flags().Float64Var(&f.price, "usd-per-replica-hour", 0, "what a replica costs, for the savings in dollars; with --journal")
	cmd.Flags().StringVar(&f.format, "format", "table", "table (a waterfall per start), json or svg")
	return cmd
}

func (f *coldstartFlags) run(cmd *cobra.Command, rest []string) error {
	in := startFiles{stdin: cmd.InOrStdin()}
	if f.at != "" {
		at, err := time.Parse(time.RFC3339, f.at)
		if err != nil {
			return fmt.Errorf("--at is %q: an RFC 3339 time such as 2026-03-02T09:15:00Z is allowed", f.at)
		}
		in.at = at.UTC()
	}
	if len(f.kube)+len(f.logs)+len(rest) == 0 && f.journal == "" {
		return errors.New("no file: want --kube FILE, --log FILE, --journal DIR or several of them")
	}
	if !(f.price >= 0 && f.price < 1e6) {
		return fmt.Errorf("--usd-per-replica-hour is %v: 0 to 1000000 are allowed", f.price)
	}
	var errs []error
	if f.journal != "" {
		var price *float64
		if f.price > 0 {
			price = &f.price
		}
		if err := in.readJournal(cmd.Context(), f.journal, price); err != nil {
			errs = append(errs, err)
		}
	}
	for _, of := range []struct {
		names []string
		as    func(peek []byte) bool // whether the file is a dump
	}{{f.kube, func([]byte) bool { return true }}, {f.logs, func([]byte) bool { return false }}, {rest, isDump}} {
		for _, name := range of.names {
			if err := in.read(name, of.as); err != nil {
				errs = append(errs, err)
			}
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	r := in.report()
	switch f.format {
	case "json":
		return printJSON(cmd.OutOrStdout(), r.json())
	case "svg":
		return r.svg(cmd.OutOrStdout())
	}
	return r.table(cmd.OutOrStdout())
}

// startFiles collects what is read.
type startFiles struct {
	stdin   io.Reader
	at      time.Time
	written time.Time // of the newest log
	cluster evidence.Cluster
	dumps   int
	logs    []*evidence.Log

	recorded []evidence.Start // of a journal
	whatNext []modelSavings
}

// read adds one file; gzip is taken off.
func (s *startFiles) read(name string, asDump func(peek []byte) bool) (err error) {
	from := s.stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		if info, err := file.Stat(); err == nil && info.ModTime().After(s.written) {
			s.written = info.ModTime().UTC()
		}
		from = file
	}
	b := bufio.NewReaderSize(from, 64<<10)
	if magic, _ := b.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(b)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		b = bufio.NewReaderSize(z, 64<<10)
	}
	peek, err := b.Peek(4 << 10)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w", name, err)
	}
	switch {
	case !asDump(peek):
		logs, err := evidence.ReadLog(b, name)
		s.logs = append(s.logs, logs...)
		return err
	case bytes.HasPrefix(bytes.TrimLeft(peek, " \t\r\n\ufeff"), []byte("{")):
		s.dumps++
		return s.cluster.ReadJSON(b, name)
	default:
		s.dumps++
		return s.cluster.ReadDescribe(b, name, s.at)
	}
}

// isDump tells a dump from a log by how it begins: an API object has a kind and an apiVersion, a description a name.
func isDump(peek []byte) bool {
	text := bytes.TrimLeft(peek, " \t\r\n")
	if bytes.HasPrefix(text, []byte("{")) {
		return bytes.Contains(text, []byte(`"apiVersion"`)) || bytes.Contains(text, []byte(`"kind"`))
	}
	return bytes.HasPrefix(text, []byte("Name:"))
}

func (s *startFiles) report() *startReport {
	o := evidence.Options{At: s.at}
	if o.At.IsZero() && s.dumps == 0 {
		o.At = s.written
	}
	r := &startReport{whatNext: s.whatNext}
	r.starts, r.notes = evidence.Starts(&s.cluster, s.logs, o)
	r.starts = append(r.starts, s.recorded...)
	r.group()
	return r
}

// startReport is what the verb prints.
type startReport struct {
	starts   []evidence.Start
	paths    []startPath
	whatNext []modelSavings
	notes    []string
}

// startPath is the starts of one model, shape and path.
type startPath struct {
	key      coldstart.Key
	samples  []coldstart.Sample
	outcomes map[coldstart.Outcome]int
	lead     coldstart.LeadTime
}

func (r *startReport) group() {
	for _, s := range r.starts {
		key := coldstart.Key{Model: s.Key.Model, Shape: s.Key.Shape, Path: s.Key.Path}
		i := slices.IndexFunc(r.paths, func(p startPath) bool { return p.key == key })
		if i < 0 {
			i = len(r.paths)
			r.paths = append(r.paths, startPath{key: key, outcomes: map[coldstart.Outcome]int{}})
		}
		r.paths[i].samples = append(r.paths[i].samples, s.Sample)
		r.paths[i].outcomes[s.Outcome]++
	}
	slices.SortFunc(r.paths, func(a, b startPath) int { return a.key.Compare(b.key) })
	for i := range r.paths {
		r.paths[i].lead = coldstart.Measure(r.paths[i].samples)
	}
}
