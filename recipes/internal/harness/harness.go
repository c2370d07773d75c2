// Package harness has what tests of recipes share with each other and with laboratories in packages of their own.
package harness

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Hangs begins the message of a bubble's watchdog.
const Hangs = "still waiting after a day of fake time: "

// Bubble runs f in a bubble of fake time. A goroutine that f leaves running hangs the bubble, which fails the test. Fake time
// goes on while a client pings, so a test that waits in vain fails after a day.
func Bubble(t *testing.T, f func(t *testing.T)) {
	synctest.Test(t, func(t *testing.T) {
		watchdog := time.AfterFunc(24*time.Hour, func() { panic(Hangs + t.Name()) })
		defer watchdog.Stop()
		f(t)
	})
}

// Pause waits for d, or until ctx ends: then it returns why.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
