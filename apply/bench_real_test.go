//go:build linux

package apply

import (
	"strconv"
	"testing"
	"time"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// BenchmarkScaleReal is BenchmarkScale on Apache ZooKeeper: the memory is ours alone.
func BenchmarkScaleReal(b *testing.B) {
	server := realzk.Start(b, realzk.Options{})
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			for b.Loop() {
				scaleOn(b, &site{t: b, root: "/scale-" + strconv.Itoa(n), config: recipes.Config{
					Servers: []string{server.Addr}, SessionTimeout: 30 * time.Second,
				}}, n)
			}
		})
	}
}
