package planner

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Setup is what was measured. Only runs of one Setup share their coefficients.
type Setup struct {
	Model     string `json:"model"`
	GPU       string `json:"gpu,omitempty"`
	Engine    string `json:"engine,omitempty"`
	Version   string `json:"version,omitempty"`
	Precision string `json:"precision,omitempty"`
	// Parallel are the degrees that are above one, such as "tp4" or "tp8 pp2"; tp is always there when it is known.
	Parallel string `json:"parallel,omitempty"`
	// TensorParallel is the degree tp; 0 is unknown. OnlyTensor is set when it is the only degree above one.
	TensorParallel int  `json:"tensor_parallel,omitempty"`
	OnlyTensor     bool `json:"only_tensor,omitempty"`
}

// String joins what is known.
func (s Setup) String() string {
	parts := slices.DeleteFunc([]string{s.Model, s.GPU, s.Engine, s.Version, s.Precision, s.Parallel},
		func(part string) bool { return part == "" })
	return strings.Join(parts, " ")
}

// Measurement is one run of a load generator against one replica: so many requests at a time, each followed by the next
// as soon as it is complete (a closed loop), all of one size.
type Measurement struct {
	Setup
	Line        int // of the file it was read from
	Concurrency float64
	Prompt      Tokens
	Completion  Tokens
	TTFT, TPOT  Milliseconds
	Date        string // on which it was measured, empty when unknown
}

// waits reports whether more than 15 % of the end-to-end time is spent before the first token: the running batch is then
// much smaller than the concurrency, and the run says little about iterations.
func (m *Measurement) waits() bool {
	return float64(m.TTFT) > 0.15*(float64(m.TTFT)+float64(m.TPOT)*(float64(m.Completion)-1))
}

// Coefficients are what a fit finds of Physics.
type Coefficients struct {
	Iteration Milliseconds `json:"iteration_ms"`              // α
	Prefill   Milliseconds `json:"prefill_ms_per_token"`      // β_p
	Decode    Milliseconds `json:"decode_ms_per_sequence"`    // β_d
	Attention Milliseconds `json:"attention_ms_per_kv_token"` // γ
}

// apartAt is how many sizes of request identify β_d apart from β_p; with fewer they are taken to be equal.
const apartAt = 9

// terms are the factors of α, β_p, β_d and γ in the TPOT of a run. Over its life a request takes part in O+1 iterations
// (prefill counts as one), in which I prompt tokens and O of its own are computed; decoding it reads I + O/2 KV tokens on
// average. δ is γ/25 throughout, so that the query-key pairs of prefill are part of γ's factor.
func (m *Measurement) terms() [4]float64 {
	n, in, out := m.Concurrency, float64(m.Prompt), float64(m.Completion)
	return [4]float64{1, n * in / (out + 1), n * out / (out + 1), n * (in + out/2 + in*in/2/pairsPerKVToken/(out+1))}
}

// TPOT is what the coefficients predict for a run.
func (c Coefficients) TPOT(m *Measurement) Milliseconds {
	x := m.terms()
	return c.Iteration*Milliseconds(x[0]) + c.Prefill*Milliseconds(x[1]) + c.Decode*Milliseconds(x[2]) + c.Attention*Milliseconds(x[3])
}

// ErrFewMeasurements is returned when runs do not identify the coefficients.
var ErrFewMeasurements = errors.New("planner: too few measurements")

// FitCoefficients returns the non-negative coefficients with the smallest errors relative to the measured TPOT. Errors
// beyond twice the median count linearly, not squared (Huber), so that single bad runs do not decide. Runs that spend
// more than 15 % of their time before the first token are left out. As many runs as coefficients are needed, and a size
// that was measured at two concurrencies: where every size has a concurrency of its own, α cannot be told from the sizes.
func FitCoefficients(runs []Measurement) (Coefficients, error) {
	used := slices.DeleteFunc(slices.Clone(runs), func(m Measurement) bool { return m.waits() })
	sizes, crossed := map[[2]Tokens]float64{}, false
	for _, m := range used {
		size := [2]Tokens{m.Prompt, m.Completion}
		if level, ok := sizes[size]; ok && level != m.Concurrency {
			crossed = true
		}
		sizes[size] = m.Concurrency
	}
	apart := len(sizes) >= apartAt
	rows := make([][]float64, len(used))
	for i := range used {
		x := used[i].terms()
		rows[i] = []float64{x[0], x[1] + x[2], x[3]}
		if apart {
			rows[i] = x[:]
		}
		for k := range rows[i] {
			rows[i][k] /= float64(used[i].TPOT)
		}
	}
	if columns := 3 + btoi(apart); !crossed || len(used) < columns {
		return Coefficients{}, fmt.Errorf("%w: %d runs that do not mostly wait, a size at two concurrencies among them: %t; %d and true are needed",
			ErrFewMeasurements, len(used), crossed, columns)
	}
	b := huberFit(rows)
	if apart {
		return Coefficients{Milliseconds(b[0]), Milliseconds(b[1]), Milliseconds(b[2]), Milliseconds(b[3])}, nil
	}
	return Coefficients{Milliseconds(b[0]), Milliseconds(b[1]), Milliseconds(b[1]), Milliseconds(b[2])}, nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// huberFit returns the non-negative b for which every row·b is as near to 1 as can be, by iteratively reweighted least
// squares.
func huberFit(rows [][]float64) []float64 {
	weights := make([]float64, len(rows))
	for i := range weights {
		weights[i] = 1
	}
	var b []float64
	for range 20 {
		b = nonNegative(rows, weights)
		off := make([]float64, len(rows))
		for i, row := range rows {
			off[i] = math.Abs(dot(row, b) - 1)
		}
		limit := 2 * max(median(off), 1e-6)
		for i := range weights {
			weights[i] = min(1, limit/max(off[i], 1e-12))
		}
	}
	return b
}

// nonNegative is weighted least squares of row·b to 1 under b ≥ 0. There are at most four unknowns, so that every set of
// positive ones can be tried: the best feasible one is the solution.
func nonNegative(rows [][]float64, weights []float64) []float64 {
	n := len(rows[0])
	best, bestLoss := make([]float64, n), math.Inf(1)
	for set := 1; set < 1<<n; set++ {
		var columns []int
		for k := range n {
			if set&(1<<k) != 0 {
				columns = append(columns, k)
			}
		}
		b, ok := leastSquares(rows, weights, columns)
		if !ok || slices.Min(b) < 0 {
			continue
		}
		loss := 0.0
		for i, row := range rows {
			r := dot(row, b) - 1
			loss += weights[i] * r * r
		}
		if loss < bestLoss*(1-1e-12) {
			best, bestLoss = b, loss
		}
	}
	return best
}

// leastSquares solves the normal equations of the named columns, scaled to unit length, by Cholesky's method. It returns
// false when the columns are dependent.
func leastSquares(rows [][]float64, weights []float64, columns []int) ([]float64, bool) {
	n := len(columns)
	scale := make([]float64, n)
	for a, k := range columns {
		for i, row := range rows {
			scale[a] += weights[i] * row[k] * row[k]
		}
		if scale[a] = math.Sqrt(scale[a]); scale[a] == 0 {
			return nil, false
		}
	}
	var l [4][4]float64
	var y [4]float64
	for a, ka := range columns {
		for i, row := range rows {
			y[a] += weights[i] * row[ka] / scale[a]
		}
		for b, kb := range columns[:a+1] {
			for i, row := range rows {
				l[a][b] += weights[i] * row[ka] / scale[a] * row[kb] / scale[b]
			}
		}
	}
	for a := range n {
		for b := range a + 1 {
			for k := range b {
				l[a][b] -= l[a][k] * l[b][k]
			}
			switch {
			case a != b:
				l[a][b] /= l[b][b]
			case l[a][a] < 1e-10:
				return nil, false
			default:
				l[a][a] = math.Sqrt(l[a][a])
			}
		}
		for k := range a {
			y[a] -= l[a][k] * y[k]
		}
		y[a] /= l[a][a]
	}
	out := make([]float64, len(rows[0]))
	for a := n - 1; a >= 0; a-- {
		for k := a + 1; k < n; k++ {
			y[a] -= l[k][a] * y[k]
		}
		y[a] /= l[a][a]
		out[columns[a]] = y[a] / scale[a]
	}
	return out, true
}

func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// median is the middle value, NaN of none.
func median(values []float64) float64 { return quantileOf(values, 0.5) }

// quantileOf interpolates linearly between the sorted values; NaN of none.
func quantileOf(values []float64, p float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	x := p * float64(len(sorted)-1)
	i := min(int(x), len(sorted)-1)
	return sorted[i] + (x-float64(i))*(sorted[min(i+1, len(sorted)-1)]-sorted[i])
}

// bySetup sorts and splits runs into groups of one Setup.
func bySetup(runs []Measurement) [][]Measurement {
	sorted := slices.Clone(runs)
	slices.SortStableFunc(sorted, func(a, b Measurement) int { return cmp.Compare(a.Setup.String(), b.Setup.String()) })
	var groups [][]Measurement
	for i := range sorted {
		if i == 0 || sorted[i].Setup != sorted[i-1].Setup {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], sorted[i])
	}
	return groups
}
