package config

import (
	"fmt"
	"io"
	"log/slog"
)

const redacted = "(sensitive)"

// Secret is text no person must read. Every printing path of the standard
// library shows "(sensitive)" instead; string(s) is the text. It does not protect
// the process' memory.
type Secret string

// String returns "(sensitive)".
func (Secret) String() string { return redacted }

// Format writes "(sensitive)" for every verb: %x would reach the text otherwise.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalText returns "(sensitive)", which covers JSON, except that encoding/json writes
// the keys of a map without asking. A Secret does not survive a round trip.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue returns "(sensitive)".
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }
