package forecast

// The state of each part of a mixture, in the order of a snapshot. What follows from the rest (places, scratch) is not
// written.

func (m *mixture) code(c *coder) {
	m.past.code(c)
	m.seasons.code(c)
	m.steady.code(c)
	c.floats(m.peaks.rise[:])
	c.bytes(m.peaks.seen[:])
	for _, x := range m.experts {
		if s, ok := x.(stateful); ok {
			s.code(c)
		}
	}
	c.floats(m.averages[:])
	c.float(&m.jumpy)
	for j := range m.quantreg.fits {
		for t := range m.quantreg.fits[j] {
			m.quantreg.fits[j][t].code(c)
		}
	}
	for j := range m.bands {
		m.bands[j].code(c)
		m.restless[j].code(c)
		seen := m.jumps[j] != nil
		if c.flag(&seen); seen && m.jumps[j] == nil {
			b := newBand(m.candidates, m.mute)
			m.jumps[j] = &b
		}
		if seen {
			m.jumps[j].code(c)
		}
	}
	c.whole(&m.record.origins)
	c.whole(&m.record.skip)
	c.float(&m.record.weight, &m.record.forget, &m.record.mixture, &m.record.naive, &m.record.seasonal)
	m.now.code(c)
	for i := range m.open {
		m.open[i].code(c)
	}
	c.wholes(m.errors.at)
	c.singles(m.errors.centre)
	c.singles(m.errors.spread)
	if c.err == nil && c.reading && m.past.n > 0 {
		m.lookAhead()
	}
}

// stateful is an expert that remembers more than the past and the seasons do.
type stateful interface{ code(c *coder) }

func (p *past) code(c *coder) {
	c.float(&p.squash.unit, &p.sum, &p.level, &p.low, &p.high, &p.first, &p.mean)
	c.whole(&p.n)
	c.whole(&p.count)
	c.whole(&p.known)
	c.flag(&p.nonNegative)
	c.flag(&p.varied)
	c.floats(p.fine)
	c.flags(p.real)
	c.singles(p.coarse)
}

func (s *seasons) code(c *coder) {
	for _, p := range []*profile{&s.day, &s.broad, &s.week} {
		c.singles(p.shape)
		c.bytes(p.count)
	}
	c.float(&s.level, &s.lean, &s.size)
	c.whole(&s.learned)
	c.floats(s.misfit[:])
	c.floats(s.blend[:])
}

func (s *steady) code(c *coder) {
	c.float(&s.quick, &s.brief, &s.slow, &s.clockMean, &s.last, &s.lastShape)
	c.whole(&s.seen)
	c.floats(s.clock[:])
	c.bytes(s.clockSeen[:])
}

func (t *trend) code(c *coder) {
	c.whole(&t.best)
	for i := range t.runs {
		r := &t.runs[i]
		c.float(&r.level, &r.slope, &r.loss)
		c.floats(r.ahead[:])
	}
	if t.best < 0 || t.best >= len(t.runs) {
		t.best = 0
	}
}

func (h *holtWinters) code(c *coder) {
	c.float(&h.alpha, &h.phi, &h.delta, &h.omega, &h.level, &h.rest, &h.size)
	c.whole(&h.seen)
	c.singles(h.day.shape)
	c.singles(h.week.shape)
}

func (a *autoregression) code(c *coder) {
	a.fit.code(c)
	c.floats(a.recent[:])
	c.whole(&a.known)
	c.float(&a.size)
}

func (h *harmonic) code(c *coder) {
	h.fit.code(c)
	c.float(&h.size)
	c.whole(&h.seen)
	for i := range h.carry {
		c.float(&h.carry[i].xy, &h.carry[i].xx)
	}
}

func (l *leastSquares) code(c *coder) {
	c.singles(l.gram)
	c.floats(l.cross)
	c.floats(l.beta)
	c.float(&l.growth)
}

func (b *band) code(c *coder) {
	c.whole(&b.seen)
	for _, xs := range [][]float32{b.offset, b.regret, b.square, b.weight, b.recent, b.damp} {
		c.singles(xs)
	}
	for p := range b.conformal {
		x := &b.conformal[p]
		c.flag(&x.ready)
		for _, xs := range [][]float32{x.shift[:], x.regret[:], x.square[:], x.weight[:]} {
			c.singles(xs)
		}
	}
	b.scale.code(c)
	c.float(&b.usual, &b.stake, &b.best)
	c.floats(b.covered[:])
	c.singles(b.held[:])
}

func (o *origin) code(c *coder) {
	c.whole(&o.at)
	c.float(&o.level, &o.size)
	c.flags(o.jump)
	for _, xs := range [][]float32{o.centres, o.replayed, o.x, o.spread, o.mood, o.raw, o.final} {
		c.singles(xs)
	}
}
