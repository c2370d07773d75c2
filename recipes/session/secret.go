package session

import (
	"fmt"
	"io"
	"log/slog"
)

// redacted is what a Secret shows of itself, wherever it is printed.
const redacted = "(sensitive)"

// Secret is text that must not be read by people: a password, "user:password" credentials. What prints values shows
// "(sensitive)" in its place: fmt with any verb, encoding/json, text encoders, log/slog. Exceptions: a Secret used as
// the key of a map that is encoded to JSON (string keys are taken as they are), and the unexported fields of others'
// structs. It protects against printing only: string(s) is the text, and the process' memory holds it in the clear.
type Secret string

// String returns "(sensitive)", also for an empty Secret: that there is none is nobody's business either.
func (Secret) String() string { return redacted }

// Format writes "(sensitive)" for every verb: without it %x and %q would reach the text.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalJSON returns the JSON string "(sensitive)". A Secret therefore does not survive a round trip.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// MarshalText returns "(sensitive)".
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue returns "(sensitive)".
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }
