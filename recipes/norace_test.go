//go:build !race

package recipes

// raceEnabled: see race_test.go.
const raceEnabled = false
