//go:build race

package effort

const build = Raced
