package planner

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestCheapestMix checks the search for the cheapest mix against all mixes there are.
func TestCheapestMix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		free := rapid.IntRange(0, 16).Draw(t, "free")
		choices := make([]choice, rapid.IntRange(1, 4).Draw(t, "variants"))
		for i := range choices {
			c := &choices[i]
			c.carries = rapid.SampledFrom([]float64{0, 0.07, 0.2, 0.34, 0.5, 1.2}).Draw(t, "carries")
			c.price = rapid.SampledFrom([]float64{1, 2.5, 4, 11}).Draw(t, "price")
			c.have = rapid.IntRange(0, 3).Draw(t, "have")
			c.most = rapid.IntRange(0, 5).Draw(t, "most")
			c.least = min(c.most, c.have, rapid.IntRange(0, 2).Draw(t, "least"))
			c.gpus, c.free = rapid.IntRange(1, 4).Draw(t, "gpus"), free
			if rapid.Bool().Draw(t, "limited") {
				c.pools = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "pools")
			}
		}
		counts, covered := cheapest(choices)
		least, possible := bruteMix(choices)
		if covered != possible {
			t.Fatalf("covered is %v, by trying all it is %v", covered, possible)
		}
		carried, cost := 0.0, 0.0
		for i := range choices {
			if counts[i] < choices[i].least || counts[i] > choices[i].most {
				t.Fatalf("%d of variant %d, %d to %d are allowed", counts[i], i, choices[i].least, choices[i].most)
			}
			carried += float64(counts[i]) * choices[i].carries
			cost += choices[i].cost(counts[i])
		}
		if covered && (carried < 1-1e-6 || cost > least+1e-6) {
			t.Fatalf("%v carry %.3f for %.3f, %.3f is possible", counts, carried, cost, least)
		}
	})
}

// bruteMix is the least cost of all mixes that carry the load.
func bruteMix(choices []choice) (least float64, possible bool) {
	least = math.Inf(1)
	var try func(i int, carried, cost float64, used map[string]int)
	try = func(i int, carried, cost float64, used map[string]int) {
		if i == len(choices) {
			if carried >= 1-1e-9 {
				least, possible = min(least, cost), true
			}
			return
		}
		c := &choices[i]
		for n := c.least; n <= c.most; n++ {
			more := max(0, n-c.have) * c.gpus
			if c.pools != "" && used[c.pools]+more > c.free && n > c.have {
				break
			}
			used[c.pools] += more
			try(i+1, carried+float64(n)*c.carries, cost+c.cost(n), used)
			used[c.pools] -= more
		}
	}
	try(0, 0, 0, map[string]int{})
	return least, possible
}

// TestGroupCarriesTheLoad: whatever the variants, the parts add up to at least the whole load, and one with slots for all
// of it never leaves the plans together short of it.
func TestGroupCarriesTheLoad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, p := genState(t)
		s.Models[0].Serves, s.Models[0].Role = "", ""
		for i := range s.Models[1:] {
			s.Models[i+1].Serves = s.Models[0].Name
			if rapid.Bool().Draw(t, "priced") {
				price := Price(rapid.Float64Range(0.5, 20).Draw(t, "price"))
				s.Models[i+1].Price = &price
			}
		}
		parts := s.divide(p)
		head := s.Models[0].Load
		if len(s.Models) < 2 || head == nil {
			return
		}
		var prompt TokenRate
		for _, part := range parts {
			prompt += part.state.Load.Prompt
		}
		if float64(prompt) < float64(head.Prompt)*(1-1e-9) {
			t.Fatalf("the parts add up to %v of %v", prompt, head.Prompt)
		}
		first := mustJSON(t, mustDecide(t, s, p))
		if second := mustJSON(t, mustDecide(t, copyState(t, s), p)); string(first) != string(second) {
			t.Fatal("the same State gives two Decisions")
		}
	})
}
