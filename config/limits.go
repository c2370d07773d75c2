package config

// The limits. A configuration is its operator's own code: these catch the file that was not meant and the loop that
// declares more than an ensemble can hold, early and with a place. They do not make a foreign configuration safe to
// evaluate (see SECURITY.md).
const (
	maxFileBytes = 16 << 20 // 100,000 locks written out one by one are about 6 MiB
	maxFiles     = 1000
	maxReadBytes = 1 << 20 // what file() reads; also a ZooKeeper packet
	maxNodes     = 200_000 // nodes, modules and dynamic blocks, after expansion of for_each
	maxCallDepth = 16
	// maxCalls bounds what modules cost that each call the next one twice, before anything is evaluated.
	maxCalls = 2000
)
