package forecast

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
)

// snapshotMagic begins a snapshot; its last byte is the version of the layout.
const snapshotMagic = "forewarm-auto\x02"

// MarshalBinary returns the whole state: an Auto that reads it goes on exactly as this one would, without a history to fit
// again. The form belongs to this version of forewarm and is no archive; keep the history for that. It must follow a
// successful Fit, else it is an error, and so is the location time.Local, which means something else on another machine.
func (a *Auto) MarshalBinary() ([]byte, error) {
	if a.m == nil {
		return nil, errors.New("encoding a forecaster: it was not fitted")
	}
	zone := a.m.past.clock.loc.String()
	if zone == "Local" {
		return nil, errors.New("encoding a forecaster: location is Local, must be an IANA name such as Europe/Berlin")
	}
	c := &coder{data: []byte(snapshotMagic)}
	horizon, keep, only := a.m.horizon, int(a.m.history), a.only
	start, nano, step := int(a.m.past.clock.start.Unix()), a.m.past.clock.start.Nanosecond(), int(a.m.past.clock.step)
	c.text(&only)
	c.text(&zone)
	for _, v := range []*int{&horizon, &keep, &start, &nano, &step} {
		c.whole(v)
	}
	a.m.code(c)
	return c.data, nil
}

// UnmarshalBinary replaces all state with what MarshalBinary returned, which must have been made with the same Options.
// Anything else is an error and leaves the Auto as it was.
func (a *Auto) UnmarshalBinary(data []byte) error {
	if len(data) < len(snapshotMagic) || string(data[:len(snapshotMagic)]) != snapshotMagic {
		return errors.New("decoding a forecaster: not a snapshot of this version of forewarm")
	}
	c := &coder{data: data[len(snapshotMagic):], reading: true}
	var only, zone string
	var horizon, keep, start, nano, step int
	c.text(&only)
	c.text(&zone)
	for _, v := range []*int{&horizon, &keep, &start, &nano, &step} {
		c.whole(v)
	}
	loc, err := time.LoadLocation(zone)
	switch {
	case c.err != nil:
		return fmt.Errorf("decoding a forecaster: %w", c.err)
	case err != nil:
		return fmt.Errorf("decoding a forecaster: location %q is not an IANA name such as Europe/Berlin", zone)
	case horizon != a.opts.horizon() || time.Duration(keep) != a.opts.history() || only != a.only:
		return fmt.Errorf("decoding a forecaster: the snapshot was made with a horizon of %d steps, a history of %v and "+
			"experts %q; the options here are %d, %v and %q", horizon, time.Duration(keep), only, a.opts.horizon(), a.opts.history(), a.only)
	case step <= 0:
		return fmt.Errorf("decoding a forecaster: step is %v, must be positive", time.Duration(step))
	}
	m := newMixture(Series{Start: time.Unix(int64(start), int64(nano)).UTC(), Step: time.Duration(step), Location: loc},
		horizon, time.Duration(keep), only)
	m.seed = a.opts.Seed
	m.code(c)
	if c.err == nil && len(c.data) > 0 {
		c.err = fmt.Errorf("%d bytes too many", len(c.data))
	}
	if c.err == nil && (m.past.n < 1 || m.now.at >= m.past.n) {
		c.err = fmt.Errorf("%d steps seen, forecast made at step %d", m.past.n, m.now.at)
	}
	if c.err != nil {
		return fmt.Errorf("decoding a forecaster: %w", c.err)
	}
	a.m = m
	return nil
}

// coder writes state to data, or reads it from there: one function per type serves both, so that they cannot differ. The
// length of a slice is not written: what reads has made it by the same rule as what wrote.
type coder struct {
	data    []byte
	reading bool
	err     error
}

// take returns the next n bytes when reading, nil after an error.
func (c *coder) take(n int) []byte {
	if c.err == nil && len(c.data) < n {
		c.err = errors.New("the snapshot is cut short")
	}
	if c.err != nil {
		return nil
	}
	part := c.data[:n]
	c.data = c.data[n:]
	return part
}

func (c *coder) bits(x uint64) uint64 {
	if !c.reading {
		c.data = binary.LittleEndian.AppendUint64(c.data, x)
		return x
	}
	if part := c.take(8); part != nil {
		return binary.LittleEndian.Uint64(part)
	}
	return 0
}

func (c *coder) float(xs ...*float64) {
	for _, x := range xs {
		*x = math.Float64frombits(c.bits(math.Float64bits(*x)))
	}
}

func (c *coder) whole(x *int) { *x = int(c.bits(uint64(*x))) }

func (c *coder) flag(x *bool) {
	if c.bits(map[bool]uint64{true: 1}[*x]) != 0 {
		*x = true
	} else {
		*x = false
	}
}

const textMax = 200 // bytes of a name

func (c *coder) text(x *string) {
	n := len(*x)
	c.whole(&n)
	if !c.reading {
		c.data = append(c.data, *x...)
		return
	}
	if n < 0 || n > textMax {
		c.err = fmt.Errorf("a name of %d bytes, at most %d are allowed", n, textMax)
	}
	if part := c.take(max(0, n)); part != nil {
		*x = string(part)
	}
}

func (c *coder) floats(xs []float64) {
	for i := range xs {
		c.float(&xs[i])
	}
}

func (c *coder) singles(xs []float32) {
	for i := range xs {
		if !c.reading {
			c.data = binary.LittleEndian.AppendUint32(c.data, math.Float32bits(xs[i]))
		} else if part := c.take(4); part != nil {
			xs[i] = math.Float32frombits(binary.LittleEndian.Uint32(part))
		}
	}
}

func (c *coder) bytes(xs []uint8) {
	if !c.reading {
		c.data = append(c.data, xs...)
	} else if part := c.take(len(xs)); part != nil {
		copy(xs, part)
	}
}

func (c *coder) flags(xs []bool) {
	for i := range xs {
		if !c.reading {
			c.data = append(c.data, map[bool]byte{true: 1}[xs[i]])
		} else if part := c.take(1); part != nil {
			xs[i] = part[0] != 0
		}
	}
}

func (c *coder) wholes(xs []int) {
	for i := range xs {
		c.whole(&xs[i])
	}
}
