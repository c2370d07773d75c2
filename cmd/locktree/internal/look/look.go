// Package look reads on a session that may end meanwhile. Commands and the page look at an ensemble through it; it writes nothing
// and opens no connection:
//
//	err := look.On(ctx, client, 10*time.Second, func(s *direct.Session) error { ... })
package look

import (
	"context"
	"time"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
)

// The function On calls f, which only reads, and calls it once more if the session was lost meanwhile. It waits for a session no
// longer than patience, and then for as long as f takes.
func On(ctx context.Context, client *recipes.Client, patience time.Duration, f func(*direct.Session) error) error {
	for again := true; ; again = false {
		wait, cancel := context.WithTimeout(ctx, patience)
		live, err := client.Session(wait)
		cancel()
		if err != nil {
			return err
		}
		if err = f(live); err == nil || !again {
			return err
		}
		select {
		case <-live.Done():
		default:
			return err
		}
	}
}
