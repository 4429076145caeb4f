package planner_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"forewarm/planner"
	"forewarm/sim/engine"
)

// scraper runs one replica under a load and reads its metrics every 15 s, as an engine exports them.
type scraper struct {
	*engine.Engine
	random *rand.Rand
	at     float64 // of the next arrival, in ps
	now    engine.Time
	last   engine.Snapshot
}

func newScraper(t *testing.T, p planner.Physics, seed uint64) *scraper {
	t.Helper()
	e, err := engine.New(engineConfig(p))
	if err != nil {
		t.Fatal(err)
	}
	return &scraper{Engine: e, random: rand.New(rand.NewPCG(seed, 1))}
}

// scrape lets 15 s pass at a rate of requests and returns the interval's sample.
func (s *scraper) scrape(rate float64, mix planner.RequestMix, age time.Duration) planner.EngineSample {
	var running, held float64
	const looks = 15
	for range looks {
		s.now += engine.Of(time.Second)
		for s.at < float64(s.now) {
			s.Advance(engine.Time(s.at), nil)
			_, err := s.Add(engine.Request{Prompt: 1 + int32(s.random.ExpFloat64()*float64(mix.Prompt)),
				Completion: 1 + int32(s.random.ExpFloat64()*float64(mix.Completion))})
			if err != nil {
				panic(err)
			}
			s.at += s.random.ExpFloat64() / rate * 1e12
		}
		s.Advance(s.now, nil)
		look := s.Look()
		running += float64(look.Running) / looks
		held += float64(look.KVBlocks) * 16 / looks
	}
	look := s.Look()
	d := s.last
	s.last = look
	iterations := float64(look.Iterations - d.Iterations)
	return planner.EngineSample{Age: age, Running: planner.Ratio(running), KVTokens: planner.Tokens(held),
		ITL:    planner.Milliseconds((look.Busy - d.Busy).Seconds() * 1e3 / iterations),
		Prompt: planner.TokenRate(float64(look.Prefilled-d.Prefilled) / 15), Requests: mix}
}

// learnerFrom starts with every coefficient of the truth wrong by a third, in turn too large and too small.
func learnerFrom(t *testing.T, truth planner.Physics) *planner.Learner {
	t.Helper()
	wrong := truth
	wrong.Iteration *= 1.33
	wrong.Prefill *= 0.7
	wrong.Decode *= 1.33
	wrong.Attention *= 0.7
	wrong.PrefillAttention *= 0.7
	l, err := planner.NewLearner(wrong, planner.LearnerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// rate is a load that wanders through a day between a fifth and four fifths of what the replica carries.
func wander(i int) float64 { return 11 + 7*math.Sin(float64(i)/40) }

func capacityOff(l *planner.Learner, truth planner.Physics) float64 {
	slo := planner.SLO{TTFT: 2 * time.Second, ITL: 50 * time.Millisecond, Percentile: 0.95}
	mix := planner.RequestMix{Prompt: 1000, Completion: 200, PromptCV: 1, CompletionCV: 1}
	p := l.Physics()
	return float64(p.Capacity(mix, slo, 1).Requests/truth.Capacity(mix, slo, 1).Requests) - 1
}

// Metrics of the engine's own iterations, from a start that is a third off: the capacity is right within 10 % after two
// hours, and on the way it never moves by more than the step cap allows.
func TestLearnerFindsTheCapacity(t *testing.T) {
	truth := chat8B()
	l := learnerFrom(t, truth)
	s := newScraper(t, truth, 1)
	start := capacityOff(l, truth)
	before := l.Published
	for i := range 480 {
		if lesson := l.Learn(s.scrape(wander(i), truth.Requests, time.Hour)); !lesson.Used || lesson.Drift {
			t.Fatalf("sample %d: %+v", i, lesson)
		}
		for k := range before {
			if step := math.Abs(l.Published[k]/before[k] - 1); step > 0.05+1e-12 {
				t.Fatalf("sample %d moves coefficient %d by %.3f of itself", i, k, step)
			}
		}
		before = l.Published
	}
	end := capacityOff(l, truth)
	t.Logf("the capacity is off by %+.1f %% at the start and by %+.1f %% at the end", 100*start, 100*end)
	if math.Abs(end) > 0.1 || math.Abs(start) < 0.15 {
		t.Errorf("the capacity is off by %+.1f %% at the start and by %+.1f %% at the end", 100*start, 100*end)
	}
}

// Fresh replicas are slow while they compile and capture. Their samples are left out, and a wild sample of an old one
// changes next to nothing.
func TestLearnerLeavesOutWarmUpAndResistsOutliers(t *testing.T) {
	truth := chat8B()
	l := learnerFrom(t, truth)
	s := newScraper(t, truth, 2)
	for i := range 240 {
		l.Learn(s.scrape(wander(i), truth.Requests, time.Hour))
	}
	was, before := *l, capacityOff(l, truth)
	slow := s.scrape(10, truth.Requests, time.Minute)
	slow.ITL *= 20
	for range 100 {
		if lesson := l.Learn(slow); lesson.Used || !strings.Contains(lesson.Why, "1m old") {
			t.Fatalf("a sample of a fresh replica: %+v", lesson)
		}
	}
	if *l != was {
		t.Error("samples of a fresh replica changed the learner")
	}
	unknown := s.scrape(10, truth.Requests, time.Hour)
	unknown.Prompt = planner.TokenRate(math.NaN())
	if lesson := l.Learn(unknown); lesson.Used || *l != was {
		t.Errorf("an unknown prompt rate: %+v", lesson)
	}
	slow.Age = time.Hour
	for range 3 {
		l.Learn(slow)
		for range 10 {
			l.Learn(s.scrape(10, truth.Requests, time.Hour))
		}
	}
	if after := capacityOff(l, truth); math.Abs(after-before) > 0.05 {
		t.Errorf("three wild samples move the capacity from %+.1f to %+.1f %%", 100*before, 100*after)
	}
}

// An engine that becomes slower by a half is noticed within 30 samples (7.5 minutes) and learned anew.
func TestLearnerNoticesDrift(t *testing.T) {
	truth := chat8B()
	l := learnerFrom(t, truth)
	s := newScraper(t, truth, 3)
	for i := range 300 {
		l.Learn(s.scrape(wander(i), truth.Requests, time.Hour))
	}
	slower := truth
	slower.Iteration *= 1.5
	slower.Prefill *= 1.5
	slower.Decode *= 1.5
	slower.Attention *= 1.5
	slower.PrefillAttention *= 1.5
	s = newScraper(t, slower, 4)
	noticed := -1
	for i := range 400 {
		if lesson := l.Learn(s.scrape(0.6*wander(i), truth.Requests, time.Hour)); lesson.Drift && noticed < 0 {
			noticed = i
		}
	}
	if noticed < 0 || noticed > 30 {
		t.Errorf("the drift is noticed at sample %d", noticed)
	}
	if off := capacityOff(l, slower); math.Abs(off) > 0.1 {
		t.Errorf("the capacity of the slower engine is off by %+.1f %%", 100*off)
	}
	longer := planner.RequestMix{Prompt: 3000, Completion: 200}
	if lesson := l.Learn(s.scrape(2, longer, time.Hour)); !lesson.Drift || !strings.Contains(lesson.Why, "3000 prompt") {
		t.Errorf("prompts three times as long: %+v", lesson)
	}
}
