package forecast

// conformal keeps the coverage of one quantile as stated, whatever the series does: a correction is moved up after every
// miss and down a little after every hit, so that in the long run the share of misses must be the stated one (adaptive
// conformal inference, Gibbs and Candès 2021, in the quantile-tracking form of Angelopoulos, Candès and Tibshirani,
// Conformal PID control, 2023). How fast to move is not chosen: corrections of several rates run side by side, no
// correction among them, and are aggregated by their pinball loss (AgACI: Zaffran et al., Adaptive conformal predictions
// for time series, 2022).
type conformal struct {
	shift  [conformalRates]float32 // per rate, in spreads
	regret [conformalRates]float32
	square [conformalRates]float32
	weight [conformalRates]float32
	ready  bool
}

const conformalRates = 4

// conformalSpeed is the rate of each correction relative to that of the offsets.
var conformalSpeed = [conformalRates]float64{0, 0.02, 0.06, 0.2}

// correction is in spreads.
func (c *conformal) correction() float64 {
	if !c.ready {
		return 0
	}
	sum := 0.0
	for r, w := range c.weight {
		sum += float64(w * c.shift[r])
	}
	return sum
}

// learn takes in how far above the uncorrected quantile of the given level the value came, in spreads.
func (c *conformal) learn(level, above, teach float64) {
	if !c.ready {
		c.ready = true
		c.weight = [conformalRates]float32{0.25, 0.25, 0.25, 0.25}
	}
	q := c.correction()
	slope := -level
	if above < q {
		slope = 1 - level
	}
	tail := min(tailStepMax, teach/min(level, 1-level))
	sum := float32(0)
	for r := range c.shift {
		own := float64(c.shift[r])
		loss := clamp(slope*(q-own), 10)
		c.regret[r] = c.regret[r]*regretKeep + float32(loss)
		c.square[r] = c.square[r]*regretKeep + float32(loss*loss)
		step := level
		if above <= own {
			step = level - 1
		}
		c.shift[r] += float32(conformalSpeed[r] * tail * step)
		c.weight[r] = max(0, c.regret[r]) / (0.1 + c.square[r])
		sum += c.weight[r]
	}
	for r := range c.weight {
		if sum > 0 {
			c.weight[r] = (1-fixedShare)*c.weight[r]/sum + fixedShare/conformalRates
		} else {
			c.weight[r] = 1.0 / conformalRates
		}
	}
}
