package plan

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/locktree/locktree/recipes/kind"
)

// The methods of this file are how trees and plans show themselves. They hide
// what follows the colon of a digest; a saved plan does not use them.
//
// They are methods, and not functions of the view, so that nobody who prints or logs a value
// of this package has to think of it: fmt and encoding/json come here by themselves.

func shown(list []kind.ACL) []string {
	out := []string{}
	for _, a := range kind.NormalizeACL(list) {
		// kind.ACL shows no hash either. Here it is said that there is one that is not shown.
		if a.Scheme == "digest" {
			user, _, _ := strings.Cut(a.ID, ":")
			a.ID = user + ":(sensitive)"
			out = append(out, a.Scheme+":"+a.ID+":"+a.Perms.String())
			continue
		}
		out = append(out, a.String())
	}
	return out
}

// String writes "digest:payments:crd -> digest:payments:cdrwa".
func (d ACLDiff) String() string { return aclText(d.Before) + " -> " + aclText(d.After) }

// MarshalJSON writes before and after as lists of texts, without digests.
func (d ACLDiff) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string][]string{"before": shown(d.Before), "after": shown(d.After)})
}

// MarshalJSON writes the part with its access list as texts, without digests.
func (p Part) MarshalJSON() ([]byte, error) {
	type plain Part // without this method
	return json.Marshal(struct {
		plain
		ACL []string `json:"acl"`
	}{plain(p), shown(p.ACL)})
}

// MarshalJSON writes the node as texts, numbers and flags, without digests.
func (n *Node) MarshalJSON() ([]byte, error) {
	doc := map[string]any{"address": n.Addr, "path": n.Path, "acl": shown(n.ACL)}
	if n.Origin != "" {
		doc["origin"] = n.Origin
	}
	if n.Live != nil {
		doc["live"] = n.Live
	}
	if p := n.Payload; p != nil {
		spec := map[string]any{}
		for _, f := range p.Params.Fields() {
			spec[f.Name] = f.Get()
		}
		doc["type"], doc["spec"], doc["owner"] = n.Kind().Name, spec, p.Owner
		doc["protect"], doc["generation"], doc["state"] = p.Protect, p.Gen, p.State
		doc["child_acl"] = shown(p.ChildACL)
	}
	return json.Marshal(doc)
}

// String writes "mutex namespace.payments.mutex.ledger at /locks/payments/ledger".
func (n *Node) String() string { return fmt.Sprintf("%s %s at %s", n.Kind(), n.Addr, n.Path) }

// MarshalJSON writes the change without digests, under Terraform's names where
// it has one.
func (c Change) MarshalJSON() ([]byte, error) {
	type change struct {
		Actions      []string `json:"actions"`
		Before       *Node    `json:"before"`
		After        *Node    `json:"after"`
		ReplacePaths []string `json:"replace_paths,omitempty"`
	}
	return json.Marshal(struct {
		Addr     string       `json:"address"`
		Previous string       `json:"previous_address,omitempty"`
		Path     string       `json:"path"`
		Type     string       `json:"type"`
		Reason   Reason       `json:"action_reason,omitempty"`
		Drift    bool         `json:"drift,omitempty"`
		Change   change       `json:"change"`
		ACL      *ACLDiff     `json:"acl,omitempty"`
		ChildACL *ACLDiff     `json:"child_acl,omitempty"`
		Protect  *ProtectDiff `json:"protect,omitempty"`
		Usage    *Usage       `json:"usage,omitempty"`
	}{
		c.Addr, c.PreviousAddr, c.Path, c.Kind.Name, c.Reason, c.Drift,
		change{c.Action.Verbs(), c.Before, c.After, c.ForcesReplace}, c.ACL, c.ChildACL, c.Protect, c.Usage,
	})
}

// String writes one line: "~ namespace.a.semaphore.b permits=3 -> 5".
func (c *Change) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", c.Action.Symbol(), c.Addr)
	if c.PreviousAddr != "" {
		fmt.Fprintf(&b, " (was %s)", c.PreviousAddr)
	}
	for _, p := range c.Params {
		fmt.Fprintf(&b, " %s=%v -> %v", p.Name, p.Before, p.After)
	}
	if c.ACL != nil {
		fmt.Fprintf(&b, " acl=%s", c.ACL)
	}
	if c.ChildACL != nil {
		fmt.Fprintf(&b, " child_acl=%s", c.ChildACL)
	}
	if c.Protect != nil {
		fmt.Fprintf(&b, " protect=%t -> %t", c.Protect.Before, c.Protect.After)
	}
	return b.String()
}

// String writes one line for every problem and every change but NoOp, for logs
// and tests. People are shown more by the command.
func (p *Plan) String() string {
	var b strings.Builder
	for _, q := range p.Problems {
		fmt.Fprintf(&b, "%s: %s: %s\n", q.Severity, q.Summary, q.Path)
	}
	for i := range p.Changes {
		if p.Changes[i].Action != NoOp {
			b.WriteString(p.Changes[i].String() + "\n")
		}
	}
	for _, c := range p.Access {
		fmt.Fprintf(&b, "~ %s %s acl=%s\n", c.Addr, c.Pin.Path, c.ACLDiff)
	}
	return b.String()
}
