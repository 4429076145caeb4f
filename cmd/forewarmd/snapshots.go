package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"time"

	"forewarm/scaler"
	"forewarm/scaler/prom"
)

// snapshots keeps the forecasters in the data directory; nil without a usable one.
func (d *daemon) snapshots(bases map[string]string) *scaler.Snapshots {
	if d.kept == nil || bases == nil {
		return nil
	}
	return &scaler.Snapshots{
		Load: func(model string) ([]byte, error) { return d.kept.Read(model, bases[model], time.Now()) },
		Save: func(model string, now time.Time, data []byte) error {
			return d.kept.Write(model, bases[model], now, data)
		},
		Refuse: func(model string, why error) error {
			return d.kept.SetAside(model, fmt.Sprintf("cannot be restored: %v", why), time.Now())
		},
	}
}

// basis is all that decides what a model's forecasters learn. With any other the history says something else, and so it
// does to another build: the form of a snapshot belongs to one.
type basis struct {
	Build    string
	Step     time.Duration
	Forecast forecastConfig
	Events   []byte
	Source   string // the Prometheus
	Model    prom.ModelConfig
	Replaces string
	Like     string
	Kin      *prom.ModelConfig // the model that one of them names
}

// bases returns each model's basis, as a fingerprint.
func (c *config) bases() map[string]string {
	models := make(map[string]*prom.ModelConfig, len(c.Models))
	for i := range c.Models {
		models[c.Models[i].Name] = &c.Models[i].ModelConfig
	}
	build, out := build(), make(map[string]string, len(c.Models))
	for i := range c.Models {
		m := &c.Models[i]
		b := basis{Build: build, Step: c.Prometheus.Step, Forecast: c.Forecast, Events: c.rawEvents, Source: c.Prometheus.URL,
			Model: m.ModelConfig, Replaces: m.Replaces, Like: m.Like, Kin: models[cmp.Or(m.Replaces, m.Like)]}
		b.Forecast.Paths = 0 // only drawn from what was learned
		text, err := json.Marshal(b)
		if err != nil {
			panic(fmt.Sprintf("forewarmd: encoding the basis of %s: %v", m.Name, err)) // plain data
		}
		sum := sha256.Sum256(text)
		out[m.Name] = hex.EncodeToString(sum[:16])
	}
	return out
}

// build says which program this is: the revision it was built from, where that is known.
func build() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	var out bytes.Buffer
	out.WriteString(info.Main.Version)
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" || s.Key == "vcs.modified" {
			fmt.Fprintf(&out, " %s=%s", s.Key, s.Value)
		}
	}
	return out.String()
}
