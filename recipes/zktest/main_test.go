package zktest

import (
	"testing"

	"go.uber.org/goleak"
)

// Every goroutine of a server is gone when Close returns.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
