package sasl

import (
	"fmt"
	"io"
	"log/slog"
)

// redactedText is printed in place of a Secret.
const redactedText = "(sensitive)"

// Secret is a string that must not be shown to people, such as a password or "user:password" credentials. fmt with any verb,
// encoding/json, text encoders and log/slog print "(sensitive)" in its place. There are two exceptions: a key of a map encoded
// to JSON (string keys are taken as they are), and an unexported field of a struct. Secret protects against printing only:
// string(s) is the text, and the process's memory holds it in the clear.
type Secret string

// String returns "(sensitive)", even for an empty Secret, so as not to reveal that it is empty.
func (Secret) String() string { return redactedText }

// Format writes "(sensitive)" for every verb: without this method %x and %q would reach the text.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redactedText) }

// MarshalJSON returns the JSON string "(sensitive)", so a Secret does not survive a round trip.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redactedText + `"`), nil }

// MarshalText returns "(sensitive)".
func (Secret) MarshalText() ([]byte, error) { return []byte(redactedText), nil }

// LogValue returns "(sensitive)".
func (Secret) LogValue() slog.Value { return slog.StringValue(redactedText) }
