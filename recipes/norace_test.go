//go:build !race

package recipes_test

// raceEnabled: see race_test.go.
const raceEnabled = false
