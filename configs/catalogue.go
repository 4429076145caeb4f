package configs

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"forewarm/planner"
)

//go:embed profiles/*.yaml
var profileFiles embed.FS

// Catalogue is a file of profiles.
type Catalogue struct {
	Profiles []CatalogueProfile `yaml:"profiles"`
}

// CatalogueProfile is the profile of one model on one shape of replica. Every group of numbers has its own source and
// date.
type CatalogueProfile struct {
	Name         string                `yaml:"name"` // model/precision/gpu/tp/engine, lower case
	Coefficients CatalogueCoefficients `yaml:"coefficients"`
	Limits       CatalogueLimits       `yaml:"limits"`
	Requests     CatalogueRequests     `yaml:"requests"`
}

// Origin is where numbers come from and when they were taken from there.
type Origin struct {
	Source string `yaml:"source"`
	Date   string `yaml:"date"`
}

// CatalogueCoefficients are the cost of an iteration. HeldOutError is the median relative error of TPOT when each
// concurrency is predicted from the others.
type CatalogueCoefficients struct {
	Iteration        planner.Milliseconds `yaml:"iteration_ms"`
	Prefill          planner.Milliseconds `yaml:"prefill_ms_per_token"`
	Decode           planner.Milliseconds `yaml:"decode_ms_per_sequence"`
	Attention        planner.Milliseconds `yaml:"attention_ms_per_kv_token"`
	PrefillAttention planner.Milliseconds `yaml:"prefill_attention_ms_per_pair"`
	HeldOutError     planner.Ratio        `yaml:"held_out_error"`
	Origin           `yaml:",inline"`
}

// CatalogueLimits are the limits of the replica.
type CatalogueLimits struct {
	KVTokens         planner.Tokens `yaml:"kv_tokens"`
	MaxSequences     int            `yaml:"max_sequences"`
	MaxBatchedTokens int            `yaml:"max_batched_tokens"`
	Origin           `yaml:",inline"`
}

// CatalogueRequests is the mix that stands in for an unknown one.
type CatalogueRequests struct {
	planner.RequestMix `yaml:",inline"`
	Origin             `yaml:",inline"`
}

// Alternatives are the other entries of the same model, precision and engine as the named one, as the planner takes them: by
// name, without prices. It is empty when there is no such entry.
func (c Catalogue) Alternatives(name string) []planner.Alternative {
	own := strings.Split(name, "/")
	var out []planner.Alternative
	for _, p := range c.Profiles {
		parts := strings.Split(p.Name, "/")
		if len(own) != 5 || len(parts) != 5 || p.Name == name || parts[0] != own[0] || parts[1] != own[1] || parts[4] != own[4] {
			continue
		}
		gpus, err := strconv.Atoi(strings.TrimPrefix(parts[3], "tp"))
		if err != nil {
			continue // a name of another form says nothing about GPUs
		}
		out = append(out, planner.Alternative{Name: p.Name, GPUs: gpus, Profile: p.Profile()})
	}
	slices.SortFunc(out, func(a, b planner.Alternative) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Profile is the entry as the planner takes it.
func (c CatalogueProfile) Profile() planner.Profile {
	k := c.Coefficients
	return planner.Profile{
		Physics: &planner.Physics{Iteration: k.Iteration, Prefill: k.Prefill, Decode: k.Decode, Attention: k.Attention,
			PrefillAttention: k.PrefillAttention, KVTokens: c.Limits.KVTokens, MaxSequences: c.Limits.MaxSequences,
			MaxBatchedTokens: c.Limits.MaxBatchedTokens, Requests: c.Requests.RequestMix},
		Source: fmt.Sprintf("catalogue %s: %s", c.Name, k.Source),
	}
}

// Limits that engines have unless they are told otherwise: 256 sequences and 8192 tokens of an iteration.
const (
	defaultSequences = 256
	defaultTokens    = 8192
)

// CatalogueOf makes profiles of the groups of a fit that are one replica by tensor parallelism alone, on GPUs and of a
// model that have cards, at a known precision. KV tokens are worked out from the cards: nine tenths of the memory less
// weights and 2 GB a GPU.
func CatalogueOf(r planner.FitReport, cards Cards, measured Origin) Catalogue {
	// The mix of the Azure conversation trace, as sim fits it.
	requests := CatalogueRequests{
		RequestMix: planner.RequestMix{Prompt: 1155, Completion: 211, PromptCV: 0.96, CompletionCV: 0.77, Correlation: -0.11},
		Origin:     Origin{Source: "Azure LLM inference trace 2023, conversation (Azure/AzurePublicDataset, CC BY 4.0)", Date: "2023-11-16"},
	}
	var c Catalogue
	for _, g := range r.Groups {
		k := g.Coefficients
		if k == nil || g.Errors.Median == nil || !g.Setup.OnlyTensor || g.Setup.TensorParallel == 0 {
			continue
		}
		prior, err := cards.Prior(g.Setup.Model, g.Setup.GPU, g.Setup.Precision, g.Setup.TensorParallel, requests.RequestMix)
		if err != nil {
			continue // no cards, or the weights leave no room: the group is fitted but is no profile
		}
		model, _ := cards.Model(g.Setup.Model)
		gpu, _ := cards.GPU(g.Setup.GPU)
		version := g.Setup.Version
		if version == "" {
			version = "version not recorded"
		}
		when := g.Date
		if when == "" {
			when = "date not recorded"
		}
		c.Profiles = append(c.Profiles, CatalogueProfile{
			Name: strings.ToLower(strings.Join([]string{model.Name, g.Setup.Precision, g.Setup.GPU,
				fmt.Sprintf("tp%d", g.Setup.TensorParallel), strings.Trim(g.Setup.Engine+"-"+g.Setup.Version, "-")}, "/")),
			Coefficients: CatalogueCoefficients{
				Iteration: digits(k.Iteration), Prefill: digits(k.Prefill), Decode: digits(k.Decode), Attention: digits(k.Attention),
				PrefillAttention: digits(k.Attention / 25), HeldOutError: planner.Ratio(digits(planner.Milliseconds(*g.Errors.Median))),
				Origin: Origin{Date: measured.Date, Source: fmt.Sprintf("fitted to %d runs on %s, %s, %s; %s", len(g.Runs), g.Setup.Engine,
					version, when, measured.Source)},
			},
			Limits: CatalogueLimits{KVTokens: prior.Physics.KVTokens, MaxSequences: defaultSequences, MaxBatchedTokens: defaultTokens,
				Origin: Origin{Date: measured.Date, Source: fmt.Sprintf("KV tokens worked out, not measured: 0.9 x memory - weights - 2 GB "+
					"a GPU (%s; %s); sequences and batched tokens assumed: put in your engine's", model.Source, gpu.Source)}},
			Requests: requests,
		})
	}
	return c
}

// digits rounds to four digits.
func digits(v planner.Milliseconds) planner.Milliseconds {
	out, _ := strconv.ParseFloat(strconv.FormatFloat(float64(v), 'g', 4, 64), 64)
	return planner.Milliseconds(out)
}

// ReadCatalogue reads a file of profiles. Every problem is reported at once, with the file's name.
func ReadCatalogue(name string, data []byte) (Catalogue, error) {
	var c Catalogue
	if err := Decode(name, data, &c); err != nil {
		return Catalogue{}, err
	}
	var errs []error
	seen := map[string]bool{}
	for _, p := range c.Profiles {
		if p.Name == "" || seen[p.Name] {
			errs = append(errs, fmt.Errorf("%s: name is %q: a name that is not empty and not repeated is allowed", name, p.Name))
		}
		seen[p.Name] = true
		for _, o := range []struct {
			key string
			Origin
		}{{"coefficients", p.Coefficients.Origin}, {"limits", p.Limits.Origin}, {"requests", p.Requests.Origin}} {
			if o.Source == "" || o.Date == "" {
				errs = append(errs, fmt.Errorf("%s: %s: %s has no source or date: both are needed", name, p.Name, o.key))
			}
		}
		if err := p.Profile().Validate(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %s: %w", name, p.Name, err))
		}
	}
	return c, errors.Join(errs...)
}

// WriteCatalogue writes what ReadCatalogue reads back.
func WriteCatalogue(w io.Writer, c Catalogue) error {
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	return errors.Join(enc.Encode(c), enc.Close())
}

const (
	catalogueFile = "profiles/catalogue.yaml"
	cardsFile     = "profiles/cards.yaml"
)

// BuiltinCatalogue returns the embedded profiles.
func BuiltinCatalogue() (Catalogue, error) {
	data, err := profileFiles.ReadFile(catalogueFile)
	if err != nil {
		return Catalogue{}, err
	}
	return ReadCatalogue("configs/"+catalogueFile, data)
}

// BuiltinCards returns the embedded cards.
func BuiltinCards() (Cards, error) {
	data, err := profileFiles.ReadFile(cardsFile)
	if err != nil {
		return Cards{}, err
	}
	return ReadCards("configs/"+cardsFile, data)
}

// Find returns an entry by its name. The error names those that begin with the same model.
func (c Catalogue) Find(name string) (CatalogueProfile, error) {
	var near []string
	model, _, _ := strings.Cut(name, "/")
	for _, p := range c.Profiles {
		if p.Name == name {
			return p, nil
		}
		if strings.HasPrefix(p.Name, model) {
			near = append(near, p.Name)
		}
	}
	if near == nil {
		return CatalogueProfile{}, fmt.Errorf("no profile %q in the catalogue, and none of that model", name)
	}
	return CatalogueProfile{}, fmt.Errorf("no profile %q in the catalogue; of that model there are %s", name, strings.Join(near, ", "))
}
