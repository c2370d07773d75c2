package syntax

// The limits. A configuration is its operator's own code: these catch the file that was not meant and the loop that
// declares more than an ensemble can hold, early and with a place. They do not make a foreign configuration safe to
// evaluate (see SECURITY.md).
const (
	MaxFileBytes = 16 << 20 // 100,000 locks written out one by one are about 6 MiB; also what file() reads, so 200,000 names
	maxFiles     = 1000
	MaxNodes     = 200_000 // nodes and modules, after expansion of for_each
	MaxCallDepth = 16
	// MaxCalls bounds what modules cost that each call the next one twice, before anything is evaluated.
	MaxCalls = 2000
	// MaxPathBytes bounds what every contender's path starts with; see kind.ValidateName
	// for what long ephemeral paths do to a server.
	MaxPathBytes = 1024
)
