//go:build race

package recipes_test

// raceEnabled: under the race detector everything runs about eight times slower, so the simulations run fewer seeds and the sweeps
// fewer points. `make prove` runs all of them without it.
const raceEnabled = true
