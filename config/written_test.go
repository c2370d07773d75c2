package config_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"

	"github.com/locktree/locktree/config"
)

// written is a hash of what an apply would write, in an order that does not depend on the files. Every item is one JSON line, so
// that no two configurations share their bytes by shifting text from one field into the next.
func written(c *config.Config) string {
	sum := sha256.New()
	line := json.NewEncoder(sum)
	_ = line.Encode([]any{"stack", c.Stack})
	for _, e := range c.Ensembles {
		_ = line.Encode([]any{"ensemble", e.Name, e.Root})
		if a := e.Tree.Intent.Access; a != nil {
			_ = line.Encode([]any{"access", a.List()})
		}
		for _, n := range e.Tree.Nodes {
			payload, err := n.Payload.Encode()
			if err != nil {
				panic("payload of " + string(n.Addr) + ": " + err.Error()) // Load validates every parameter
			}
			_ = line.Encode([]any{"node", n.Path, json.RawMessage(payload), n.ACL.Normalize(), n.AllowWorld, n.AllowLockout})
		}
	}
	for _, o := range c.Outputs {
		_ = line.Encode([]any{"output", o.Name, o.Type, o.Value, o.Sensitive})
	}
	_, _ = io.WriteString(sum, "end")
	return hex.EncodeToString(sum.Sum(nil))
}
