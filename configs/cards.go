package configs

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"forewarm/planner"
)

// Cards are facts about models and GPUs, each with its source.
type Cards struct {
	Models []ModelCard `yaml:"models"`
	GPUs   []GPUCard   `yaml:"gpus"`
}

// ModelCard is what a model is.
type ModelCard struct {
	Name       string  `yaml:"name"`
	Parameters float64 `yaml:"parameters"`
	Layers     int     `yaml:"layers"`
	KVHeads    int     `yaml:"kv_heads"`
	HeadSize   int     `yaml:"head_size"`
	Source     string  `yaml:"source"`
}

// GPUCard is what a GPU can do, dense.
type GPUCard struct {
	Name      string  `yaml:"name"`
	Memory    float64 `yaml:"memory_bytes"`
	Bandwidth float64 `yaml:"bandwidth_bytes_per_s"`
	FLOPs     float64 `yaml:"bf16_flops_per_s"`
	Source    string  `yaml:"source"`
}

// ReadCards reads a file of cards. Every problem is reported at once, with the file's name.
func ReadCards(name string, data []byte) (Cards, error) {
	var c Cards
	if err := Decode(name, data, &c); err != nil {
		return Cards{}, err
	}
	var errs []error
	positive := func(card, key string, v float64) {
		if !(v > 0 && v < 1e18) {
			errs = append(errs, fmt.Errorf("%s: card %q: %s is %v: a positive number below 1e18 is allowed", name, card, key, v))
		}
	}
	for _, m := range c.Models {
		positive(m.Name, "parameters", m.Parameters)
		positive(m.Name, "layers", float64(m.Layers))
		positive(m.Name, "kv_heads", float64(m.KVHeads))
		positive(m.Name, "head_size", float64(m.HeadSize))
		if m.Name == "" || m.Source == "" {
			errs = append(errs, fmt.Errorf("%s: card %q: name and source are needed", name, m.Name))
		}
	}
	for _, g := range c.GPUs {
		positive(g.Name, "memory_bytes", g.Memory)
		positive(g.Name, "bandwidth_bytes_per_s", g.Bandwidth)
		positive(g.Name, "bf16_flops_per_s", g.FLOPs)
		if g.Name == "" || g.Source == "" {
			errs = append(errs, fmt.Errorf("%s: card %q: name and source are needed", name, g.Name))
		}
	}
	return c, errors.Join(errs...)
}

// weightBytes are the bytes of a parameter by precision; scales of blocks are counted.
var weightBytes = map[string]float64{"bf16": 2, "fp16": 2, "fp8": 1, "fp4": 0.5625}

// Model finds the card of a model by the end of its path, case and a suffix such as -Instruct aside.
func (c Cards) Model(path string) (ModelCard, bool) {
	name := strings.ToLower(path[strings.LastIndexByte(path, '/')+1:])
	i := slices.IndexFunc(c.Models, func(m ModelCard) bool {
		card := strings.ToLower(m.Name)
		return name == card || strings.HasPrefix(name, card+"-")
	})
	if i < 0 {
		return ModelCard{}, false
	}
	return c.Models[i], true
}

// GPU finds the card of a GPU.
func (c Cards) GPU(name string) (GPUCard, bool) {
	i := slices.IndexFunc(c.GPUs, func(g GPUCard) bool { return g.Name == name })
	if i < 0 {
		return GPUCard{}, false
	}
	return c.GPUs[i], true
}

// Prior is the guess at the physics of a model on so many GPUs. Its source says that nobody measured it.
func (c Cards) Prior(model, gpu, precision string, gpus int, requests planner.RequestMix) (planner.Profile, error) {
	m, okModel := c.Model(model)
	g, okGPU := c.GPU(gpu)
	bytes := weightBytes[precision]
	var errs []error
	if !okModel {
		errs = append(errs, fmt.Errorf("there is no card of model %q", model))
	}
	if !okGPU {
		errs = append(errs, fmt.Errorf("there is no card of GPU %q", gpu))
	}
	if bytes == 0 {
		errs = append(errs, fmt.Errorf("precision is %q: bf16, fp16, fp8 or fp4 are allowed", precision))
	}
	if errs != nil {
		return planner.Profile{}, errors.Join(errs...)
	}
	p, err := planner.PriorPhysics(
		planner.ModelSize{Parameters: m.Parameters, WeightBytes: m.Parameters * bytes,
			KVBytesPerToken: 2 * 2 * float64(m.Layers) * float64(m.KVHeads) * float64(m.HeadSize)},
		// Matrix products in fewer bits are that much faster.
		planner.Accelerator{Name: g.Name, Bandwidth: g.Bandwidth, FLOPs: g.FLOPs * 2 / bytes, Memory: g.Memory}, gpus, requests)
	if err != nil {
		return planner.Profile{}, err
	}
	return planner.Profile{Physics: &p, Source: fmt.Sprintf("PRIOR, not measured: %s, %s on %d x %s", m.Source, precision, gpus, g.Source)}, nil
}
