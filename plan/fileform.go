package plan

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/locktree/locktree/recipes/kind"
)

// The forms are a plan as it is written to a file. They differ from the values in two
// ways: access lists are written in full, each once, and what can be computed from the
// nodes (parameter and access differences) is left out and computed again, so that a file
// cannot contradict itself.
//
// Reading checks what the rest of this package relies on: a body that makes no sense, although
// its checksum is right, causes an error and not a panic or a write outside the stack
// (TestSealedNonsenseIsRefused). That is no defence against a forger, see [File]. The order of
// changes is not checked: ZooKeeper refuses a transaction in a wrong order, because it creates no
// child without its parent.

type bodyForm struct {
	Plans  []planForm `json:"plans"`
	Checks []Check    `json:"checks"`
}

type planForm struct {
	plainPlan
	prior
	Declared *Access      `json:"declared,omitempty"`
	Access   []accessForm `json:"access,omitempty"`

	// ACLs are the different access lists, to which nodes refer by number from 0.
	ACLs [][]kind.ACL `json:"acls,omitempty"`

	// These are many, so they are written and read one by one.
	Changes span `json:"changes,omitempty"` // list of changeForm
	Pins    span `json:"pins,omitempty"`    // list of Pin
}

// The plain types have no methods, which the forms would otherwise inherit.
type (
	plainPlan   Plan
	plainChange Change
	plainNode   Node
)

type changeForm struct {
	plainChange
	Before *nodeForm `json:"before,omitempty"`
	// Same means that After is the node before, except for its origin, as in nearly all
	// changes of a large plan. Otherwise After leaves out the path, which is that of the
	// node before, and an address that stays.
	After *nodeForm `json:"after,omitempty"`
	Same  bool      `json:"same,omitempty"`
}

type nodeForm struct {
	plainNode
	Payload  json.RawMessage `json:"payload,omitempty"` // without its access list
	ACL      *int            `json:"acl,omitempty"`
	ChildACL *int            `json:"child_acl,omitempty"`
	Live     *liveForm       `json:"live,omitempty"`
}

// liveForm writes Live with the access lists of its parts. Here as elsewhere, the outer
// field hides the inner one of the same name, because encoding/json takes the field that is
// embedded least deeply.
type liveForm struct {
	Live
	Parts []partForm `json:"parts,omitempty"`
}

type partForm struct {
	Part
	ACL *int `json:"acl,omitempty"`
}

type accessForm struct {
	AccessChange
	Before []kind.ACL `json:"before"`
	After  []kind.ACL `json:"after"`
}

func changeFormOf(c *Change, t *listTable) (f changeForm, err error) {
	f.plainChange = plainChange(*c)
	if f.Before, err = nodeFormOf(c.Before, t); err != nil {
		return f, err
	}
	if c.After == c.Before {
		f.Same = true
		return f, nil
	}
	if f.After, err = nodeFormOf(c.After, t); err != nil || f.Before == nil || f.After == nil {
		return f, err
	}
	b, a := f.Before, f.After
	// Compare encoded payloads, not values: equal ones give equal bytes, and they are encoded in any
	// case. The origin and what the acl allows stay with the node after, because a node that was found
	// has neither.
	if a.Path == b.Path && a.Addr == b.Addr && bytes.Equal(a.Payload, b.Payload) && equal(a.ACL, b.ACL) && equal(a.ChildACL, b.ChildACL) {
		f.Same = true
		a.Payload, a.ACL, a.ChildACL = nil, nil, nil
	}
	if a.Path == b.Path {
		a.Path = ""
	}
	if a.Addr == b.Addr {
		a.Addr = ""
	}
	return f, nil
}

// equal compares two numbers of access lists.
func equal(a, b *int) bool { return a == b || a != nil && b != nil && *a == *b }

func nodeFormOf(n *Node, t *listTable) (*nodeForm, error) {
	if n == nil {
		return nil, nil
	}
	payload := *n.Payload
	payload.ChildACL = nil // it is in the table
	data, err := payload.Encode()
	if err != nil {
		return nil, fmt.Errorf("plan: %s: %w", n.Addr, err)
	}
	f := &nodeForm{plainNode: plainNode(*n), Payload: data, ACL: t.number(n.ACL), ChildACL: t.number(n.Payload.ChildACL)}
	if n.Live != nil {
		f.Live = &liveForm{Live: *n.Live}
		for _, p := range n.Live.Parts {
			f.Live.Parts = append(f.Live.Parts, partForm{p, t.number(p.ACL)})
		}
	}
	return f, nil
}

// plan checks everything that the methods of a Plan rely on: a file may contain anything.
func (f planForm) plan() (*Plan, error) {
	plain := Plan(f.plainPlan)
	p := &plain
	p.prior, p.Declared = f.prior, f.Declared
	if err := kind.ValidatePath(p.Root); err != nil {
		return nil, err
	}
	if err := kind.ValidateName(p.Stack); err != nil {
		return nil, err
	}
	// The index is written and deleted at this path, so it must be the right one.
	if p.Index.Path != IndexPath(p.Root, p.Stack) {
		return nil, fmt.Errorf("the index is said to be at %q", p.Index.Path)
	}
	r := &formReader{stack: p.Stack, lists: f.ACLs}
	err := eachOf(f.Changes, func(cf changeForm) error {
		c, err := r.change(p, cf)
		if err != nil {
			return fmt.Errorf("change %d: %w", len(p.Changes), err)
		}
		p.Changes = append(p.Changes, *c)
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = eachOf(f.Pins, func(pin Pin) error {
		if n := len(p.Pins); n > 0 && p.Pins[n-1].Addr == pin.Addr { // a part of the same lock: share the string
			pin.Addr = p.Pins[n-1].Addr
		}
		p.Pins = append(p.Pins, pin)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("pin %d: %w", len(p.Pins), err)
	}
	for _, q := range p.Problems {
		if q.Severity != Error && q.Severity != Warning {
			return nil, fmt.Errorf("%q is not a severity", q.Severity)
		}
	}
	for _, o := range p.Outputs {
		if (o.After == nil) != (o.Action == Delete) {
			return nil, fmt.Errorf("output %q: %s makes no sense", o.Name, o.Action)
		}
	}
	p.clashes()
	for _, c := range f.Access {
		if !p.ownNode(c.Pin.Path) || len(c.After) == 0 || p.Declared == nil {
			return nil, fmt.Errorf("%s is none of the tool's own nodes, or nobody declares its list", c.Pin.Path)
		}
		c.ACLDiff = ACLDiff{c.Before, c.After}
		p.Access = append(p.Access, c.AccessChange)
	}
	return p, f.lost()
}

// lost checks what is to be deleted besides nodes of the plan: their names become paths of operations
// that belong to no change.
func (f planForm) lost() error {
	for _, s := range slices.Concat(f.Shards, f.Strays) {
		if err := kind.ValidateName(s.Name); err != nil {
			return err
		}
	}
	return nil
}

// eachOf decodes the elements of a list one by one.
//
// If they were decoded as a whole, the forms of a hundred thousand changes would be in memory
// together with the changes made from them.
func eachOf[T any](list span, each func(T) error) error {
	in := json.NewDecoder(bytes.NewReader(list))
	switch t, err := in.Token(); {
	case len(list) == 0, t == nil && err == nil: // absent, null
		return nil
	case err != nil:
		return err
	// More finds no element in any other value, which would then pass as an empty list.
	case t != json.Delim('['):
		return fmt.Errorf("there is %v where a list should be", t)
	}
	for in.More() {
		var v T
		if err := in.Decode(&v); err != nil {
			return err
		}
		if err := each(v); err != nil {
			return err
		}
	}
	return nil
}

func (r *formReader) change(p *Plan, f changeForm) (*Change, error) {
	before, err := r.node(f.Before)
	if err != nil {
		return nil, err
	}
	after, err := r.after(f, before)
	if err != nil {
		return nil, err
	}
	plain := Change(f.plainChange)
	c := &plain
	c.Before, c.After = before, after
	c.Tombstone = tombstone(after) || after == nil && tombstone(before)
	if (before != nil) != (f.Action != Create) || (after != nil) != (f.Action != Delete) {
		return nil, fmt.Errorf("%s with these nodes makes no sense", f.Action)
	}
	// Every operation on a node that exists is guarded by a version.
	if before != nil && before.Live == nil {
		return nil, errors.New("versions are missing")
	}
	for _, n := range []*Node{before, after} {
		if n == nil {
			continue
		}
		c.Addr, c.Path, c.Kind = n.Addr, n.Path, n.Kind()
		unowned := n == before && c.Importing != "" || n == after && c.Action == Forget
		ours := n.Payload.Owner.Stack == p.Stack || unowned && n.Payload.Owner.Stack == ""
		// The owner decides what a transaction of this stack may touch. Only the nodes before an
		// import and after a Forget have none. A tombstone may be anywhere, because an import may have
		// moved the lock from there.
		inside := under(n.Path, p.Root) || c.Tombstone
		if !ours || !inside || n.Path == ScaffoldPath(p.Root) || under(n.Path, ScaffoldPath(p.Root)) {
			return nil, fmt.Errorf("%s is not a node of stack %q", n.Path, p.Stack)
		}
	}
	if before != nil {
		c.Usage = usage(before)
	}
	if before != nil && after != nil {
		// A move is two changes, one at either path.
		if before.Path != after.Path {
			return nil, errors.New("the node changes its path")
		}
		// A node that is forgotten, or stays as it is, was not compared.
		if c.Action != Forget && (c.Action != NoOp || before.Payload.Owner != after.Payload.Owner) {
			c.compare()
		}
		// compare finds what differs. That a replacement creates its parts again is known only where
		// the action was chosen: comparison and adoption do the same.
		if c.Reason == ReasonReplaceByRequest {
			c.MissingParts = nil
		}
	}
	if c.Reason == ReasonReplaceContainer {
		c.MissingParts = nil
	}
	return c, nil
}

func (r *formReader) after(f changeForm, before *Node) (*Node, error) {
	if !f.Same {
		if before != nil && f.After != nil {
			f.After.Path, f.After.Addr = cmp.Or(f.After.Path, before.Path), cmp.Or(f.After.Addr, before.Addr)
		}
		return r.node(f.After)
	}
	switch {
	case before != nil && f.After == nil && f.Action == NoOp:
		return before, nil
	case before == nil || f.After == nil:
		return nil, errors.New("what is said to be the same is missing")
	}
	n := Node(f.After.plainNode)
	n.Path, n.Addr, n.Payload, n.ACL, n.Origin = before.Path, before.Addr, before.Payload, before.ACL, r.sameOrigin(n.Origin)
	return &n, nil
}

func (r *formReader) node(f *nodeForm) (*Node, error) {
	if f == nil {
		return nil, nil
	}
	if err := kind.ValidatePath(f.Path); err != nil {
		return nil, err
	}
	payload, err := r.payload(f)
	if err != nil {
		return nil, err
	}
	n := Node(f.plainNode)
	n.Payload, n.Origin = payload, r.sameOrigin(n.Origin)
	if n.ACL, err = r.list(f.ACL); err != nil {
		return nil, err
	}
	if f.Live != nil {
		live := f.Live.Live
		if live.Parts, err = r.parts(n.Kind(), f.Live.Parts); err != nil {
			return nil, err
		}
		n.Live = &live
	}
	return &n, nil
}
