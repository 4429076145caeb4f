package planner

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"forewarm/coldstart"
	"forewarm/forecast"
)

// TestScenarios runs testdata/scenarios/*. A scenario sets facts, one kind at a time, and asks for Decisions; facts stay
// until they are set again, the clock moves only when told, and Memory goes from each Decision into the next State. It is
// Monday 2026-03-02, the interval is 15 s, and nothing is known at first. M is a model's name; `M unknown` takes a fact
// away again. Every number is a plain number in the planner's units; durations are Go's (90s, 5m).
//
//	clock HH:MM:SS                           sets the time (also back)
//	advance D                                moves it
//	restart [memory=lost]                    the process ends; without Memory when it is lost
//	nodes pool=P gpus=8 [product=X] [launchable=N] [no-stock]
//	  NAME free=3 [domain=D] [unusable]      one line per node; N is how many more nodes the limits allow
//	                                         also: only-for=M,N cpu=MILLI pods=N tenant=POD:GPUS[:MODEL[:PRIORITY]] pinned=POD
//	                                         pools also: launching=N spot static nodes-max=N sharing=S group=G failed=AGE
//	                                         failed-at=TYPE/ZONE:AGE offers=TYPE/ZONE,… reservation=NODES:USED:FROM:TO
//	                                         empty-cpu=MILLI; nodes also: launching ends=D. FROM and TO are from now
//	nodes unknown | stale
//	quota QUEUE flavor=F nominal=N used=N    also: reserved=N waiting=N cohort=C models=M,N pools=P,Q lending=N borrowing=N
//	authority pools=A | quota=A [drain=D] [donors=QUEUE:LEAST,…]
//	slots                                    what the free GPUs are worth to each model
//	model M shape=4x1 [topology=T] [product=X] [cpu=MILLI] prompt=R completion=R | shape=4x1 noprofile
//	                                         also: serves=M2 role=prefill|decode price=PERHOUR
//	alternative M name=A gpus=N kv=N sequences=N [price=PERHOUR]
//	leadtime M PATH=D[,D…] [fail=P]          measured starts of equal weight; PATH is cold_node, warm_node, cached_weights
//	leadtime M stated PATH=P50,P95           typed in by a person
//	weights M [NODE…]                        the nodes on which earlier starts left image and weights
//	replicas M ready=N [starting=N age=D [path=PATH] [pending=N]] [leaving=N] [desired=N] [surge=N]
//	load M prompt=R completion=R [age=D] [at-least]
//	signals M [waiting=N|missing] [running=N] [prompt=TOKENS completion=TOKENS]
//	forecast M [noauthority]                 starts now, steps of one minute; one line per group of equal joint paths:
//	  N prompt SERIES completion SERIES
//	coverage M forecasts=N | unknown         how often the quantiles of the peak have held, of the forecast as it is set
//	  prompt|completion P:SHARE …
//	history M method=NAME                    a Tracker learns the minutes that end now; the next call continues them
//	  prompt|completion|requests SERIES
//	events                                   the calendar of Trackers made later; one event per line:
//	  NAME HH:MM for=D ×MULTIPLIER           today
//	evidence M snapshot=FILE | none          what testdata/diagnose/FILE saw of a model and the cluster, as of now
//	launches-failed POOL=N                   how many launches failed for lack of stock within the last 15 min
//	hpa M [up=T] [down=T] [pods=N] [max=N] [desired=N] [no-scale-out]
//	                                         how the autoscaler is set up, see scenario.hpa
//	paused M
//	policy M [authority=…] [level=τ] [min=N] [max=N] [window=D] [drain=D] [drainwithin=D] [queue=N] [maxage=D]
//	                                         [priority=N] [mode=cost shortage=Cu idle=Co] [survive=node|zone|spot-pool] [standby=M2:SHARE]
//	decide [brief] [writes] [admission]      one Decision, in full or one line per model; with what is to be written, or
//	                                         with what a gateway may let in
//	explain M [anew]                         the newest shortage of all decisions so far (since the last explain anew), and
//	                                         what would have prevented it; one line per phase of a start that could be
//	                                         shorter: PATH PHASE FROM TO
//	watch M for=D [every=D] [starts=D]       decides again and again; prints the plan whenever it changes. The load is what
//	                                         the first path says. With starts, what is planned beyond the supply starts at
//	                                         once and is ready after D, and what is planned below it goes at once, starting
//	                                         replicas first; without it the replicas stay as set.
//
// A SERIES is Prometheus-like: 6000x5 is five values of 6000, 6000+50x5 is 6000, 6050 … 6200, _x5 is five missing ones.
// `go test ./planner -run TestScenarios -rewrite` writes the golden text anew; commit only differences you can explain.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		w := newScenario()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return w.run(t, d) })
	})
}

// scenario is the facts and the policy of one file.
type scenario struct {
	now       time.Time
	models    map[string]*scenarioModel
	names     []string // ascending
	inventory *Inventory
	policy    Policy
	memory    Memory
	gaps      []Gap
	quotas    []Quota
	calendar  *forecast.Calendar
	cluster   *ClusterEvidence
	records   []Recorded // of every decision
}

type scenarioModel struct {
	state   ModelState
	load    *ObservedLoad
	tracker *Tracker
}

func newScenario() *scenario {
	return &scenario{
		now:    time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC),
		models: map[string]*scenarioModel{},
		policy: Policy{Seed: 1, Defaults: DefaultModelPolicy(), Models: map[string]ModelPolicy{}},
	}
}

func (w *scenario) run(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	commands := map[string]func(*testing.T, *datadriven.TestData) string{
		"clock": w.clock, "advance": w.advance, "restart": w.restart, "nodes": w.nodes, "model": w.model,
		"leadtime": w.leadtime, "replicas": w.replicas, "load": w.loadNow, "signals": w.signals, "forecast": w.forecast,
		"history": w.history, "events": w.events, "paused": w.paused, "policy": w.setPolicy, "decide": w.decide,
		"requests": w.requests, "watch": w.watch, "alternative": w.alternative, "weights": w.weights, "slots": w.slots,
		"quota": w.quota, "authority": w.authority, "launches-failed": w.launchesFailed,
		"coverage": w.coverage, "evidence": w.evidence, "hpa": w.hpa, "explain": w.explain,
	}
	run := commands[d.Cmd]
	if run == nil {
		d.Fatalf(t, "unknown command %q", d.Cmd)
	}
	return run(t, d)
}

func (w *scenario) clock(t *testing.T, d *datadriven.TestData) string {
	at, err := time.Parse(time.TimeOnly, d.CmdArgs[0].Key)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	w.now = time.Date(w.now.Year(), w.now.Month(), w.now.Day(), at.Hour(), at.Minute(), at.Second(), 0, time.UTC)
	return ""
}

func (w *scenario) advance(t *testing.T, d *datadriven.TestData) string {
	w.now = w.now.Add(parseDuration(t, d, d.CmdArgs[0].Key))
	return ""
}

func (w *scenario) restart(t *testing.T, d *datadriven.TestData) string {
	if textArg(t, d, "memory", "kept") == "lost" {
		w.memory = Memory{}
	}
	return ""
}

func (w *scenario) model(t *testing.T, d *datadriven.TestData) string {
	name := d.CmdArgs[0].Key
	if w.models[name] == nil {
		w.names = append(w.names, name)
		w.models[name] = &scenarioModel{}
	}
	m := &w.models[name].state
	m.Name = name
	if _, err := fmt.Sscanf(textArg(t, d, "shape", ""), "%dx%d", &m.Shape.GPUs, &m.Shape.Pods); err != nil {
		d.Fatalf(t, "shape: %v", err)
	}
	m.Shape.Topology, m.Shape.Product = textArg(t, d, "topology", ""), textArg(t, d, "product", "")
	m.Serves, m.Role, m.Price = textArg(t, d, "serves", ""), Role(textArg(t, d, "role", "")), nil
	if d.HasArg("price") {
		price := Price(floatArg(t, d, "price"))
		m.Price = &price
	}
	m.Shape.CPU = 0
	if d.HasArg("cpu") {
		m.Shape.CPU = MilliCPU(floatArg(t, d, "cpu"))
	}
	m.Profile, m.Requests = nil, nil
	switch {
	case d.HasArg("physics"):
		m.Profile = w.physics(t, d)
	case !d.HasArg("noprofile"):
		m.Profile = &Profile{Prompt: TokenRate(floatArg(t, d, "prompt")), Completion: TokenRate(floatArg(t, d, "completion"))}
	}
	return ""
}

// physics is an 8B model on one H100, with the KV tokens and sequences of the arguments, made for 1000 prompt and 200
// completion tokens that spread as much as an exponential distribution.
func (w *scenario) physics(t *testing.T, d *datadriven.TestData) *Profile {
	p := benchPhysics()
	p.PrefixHit = nil
	p.KVTokens = Tokens(floatArg(t, d, "kv"))
	p.MaxSequences = int(floatArg(t, d, "sequences"))
	return &Profile{Physics: p, Source: "8B on H100, prior"}
}

// alternative adds another shape with the physics of the same model and other KV tokens.
func (w *scenario) alternative(t *testing.T, d *datadriven.TestData) string {
	m := w.named(t, d)
	a := Alternative{Name: textArg(t, d, "name", ""), GPUs: int(floatArg(t, d, "gpus")), Profile: *w.physics(t, d)}
	if d.HasArg("price") {
		price := Price(floatArg(t, d, "price"))
		a.Price = &price
	}
	m.state.Alternatives = append(m.state.Alternatives, a)
	return ""
}

// requests sets the observed mean sizes of a request.
func (w *scenario) requests(t *testing.T, d *datadriven.TestData) string {
	m := w.named(t, d)
	m.state.Requests = nil
	if !d.HasArg("unknown") {
		m.state.Requests = &RequestMix{Prompt: Tokens(floatArg(t, d, "prompt")), Completion: Tokens(floatArg(t, d, "completion"))}
	}
	return ""
}

func (w *scenario) leadtime(t *testing.T, d *datadriven.TestData) string {
	m := w.named(t, d)
	m.state.LeadTimes = nil
	if d.HasArg("unknown") {
		return ""
	}
	fail := 0.0
	if d.HasArg("fail") {
		fail = floatArg(t, d, "fail")
	}
	for _, a := range d.CmdArgs[1:] {
		if a.Key == "stated" || a.Key == "fail" {
			continue
		}
		path := coldstart.Path(a.Key)
		var times []time.Duration
		for _, v := range strings.Split(strings.Join(a.Vals, ","), ",") {
			times = append(times, parseDuration(t, d, v))
		}
		if d.HasArg("stated") {
			lt, err := coldstart.StatedQuantiles(path, times[0], times[1])
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			m.state.LeadTimes = append(m.state.LeadTimes, lt)
			continue
		}
		lt := measured(path, times...)
		lt.FailureProb = fail
		m.state.LeadTimes = append(m.state.LeadTimes, lt)
	}
	return ""
}

// measured is a lead time of equally likely, ascending times.
func measured(path coldstart.Path, times ...time.Duration) coldstart.LeadTime {
	lt := coldstart.LeadTime{Path: path, Basis: coldstart.Measured, Samples: len(times), Support: times}
	for i := range times {
		lt.CDF = append(lt.CDF, float64(i+1)/float64(len(times)))
	}
	return lt
}

func (w *scenario) replicas(t *testing.T, d *datadriven.TestData) string {
	m := w.named(t, d)
	if d.HasArg("unknown") {
		m.state.Replicas = nil
		return ""
	}
	r := &Replicas{Ready: int(floatArg(t, d, "ready"))}
	if d.HasArg("leaving") {
		r.Leaving = int(floatArg(t, d, "leaving"))
	}
	if d.HasArg("desired") {
		desired := int(floatArg(t, d, "desired"))
		r.Desired = &desired
	}
	if d.HasArg("starting") {
		since := w.now.Add(-parseDuration(t, d, textArg(t, d, "age", "")))
		for i := range int(floatArg(t, d, "starting")) {
			path := coldstart.Path(textArg(t, d, "path", string(coldstart.WarmNode)))
			r.Starting = append(r.Starting, StartingReplica{ID: fmt.Sprintf("pod-%d", i), Since: since, Path: path})
		}
	}
	if d.HasArg("pending") {
		for i := range int(floatArg(t, d, "pending")) {
			r.Starting[i].Pending = true
		}
	}
	if d.HasArg("surge") {
		surge := int(floatArg(t, d, "surge"))
		r.MaxSurge = &surge
	}
	m.state.Replicas = r
	return ""
}

func (w *scenario) loadNow(t *testing.T, d *datadriven.TestData) string {
	m := w.named(t, d)
	m.load = nil
	if d.HasArg("unknown") {
		return ""
	}
	m.load = &ObservedLoad{
		Load:       Load{Prompt: TokenRate(floatArg(t, d, "prompt")), Completion: TokenRate(floatArg(t, d, "completion"))},
		LowerBound: d.HasArg("at-least"),
	}
	if d.HasArg("requests") {
		m.load.Requests = RequestRate(floatArg(t, d, "requests"))
	}
	m.load.At = w.now.Add(-parseDuration(t, d, textArg(t, d, "age", "0s")))
	return ""
}

func (w *scenario) signals(t *testing.T, d *datadriven.TestData) string {
	m := w.named(t, d)
	m.state.Signals = Signals{}
	w.gaps = nil
	if textArg(t, d, "waiting", "") == "missing" {
		w.gaps = append(w.gaps, Gap{Model: m.state.Name, Fact: "waiting", Since: w.now})
	} else if d.HasArg("waiting") {
		waiting := floatArg(t, d, "waiting")
		m.state.Signals.Waiting = &waiting
	}
	if d.HasArg("running") {
		running := floatArg(t, d, "running")
		m.state.Signals.Running = &running
	}
	if d.HasArg("prompt") {
		m.state.Signals.Backlog = &Backlog{Prompt: Tokens(floatArg(t, d, "prompt")), Completion: Tokens(floatArg(t, d, "completion"))}
	}
	return ""
}

func (w *scenario) paused(t *testing.T, d *datadriven.TestData) string {
	w.named(t, d).state.Actuator = &Actuator{ScaleUpTolerance: 0.1, Paused: true}
	return ""
}

func (w *scenario) setPolicy(t *testing.T, d *datadriven.TestData) string {
	name := d.CmdArgs[0].Key
	p := w.policy.For(name)
	for _, a := range d.CmdArgs[1:] {
		v := a.Vals[0]
		switch a.Key {
		case "authority":
			p.Authority = Authority(v)
		case "level":
			p.ServiceLevel = parseFloat(t, d, v)
		case "min":
			p.ReplicasMin = int(parseFloat(t, d, v))
		case "max":
			p.ReplicasMax = int(parseFloat(t, d, v))
		case "priority":
			p.Priority = int(parseFloat(t, d, v))
		case "mode":
			p.Mode = Mode(v)
		case "shortage":
			p.ShortageCost = parseFloat(t, d, v)
		case "idle":
			p.IdleCost = parseFloat(t, d, v)
		case "survive":
			p.Survive = Survival(v)
		case "standby":
			name, share, _ := strings.Cut(v, ":")
			p.Standby = &Standby{For: name, Share: parseFloat(t, d, share)}
		case "queue":
			p.QueueThreshold = parseFloat(t, d, v)
		case "window":
			p.ScaleDownWindow = parseDuration(t, d, v)
		case "ttft":
			p.TTFT = parseDuration(t, d, v)
		case "itl":
			p.ITL = parseDuration(t, d, v)
		case "drain":
			p.DrainTime = parseDuration(t, d, v)
		case "drainwithin":
			p.DrainWithin = parseDuration(t, d, v)
		case "maxage":
			p.LoadMaxAge = parseDuration(t, d, v)
		default:
			d.Fatalf(t, "unknown policy key %q", a.Key)
		}
	}
	w.policy.Models[name] = p
	return ""
}

func (w *scenario) nodes(t *testing.T, d *datadriven.TestData) string {
	if d.HasArg("unknown") {
		w.inventory = nil
		return ""
	}
	if d.HasArg("stale") {
		w.inventory.At = w.now.Add(-inventoryMaxAge - time.Second)
		return ""
	}
	p := Pool{Name: textArg(t, d, "pool", ""), Product: textArg(t, d, "product", ""), NoStock: d.HasArg("no-stock"),
		GPUsPerNode: int(floatArg(t, d, "gpus"))}
	if d.HasArg("launchable") {
		n := int(floatArg(t, d, "launchable"))
		p.Launchable = &n
	}
	w.poolFacts(t, d, &p)
	for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		n := Node{Name: fields[0], GPUs: p.GPUsPerNode, Usable: true}
		for _, f := range fields[1:] {
			key, value, _ := strings.Cut(f, "=")
			switch key {
			case "free":
				n.FreeGPUs = int(parseFloat(t, d, value))
			case "domain":
				n.Domain = value
			case "zone":
				n.Zone = value
			case "unusable":
				n.Usable = false
			case "launching":
				n.Usable, n.Launching = false, true
			case "ends":
				ends := w.now.Add(parseDuration(t, d, value))
				n.Ends = &ends
			default:
				nodeFact(t, d, &n, key, value)
			}
		}
		p.Nodes = append(p.Nodes, n)
	}
	w.addPool(p)
	return drawNodes(p)
}

func (w *scenario) addPool(p Pool) {
	if w.inventory == nil {
		w.inventory = &Inventory{}
	}
	for i := range w.inventory.Pools {
		if w.inventory.Pools[i].Name == p.Name {
			w.inventory.Pools[i] = p
			return
		}
	}
	w.inventory.Pools = append(w.inventory.Pools, p)
}

// drawNodes is a pool's map: # is a GPU in use, . a free one, x one on a node that cannot be used.
func drawNodes(p Pool) string {
	var b strings.Builder
	for _, n := range p.Nodes {
		used, free := "#", "."
		if !n.Usable {
			used, free = "x", "x"
		}
		fmt.Fprintf(&b, "%s/%s %s%s", p.Name, n.Name, strings.Repeat(used, n.GPUs-n.FreeGPUs), strings.Repeat(free, n.FreeGPUs))
		if n.Domain != "" {
			b.WriteString(" in " + n.Domain)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (w *scenario) named(t *testing.T, d *datadriven.TestData) *scenarioModel {
	t.Helper()
	m := w.models[d.CmdArgs[0].Key]
	if m == nil {
		d.Fatalf(t, "no model %q: the model command comes first", d.CmdArgs[0].Key)
	}
	return m
}

func textArg(t *testing.T, d *datadriven.TestData, key, otherwise string) string {
	t.Helper()
	if !d.HasArg(key) {
		return otherwise
	}
	var v string
	d.ScanArgs(t, key, &v)
	return v
}

func floatArg(t *testing.T, d *datadriven.TestData, key string) float64 {
	t.Helper()
	if !d.HasArg(key) {
		d.Fatalf(t, "%s= is needed", key)
	}
	return parseFloat(t, d, textArg(t, d, key, ""))
}
