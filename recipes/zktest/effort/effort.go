// Package effort lets a test of this repository say which runs it belongs to. Most tests say nothing and run every day, in `make test`.
// Long tests are proofs, which `make prove` runs. `.ci/tests` finds both by the calls in the tests, and sets TESTS to "everyday" or
// "proofs". Plain `go test` does not set it, and runs every test that it is asked for.
package effort

import (
	"os"
	"slices"
	"testing"
)

// Build is a way to compile tests.
type Build string

const (
	Raced   Build = "with the race detector"
	Unraced Build = "without the race detector"
)

// Proof says that `make test` skips the test, and that `make prove` runs the test in the given builds. If no build is given, `make prove`
// runs the test in both.
func Proof(t testing.TB, builds ...Build) {
	t.Helper()
	switch tests := os.Getenv("TESTS"); {
	case tests == "everyday":
		t.Skip("make prove runs this")
	case tests == "proofs" && len(builds) > 0 && !slices.Contains(builds, build):
		t.Skip("make prove runs this", builds[0])
	}
}

// Daily says that make test and make prove run the test only in the build without the race detector: it starts many processes.
func Daily(t testing.TB) {
	t.Helper()
	if os.Getenv("TESTS") != "" && build != Unraced {
		t.Skip("make test runs this", Unraced)
	}
}

// Of chooses between two sizes of a test. Under the race detector and in everyday runs it returns the second one (reduced), otherwise the
// first one (whole). The detector makes each step five to ten times slower, and keeps up to 256 KiB for every goroutine that was alive at
// the same time. make prove also runs a test that calls Of, and in the build without the race detector the test has its whole size.
func Of[T any](whole, reduced T) T {
	if build == Raced || os.Getenv("TESTS") == "everyday" {
		return reduced
	}
	return whole
}
