//go:build !race

package apply_test

// richStride: every write of the richest apply is a crash point.
const richStride = 1
