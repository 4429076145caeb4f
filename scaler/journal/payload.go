package journal

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
)

const (
	// payloadMax bounds one payload in memory: a damaged or hostile file must not blow up a reader.
	payloadMax = 256 << 20
	// flateWindow is how far DEFLATE looks back (RFC 1951).
	flateWindow = 32 << 10
)

var errChecksum = errors.New("checksum does not match: the record is damaged")

// packer deflates JSON, with or without a base. It keeps one compressor, because a new one allocates about a megabyte.
type packer struct {
	w   *flate.Writer
	buf bytes.Buffer
}

func newPacker(level int) *packer {
	w, err := flate.NewWriter(io.Discard, level)
	if err != nil {
		panic(fmt.Sprintf("journal: deflate level %d: %v", level, err))
	}
	return &packer{w: w}
}

// pack returns data deflated with the end of base as preset dictionary, then the CRC-32 of data. The result reads back
// only with the same base.
func (p *packer) pack(data, base []byte) ([]byte, error) {
	if len(data) > payloadMax {
		return nil, fmt.Errorf("record of %d bytes: at most %d are allowed", len(data), payloadMax)
	}
	p.w.Reset(&p.buf)
	if len(base) > 0 {
		// Compressing the base and throwing its output away leaves the compressor in the state that a preset dictionary
		// would, without building a new compressor for each dictionary. Flush ends on a byte boundary.
		if err := errors.Join(write(p.w, window(base)), p.w.Flush()); err != nil {
			return nil, err
		}
	}
	p.buf.Reset()
	if err := errors.Join(write(p.w, data), p.w.Close()); err != nil {
		return nil, err
	}
	out := make([]byte, 0, p.buf.Len()+4)
	out = append(out, p.buf.Bytes()...)
	return binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(data)), nil
}

// packJSON packs the JSON of v.
func (p *packer) packJSON(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return p.pack(data, nil)
}

// inflaters are kept, because a new one allocates 40 KiB and a record is a few hundred bytes.
var inflaters = sync.Pool{New: func() any { return flate.NewReader(bytes.NewReader(nil)) }}

// unpack is the inverse of pack.
func unpack(payload, base []byte) ([]byte, error) {
	if len(payload) < 4 {
		return nil, fmt.Errorf("record of %d bytes is cut short", len(payload))
	}
	body, sum := payload[:len(payload)-4], binary.BigEndian.Uint32(payload[len(payload)-4:])
	r := inflaters.Get().(io.Reader)
	defer inflaters.Put(r)
	if err := r.(flate.Resetter).Reset(bytes.NewReader(body), window(base)); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(r, payloadMax+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("inflating: %w", err)
	case len(data) > payloadMax:
		return nil, fmt.Errorf("record is larger than %d bytes", payloadMax)
	case crc32.ChecksumIEEE(data) != sum:
		return nil, errChecksum
	}
	return data, nil
}

// unpackJSON unpacks a payload without a base into v.
func unpackJSON(payload []byte, v any) error {
	data, err := unpack(payload, nil)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// unpackDelta unpacks a row whose dictionary, if any, is the base row's own payload.
func unpackDelta(row deltaRow) ([]byte, error) {
	if !row.base.Valid {
		return unpack(row.payload, nil)
	}
	if row.basePayload == nil {
		return nil, fmt.Errorf("its base, record %d, is missing", row.base.Int64)
	}
	base, err := unpack(row.basePayload, nil)
	if err != nil {
		return nil, fmt.Errorf("its base, record %d: %w", row.base.Int64, err)
	}
	return unpack(row.payload, base)
}

func write(w io.Writer, data []byte) error {
	_, err := w.Write(data)
	return err
}

func window(base []byte) []byte {
	return base[max(0, len(base)-flateWindow):]
}
