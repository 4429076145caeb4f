package configs

import (
	"bytes"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"forewarm/planner"
)

func TestDecodeReportsEveryProblemWithItsLine(t *testing.T) {
	var v struct {
		Name  string        `yaml:"name"`
		Wait  time.Duration `yaml:"wait"`
		Count int           `yaml:"count"`
		On    bool          `yaml:"on"`
		List  []string      `yaml:"list"`
		Inner struct {
			X float64 `yaml:"x"`
		} `yaml:"inner"`
	}
	err := Decode("f.yaml", []byte("name: [a]\nwait: 30\ncount: many\non: perhaps\nlist: {a: 1}\ninner: {x: wide, y: 1}\nmore: 1\n"), &v)
	if err == nil {
		t.Fatal("accepted")
	}
	want := []string{
		`f.yaml:1: a list is not a text`,
		`f.yaml:2: "30" is not a duration: a number with a unit is allowed, such as 30s, 5m or 1h30m`,
		`f.yaml:3: "many" is not a whole number`,
		`f.yaml:4: "perhaps" is not true or false`,
		`f.yaml:5: a mapping is not a list`,
		`f.yaml:6: "wide" is not a number`,
		`f.yaml:6: unknown key "y"`,
		`f.yaml:7: unknown key "more"`,
	}
	if got := err.Error(); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	err = Decode("f.yaml", []byte("count: 2.7\ninner: {x: 1.5}\n"), &v)
	if err == nil || err.Error() != `f.yaml:1: "2.7" is not a whole number` || !errors.Is(err, ErrForm) {
		t.Errorf("a fraction for a whole number gives %v", err)
	}
	if err := Decode("f.yaml", []byte("name: x\nwait: 90s\n"), &v); err != nil || v.Wait != 90*time.Second {
		t.Errorf("a right document gives %v, %+v", err, v)
	}
	if err := Decode("f.yaml", nil, &v); err != nil || v.Name != "x" {
		t.Errorf("an empty document gives %v and changes the defaults to %+v", err, v)
	}
}

func TestReadPolicy(t *testing.T) {
	p, err := ReadPolicy("p.yaml", []byte("seed: 3\ndefaults: {service_level: 0.99}\nmodels: {a: {replicas_min: 2}, b: {service_level: 0.9}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	built := planner.DefaultModelPolicy()
	for _, tt := range []struct {
		model string
		level float64
		min   int
	}{{"a", 0.99, 2}, {"b", 0.9, built.ReplicasMin}, {"c", 0.99, built.ReplicasMin}} {
		m := p.For(tt.model)
		if m.ServiceLevel != tt.level || m.ReplicasMin != tt.min || m.DrainTime != built.DrainTime {
			t.Errorf("policy of %s is %+v", tt.model, m)
		}
	}
	p, err = ReadPolicy("p.yaml", []byte("quota: {donors: {batch: 4}}\n"))
	if want := (&planner.QuotaPolicy{Authority: planner.Observe, DrainTime: 10 * time.Minute, Donors: map[string]int{"batch": 4}}); err != nil ||
		!reflect.DeepEqual(p.Quota, want) {
		t.Errorf("%v: got %+v, want the defaults with a donor", err, p.Quota)
	}
	_, err = ReadPolicy("p.yaml", []byte("pools: rule\nquota: {drain_time: 90h, donors: {batch: -1}}\n"+
		"defaults: {service_level: 2}\nmodels: {a: {replicas_min: -2, authority: rule}}\n"))
	for _, want := range []string{"p.yaml: ", `pools is "rule": observe, advise or act are allowed`, "quota.drain_time is 90h: 0s to 24h are allowed",
		"quota.donors.batch is -1: the GPUs that it keeps, at least 0", "defaults.service_level is 2", "models.a.replicas_min is -2", `models.a.authority is "rule"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
}

func TestWrittenPolicyReadsBack(t *testing.T) {
	want := planner.Policy{Seed: 1<<63 + 7, Defaults: planner.DefaultModelPolicy(), Models: map[string]planner.ModelPolicy{}}
	m := planner.DefaultModelPolicy()
	m.Authority, m.ReplicasMin, m.ReplicasMax, m.ServiceLevel, m.QueueThreshold = planner.Act, 2, 12, 0.99, 7.5
	m.ScaleDownWindow, m.DrainTime, m.DrainWithin, m.LoadMaxAge = 90*time.Second, 1500*time.Millisecond, 2*time.Minute, time.Hour
	want.Models["chat: 70b"] = m
	want.Pools = planner.Advise
	want.Quota = &planner.QuotaPolicy{Authority: planner.Act, DrainTime: 25 * time.Minute, Donors: map[string]int{"batch": 4, "train": 0}}
	var text bytes.Buffer
	if err := WritePolicy(&text, want); err != nil {
		t.Fatal(err)
	}
	got, err := ReadPolicy("p.yaml", text.Bytes())
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n got %+v\nwant %+v\n%s", err, got, want, text.String())
	}
}

func TestExampleNamesWhatThereIs(t *testing.T) {
	if _, err := Example("nothing.yaml"); err == nil || !strings.Contains(err.Error(), "scaledobject.yaml") {
		t.Errorf("got %v", err)
	}
}

// The README shows the ScaledObject to paste; it must be the file that tests apply.
func TestReadmeShowsTheScaledObject(t *testing.T) {
	object, err := Example("scaledobject.yaml")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), "```yaml\n"+string(object)+"```") {
		t.Error("README.md does not contain configs/scaledobject.yaml as it is")
	}
}

func FuzzReadPolicy(f *testing.F) {
	f.Add([]byte("seed: 3\ndefaults: {service_level: 0.99}\n"))
	f.Add([]byte("models: {a: {replicas_min: 2, drain_time: 5m}}"))
	f.Add([]byte("{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ReadPolicy("f", data)
		if err == nil && p.Validate() != nil {
			t.Error("an invalid policy was accepted")
		}
	})
}
