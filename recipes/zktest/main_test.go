package zktest_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Every goroutine of a server is gone when Close returns. goleak allows 0.4 s for its last steps; a busy machine may need more.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		err := goleak.Find()
		for deadline := time.Now().Add(time.Minute); err != nil && time.Now().Before(deadline); {
			err = goleak.Find()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "goroutines are left when all tests have passed:", err)
			code = 1
		}
	}
	os.Exit(code)
}
