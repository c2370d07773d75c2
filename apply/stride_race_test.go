//go:build race

package apply_test

// richStride: the race detector makes a point ten times dearer, so that every
// ninth one is taken, the offset another one for each way to die. All of them
// run without it: `make prove` does both.
const richStride = 9
