package main

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"forewarm/coldstart"
	"forewarm/configs"
	"forewarm/forecast"
	"forewarm/planner"
	"forewarm/scaler/keda"
	"forewarm/scaler/kube"
	"forewarm/scaler/prom"
)

// config is the daemon's file. The parts that belong to an adapter are that adapter's own type.
type config struct {
	Tick       time.Duration  `yaml:"tick"`
	DataDir    string         `yaml:"data_dir"`
	KEDA       keda.Config    `yaml:"keda"`
	HTTP       httpConfig     `yaml:"http"`
	Prometheus prom.Config    `yaml:"prometheus"`
	Kubernetes kube.Config    `yaml:"kubernetes"`
	Forecast   forecastConfig `yaml:"forecast"`
	// Events names the file of events and holidays, as configs.ReadEvents reads it.
	Events string         `yaml:"events"`
	Policy configs.Policy `yaml:"policy"`
	Models []modelConfig  `yaml:"models"`
	// GPUPrices is what a GPU costs per hour, by its name in the catalogue: it prices profiles from there.
	GPUPrices map[string]planner.Price `yaml:"gpu_prices_per_hour"`

	location  *time.Location     // of Forecast.Timezone
	calendar  *forecast.Calendar // of Events; nil without
	raw       []byte             // as it was read
	rawEvents []byte
}

type httpConfig struct {
	Listen string `yaml:"listen"`
}

type forecastConfig struct {
	Method   string        `yaml:"method"`
	Horizon  time.Duration `yaml:"horizon"`
	History  time.Duration `yaml:"history"`
	Paths    int           `yaml:"paths"`
	Timezone string        `yaml:"timezone"`
}

// modelConfig is one model: where its series and workloads are, what a replica is, and its policy.
type modelConfig struct {
	prom.ModelConfig `yaml:",inline"`
	Shape            planner.Shape    `yaml:"shape"`
	Profile          *planner.Profile `yaml:"profile"`
	// ProfileName takes the profile from the built-in catalogue instead.
	ProfileName string `yaml:"profile_name"`
	// LeadTimes are stated by a person for a start path, or for "any"; they serve until starts have been measured.
	LeadTimes map[string]statedLead `yaml:"lead_times"`
	// WeightsGB is the size of the weights in 10⁹ bytes; 0 is unknown. It puts the model in a size class, and gives it a lead
	// time from published figures while nothing is stated or measured.
	WeightsGB float64 `yaml:"weights_gb"`
	// StartsFile holds measured starts, as coldstart.ReadSamples reads them.
	StartsFile string `yaml:"starts_file"`
	// Replaces names the model whose users this one took over: its history stands in front of this one's own.
	Replaces string `yaml:"replaces"`
	// Like names a similar model, whose shape of the day serves while this one's own history is shorter than two days.
	Like string `yaml:"like"`
	// Serves names the model whose load this one carries a part of, as another variant or as a pool of its replicas; Role is
	// the part of the work of such a pool; Price is what a replica costs per hour.
	Serves string         `yaml:"serves"`
	Role   planner.Role   `yaml:"role"`
	Price  *planner.Price `yaml:"price_per_hour"`

	alternatives []planner.Alternative // of the catalogue
	Policy       configs.ModelPolicy   `yaml:"policy"`
}

type statedLead struct {
	P50 time.Duration `yaml:"p50"`
	P95 time.Duration `yaml:"p95"`
}

func defaultConfig() config {
	return config{
		Tick:       15 * time.Second,
		KEDA:       keda.DefaultConfig(),
		HTTP:       httpConfig{Listen: "127.0.0.1:8080"},
		Prometheus: prom.DefaultConfig(),
		Kubernetes: kube.DefaultConfig(),
		Forecast: forecastConfig{
			Method: forecast.Names()[0], Horizon: 30 * time.Minute, History: 14 * 24 * time.Hour, Paths: 200, Timezone: "UTC",
		},
		Policy:    configs.Policy{Seed: 1},
		GPUPrices: map[string]planner.Price{},
	}
}

// readConfig reads and checks a file; every problem is reported at once.
func readConfig(path string) (*config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseConfig(path, data)
}

func parseConfig(name string, data []byte) (*config, error) {
	c := defaultConfig()
	c.raw = data
	form := configs.Decode(name, data, &c)
	if form != nil && !errors.Is(form, configs.ErrForm) {
		return nil, form
	}
	// Keys of the wrong form keep their defaults, so that the ranges of all others can be checked with them.
	errs := []error{form}
	if err := c.validate(); err != nil {
		for _, l := range strings.Split(err.Error(), "\n") {
			errs = append(errs, fmt.Errorf("%s: %s", name, l))
		}
	}
	errs = append(errs, c.readEvents(name))
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &c, nil
}

// readEvents reads the calendar. An event about a model that there is not would be left out without a word.
func (c *config) readEvents(name string) error {
	if c.Events == "" {
		return nil
	}
	var err error
	if c.rawEvents, err = os.ReadFile(c.Events); err != nil {
		return fmt.Errorf("%s: events: %w", name, err)
	}
	loc := c.location
	if loc == nil {
		loc = time.UTC // the timezone is reported already
	}
	if c.calendar, err = configs.ReadEvents(c.Events, c.rawEvents, loc); err != nil {
		return err
	}
	var errs []error
	for _, model := range c.calendar.Models() {
		if !slices.Contains(c.modelNames(), model) {
			hint := ""
			if near := forecast.Nearest(model, c.modelNames()); near != "" {
				hint = fmt.Sprintf(" (did you mean %q?)", near)
			}
			errs = append(errs, fmt.Errorf("%s: an event is about model %q%s: the names under models are allowed: %s", c.Events, model,
				hint, strings.Join(c.modelNames(), ", ")))
		}
	}
	return errors.Join(errs...)
}

func (c *config) validate() error {
	var errs []error
	add := func(prefix string, err error) {
		if err == nil {
			return
		}
		for _, line := range strings.Split(err.Error(), "\n") {
			errs = append(errs, fmt.Errorf("%s%s", prefix, line))
		}
	}
	if c.Tick < time.Second || c.Tick > 5*time.Minute {
		add("", fmt.Errorf("tick is %v: 1s to 5m are allowed", c.Tick))
	}
	if _, _, err := net.SplitHostPort(c.HTTP.Listen); err != nil {
		add("", fmt.Errorf("http.listen is %q: host:port is allowed, such as 127.0.0.1:8080", c.HTTP.Listen))
	}
	if c.HTTP.Listen == c.KEDA.Listen && !strings.HasSuffix(c.HTTP.Listen, ":0") {
		add("", fmt.Errorf("http.listen is %q, as keda.listen: two addresses are needed", c.HTTP.Listen))
	}
	add("keda.", c.KEDA.Validate())
	add("prometheus.", c.Prometheus.Validate())
	add("kubernetes.", c.Kubernetes.Validate())
	add("", c.validateForecast())
	add("policy.", c.Policy.Planner().Validate())
	add("policy.", c.validateWriters())
	add("", c.validatePolicyNames())
	add("", c.validateKin())
	if len(c.Models) == 0 {
		add("", errors.New("models is empty: at least one model is needed"))
	}
	add("", prom.ValidateModels(c.promModels()))
	add("", c.validateGroups())
	for _, gpu := range slices.Sorted(maps.Keys(c.GPUPrices)) {
		if p := c.GPUPrices[gpu]; !(p > 0 && p <= priceMax) {
			add("", fmt.Errorf("gpu_prices_per_hour.%s is %v: above 0 to %d is allowed", gpu, p, priceMax))
		}
	}
	policy := c.policy()
	for i := range c.Models {
		add(fmt.Sprintf("models[%d] %q: ", i, c.Models[i].Name), c.Models[i].validate(policy.For(c.Models[i].Name)))
	}
	return errors.Join(errs...)
}

// validateWriters refuses authority over what nothing here writes: nodes of static pools and quotas. A plan would count on
// them, and say nothing of what is short.
func (c *config) validateWriters() error {
	var errs []error
	refuse := func(key string, a planner.Authority, what string) {
		if a == planner.Act {
			errs = append(errs, fmt.Errorf("%s is %s: %s or %s is allowed, for the daemon does not write %s", key, a,
				planner.Observe, planner.Advise, what))
		}
	}
	refuse("pools", c.Policy.Pools, "the nodes of static pools")
	if q := c.Policy.Quota; q != nil && q.Authority != nil {
		refuse("quota.authority", *q.Authority, "quotas")
	}
	return errors.Join(errs...)
}

// validatePolicyNames reports policies of models that there are not: a misspelt name would leave a model to the defaults.
func (c *config) validatePolicyNames() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.Policy.Models)) {
		if !slices.Contains(c.modelNames(), name) {
			errs = append(errs, fmt.Errorf("policy.models has %q: the names under models are allowed: %s", name,
				strings.Join(c.modelNames(), ", ")))
		}
	}
	return errors.Join(errs...)
}

// validateKin reports names in replaces and like that are no other model.
func (c *config) validateKin() error {
	var errs []error
	for i := range c.Models {
		m := &c.Models[i]
		for _, kin := range []struct{ key, name string }{{"replaces", m.Replaces}, {"like", m.Like}} {
			if kin.name != "" && (kin.name == m.Name || !slices.Contains(c.modelNames(), kin.name)) {
				errs = append(errs, fmt.Errorf("models[%d] %q: %s is %q: another name under models is allowed", i, m.Name, kin.key, kin.name))
			}
		}
		if m.Replaces != "" && m.Like != "" {
			errs = append(errs, fmt.Errorf("models[%d] %q: replaces is %q and like is %q: one of them is allowed", i, m.Name, m.Replaces, m.Like))
		}
	}
	return errors.Join(errs...)
}

func (c *config) validateForecast() error {
	var errs []error
	f := c.Forecast
	if !slices.Contains(forecast.Names(), f.Method) {
		errs = append(errs, fmt.Errorf("forecast.method is %q: %s are allowed", f.Method, strings.Join(forecast.Names(), ", ")))
	}
	if f.Horizon < time.Minute || f.Horizon > 24*time.Hour {
		errs = append(errs, fmt.Errorf("forecast.horizon is %v: 1m to 24h are allowed", f.Horizon))
	}
	if f.Horizon >= time.Minute && f.Horizon < c.Prometheus.Step {
		errs = append(errs, fmt.Errorf("forecast.horizon is %v: at least prometheus.step, %v, is allowed", f.Horizon, c.Prometheus.Step))
	}
	if f.History < time.Hour || f.History > 400*24*time.Hour {
		errs = append(errs, fmt.Errorf("forecast.history is %v: 1h to 9600h are allowed", f.History))
	}
	if f.Paths < 20 || f.Paths > 10_000 {
		errs = append(errs, fmt.Errorf("forecast.paths is %d: 20 to 10000 are allowed", f.Paths))
	}
	loc, err := time.LoadLocation(f.Timezone)
	if err != nil {
		errs = append(errs, fmt.Errorf("forecast.timezone is %q: an IANA name is allowed, such as Europe/Berlin", f.Timezone))
	}
	c.location = loc
	return errors.Join(errs...)
}

var startPaths = map[string]coldstart.Path{
	"cold_node": coldstart.ColdNode, "reclaimed_node": coldstart.ReclaimedNode, "warm_node": coldstart.WarmNode,
	"cached_weights": coldstart.CachedWeights, "any": coldstart.PathUnknown,
}

// weightsMaxGB is a hundred times the largest model published.
const weightsMaxGB = 200_000

// validate reports what is wrong with a model; policy is the one it would run under.
func (m *modelConfig) validate(policy planner.ModelPolicy) error {
	var errs []error
	errs = append(errs, m.Shape.Validate())
	if m.Profile != nil {
		errs = append(errs, m.Profile.Validate())
	}
	errs = append(errs, m.takeProfile())
	if m.EngineCosts && (m.Profile == nil || m.Profile.Physics == nil) {
		errs = append(errs, errors.New("learn_profile is true without physics to start from: a profile with physics or a profile_name is needed"))
	}
	if m.EngineCosts && m.Serves != "" {
		errs = append(errs, fmt.Errorf("learn_profile is true and serves is %q: the sizes of its requests are not seen, so it cannot be learned", m.Serves))
	}
	if !(m.WeightsGB >= 0 && m.WeightsGB <= weightsMaxGB) {
		errs = append(errs, fmt.Errorf("weights_gb is %v: 0 (unknown) to %v are allowed", m.WeightsGB, weightsMaxGB))
	}
	for _, name := range slices.Sorted(maps.Keys(m.LeadTimes)) {
		path, known := startPaths[name]
		if !known {
			errs = append(errs, fmt.Errorf("lead_times has %q: %s are allowed", name,
				strings.Join(slices.Sorted(maps.Keys(startPaths)), ", ")))
			continue
		}
		if _, err := m.LeadTimes[name].leadTime(path); err != nil {
			errs = append(errs, fmt.Errorf("lead_times.%s: %w", name, err))
		}
	}
	p := planner.Policy{Defaults: planner.DefaultModelPolicy(), Models: map[string]planner.ModelPolicy{m.Name: policy}}
	if err := p.Validate(); err != nil {
		errs = append(errs, errors.New(strings.ReplaceAll(err.Error(), "models."+m.Name+".", "policy.")))
	}
	return errors.Join(errs...)
}

// takeProfile puts the profile that the catalogue has under the name in the place of a stated one.
func (m *modelConfig) takeProfile() error {
	if m.ProfileName == "" {
		return nil
	}
	if m.Profile != nil {
		return fmt.Errorf("profile_name is %q and there is a profile too: one of them is allowed", m.ProfileName)
	}
	catalogue, err := configs.BuiltinCatalogue()
	if err != nil {
		return err
	}
	entry, err := catalogue.Find(m.ProfileName)
	if err != nil {
		return fmt.Errorf("profile_name: %w", err)
	}
	p := entry.Profile()
	m.Profile, m.alternatives = &p, catalogue.Alternatives(m.ProfileName)
	return nil
}

// seesDemandAtZero reports whether demand is counted where it arrives: with no replica left, the replicas' own metrics
// would say for ever that nobody asks. A source found automatically does not count: it may go as it came.
func (m *modelConfig) seesDemandAtZero() bool {
	a := m.Arrivals
	return a.Source == prom.ArrivalsGIE || a.Source == prom.ArrivalsCustom && len(a.Requests)+len(a.Queue) > 0
}

func (s statedLead) leadTime(path coldstart.Path) (coldstart.LeadTime, error) {
	if s.P95 == 0 {
		return coldstart.StatedDuration(path, s.P50, coldstart.DefaultSpread(path))
	}
	return coldstart.StatedQuantiles(path, s.P50, s.P95)
}

func (c *config) promModels() []prom.ModelConfig {
	out := make([]prom.ModelConfig, len(c.Models))
	for i := range c.Models {
		out[i] = c.Models[i].ModelConfig
	}
	return out
}

func (c *config) kubeModels() []kube.Model {
	out := make([]kube.Model, len(c.Models))
	for i := range c.Models {
		m := &c.Models[i]
		out[i] = kube.Model{Name: m.Name, Pods: m.Shape.Pods}
		for _, w := range m.Workloads {
			out[i].Workloads = append(out[i].Workloads, kube.Workload{Namespace: w.Namespace, Kind: w.Kind, Name: w.Name})
		}
	}
	return out
}

func (c *config) modelNames() []string {
	out := make([]string, len(c.Models))
	for i := range c.Models {
		out[i] = c.Models[i].Name
	}
	return out
}

// policy is the planner's policy with every model's own laid over the defaults.
func (c *config) policy() planner.Policy {
	p := c.Policy.Planner()
	if p.Models == nil {
		p.Models = map[string]planner.ModelPolicy{}
	}
	for i := range c.Models {
		base, ok := p.Models[c.Models[i].Name]
		if !ok {
			base = p.Defaults
		}
		p.Models[c.Models[i].Name] = c.Models[i].Policy.Over(base)
	}
	return p
}

// ledger holds the stated lead times and the starts of every model's file.
func (c *config) ledger() (*coldstart.Ledger, error) {
	ledger, err := coldstart.NewLedger(coldstart.Options{})
	if err != nil {
		return nil, err
	}
	for i := range c.Models {
		m := &c.Models[i]
		for _, name := range slices.Sorted(maps.Keys(m.LeadTimes)) {
			lt, err := m.LeadTimes[name].leadTime(startPaths[name])
			if err != nil {
				return nil, fmt.Errorf("models[%d] %q: lead_times.%s: %w", i, m.Name, name, err)
			}
			if err := ledger.SetStated(coldstart.Key{Model: m.Name, Path: lt.Path}, lt); err != nil {
				return nil, err
			}
		}
		if m.WeightsGB > 0 {
			if err := ledger.SetWeights(m.Name, max(1, int64(m.WeightsGB*1e9))); err != nil {
				return nil, fmt.Errorf("models[%d] weights_gb: %w", i, err)
			}
		}
		if err := m.addStarts(ledger); err != nil {
			return nil, err
		}
	}
	return ledger, nil
}

// fileStart begins the ids of starts that come from a starts_file. No pod's UID does.
const fileStart = "starts_file/"

func fromFile(s coldstart.Sample) bool { return strings.HasPrefix(s.ID, fileStart) }

func (m *modelConfig) addStarts(ledger *coldstart.Ledger) error {
	if m.StartsFile == "" {
		return nil
	}
	f, err := os.Open(m.StartsFile)
	if err != nil {
		return fmt.Errorf("starts_file of %q: %w", m.Name, err)
	}
	defer f.Close()
	samples, err := coldstart.ReadSamples(f)
	if err != nil {
		return fmt.Errorf("%s: %w", m.StartsFile, err)
	}
	for _, s := range samples {
		if s.Key.Model != m.Name {
			continue // one file may hold the starts of several models
		}
		if s.Key.Shape == "" {
			s.Key.Shape = m.Shape.String()
		}
		s.ID = fileStart + m.Name + "/" + s.ID // ids are unique in a file only, above all those that count its records
		if err := ledger.Add(s); err != nil {
			return fmt.Errorf("%s: %w", m.StartsFile, err)
		}
	}
	return nil
}

// trackerConfig is the configuration of the planner's Tracker.
func (c *config) trackerConfig(ledger *coldstart.Ledger) planner.TrackerConfig {
	t := planner.TrackerConfig{
		Step: c.Prometheus.Step, Horizon: c.Forecast.Horizon, Interval: c.Tick, Paths: c.Forecast.Paths,
		History: c.Forecast.History,
		Method:  c.Forecast.Method, Seed: c.Policy.Seed, Location: c.location, Ledger: ledger,
		Events: c.calendar,
	}
	for i := range c.Models {
		m := &c.Models[i]
		c.price(m)
		tracked := planner.TrackedModel{Name: m.Name, Shape: m.Shape, Profile: m.Profile, Serves: m.Serves, Role: m.Role, Price: m.Price,
			Alternatives: m.alternatives}
		if m.EngineCosts {
			tracked.Learn = &planner.LearnerConfig{}
		}
		t.Models = append(t.Models, tracked)
	}
	return t
}
