package wire

import (
	"encoding/binary"
	"errors"
	"io"
)

// ErrMalformed means that a record does not fit its frame, or that a frame is longer than its limit. If the record is inside a request, the
// real server answers MarshallingError. If the frame's header itself cannot be read, the real server cuts the connection.
var ErrMalformed = errors.New("zktest: record does not fit its frame")

// ReadBody reads the rest of a frame whose first four bytes are head. A frame longer than limit is malformed, before anything is
// allocated for it.
func ReadBody(in io.Reader, head [4]byte, limit int) ([]byte, error) {
	n := int32(binary.BigEndian.Uint32(head[:]))
	if n < 0 || int(n) > limit {
		return nil, ErrMalformed
	}
	return readBytes(in, int(n))
}

// readBytes allocates as the bytes arrive, not by the length announced.
func readBytes(in io.Reader, n int) ([]byte, error) {
	const step = 64 << 10
	body := make([]byte, 0, min(n, step))
	for len(body) < n {
		have := len(body)
		body = append(body, make([]byte, min(n-have, step))...)
		if _, err := io.ReadFull(in, body[have:]); err != nil {
			return nil, err
		}
	}
	return body, nil
}
