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

// The forms are what a plan looks like in a file. They differ from the values
// in two ways: access lists are written in full, each once, and what can be computed
// from the nodes (parameter and access differences) is left out and computed again,
// so that a file cannot contradict itself.
//
// Reading checks what the rest of this package relies on: a body that makes no sense, though
// its sum is right, ends in an error and not in a panic or a write outside the stack
// (TestSealedNonsenseIsRefused). That is no defence against an author, see [File]. Orders are
// not checked: a transaction of changes in another order is refused by ZooKeeper, which knows
// no child without its parent.

type bodyForm struct {
	Plans  []planForm `json:"plans"`
	Checks []Check    `json:"checks"`
}

type planForm struct {
	Ensemble    string                     `json:"ensemble"`
	Root        string                     `json:"root"`
	Stack       string                     `json:"stack"`
	Destroy     bool                       `json:"destroy,omitempty"`
	ConfigHash  string                     `json:"cfg,omitempty"`
	Problems    []Problem                  `json:"problems,omitempty"`
	Index       Pin                        `json:"index"`
	Destroys    int32                      `json:"destroys,omitempty"`
	Applied     string                     `json:"applied,omitempty"`
	IndexExtra  map[string]json.RawMessage `json:"index_extra,omitempty"`
	Outputs     []outputForm               `json:"outputs,omitempty"`
	Resumes     string                     `json:"resumes,omitempty"`
	Transaction Stats                      `json:"transaction"`
	Batches     []Stats                    `json:"batches,omitempty"`
	Shards      []Shard                    `json:"shards,omitempty"`
	Strays      []Shard                    `json:"strays,omitempty"`
	Kept        map[string]IndexEntry      `json:"kept,omitempty"`
	LeftQuotas  []leftQuota                `json:"left_quotas,omitempty"`
	Unread      bool                       `json:"index_unread,omitempty"`
	Drifted     []Drift                    `json:"drifted,omitempty"`
	Targeted    bool                       `json:"targeted,omitempty"`
	RefreshOnly bool                       `json:"refresh_only,omitempty"`
	Drain       int64                      `json:"drain_ms,omitempty"`
	Declared    *Access                    `json:"declared,omitempty"`
	Noted       []kind.ACL                 `json:"noted,omitempty"`
	Access      []accessForm               `json:"access,omitempty"`

	// ACLs are the different access lists, to which nodes refer by number from 0.
	ACLs [][]kind.ACL `json:"acls,omitempty"`

	// What there are many of is written and read one by one.
	Changes span `json:"changes,omitempty"` // list of changeForm
	Pins    span `json:"pins,omitempty"`    // list of Pin
}

type changeForm struct {
	Action Action    `json:"action"`
	Before *nodeForm `json:"before,omitempty"`
	// After says Same where it is the node before, but for where it was declared:
	// nearly all changes of a large plan are of this sort. Otherwise it leaves out the
	// path, which is that of the node before, and an address that stays.
	After   *nodeForm `json:"after,omitempty"`
	Same    bool      `json:"same,omitempty"`
	Drift   bool      `json:"drift,omitempty"`
	Unnoted bool      `json:"unnoted,omitempty"`
	Reason  Reason    `json:"reason,omitempty"`

	PreviousPath string `json:"previous_path,omitempty"`
	PreviousAddr string `json:"previous_address,omitempty"`
	Importing    string `json:"importing,omitempty"`
	Break        bool   `json:"break,omitempty"`

	Quota *quotaForm `json:"quota,omitempty"`
}

type quotaForm struct {
	Before int       `json:"before"`
	After  int       `json:"after"`
	Live   LiveQuota `json:"live"`
}

type nodeForm struct {
	Path         string          `json:"path,omitempty"`
	Addr         string          `json:"address,omitempty"`
	Origin       string          `json:"origin,omitempty"`
	Payload      json.RawMessage `json:"payload,omitempty"` // without its access list
	ACL          *int            `json:"acl,omitempty"`
	ChildACL     *int            `json:"child_acl,omitempty"`
	AllowWorld   bool            `json:"allow_world,omitempty"`
	AllowLockout bool            `json:"allow_lockout,omitempty"`
	Quota        int             `json:"quota,omitempty"`
	Live         *liveForm       `json:"live,omitempty"`
}

// liveForm writes Live with the access lists of its parts: here as below, the outer
// field hides the inner one of the same name.
// (encoding/json takes the field that is embedded least deep.)
type liveForm struct {
	Live
	Parts []partForm `json:"parts,omitempty"`
}

type partForm struct {
	plainPart
	ACL *int `json:"acl,omitempty"`
}

// plainPart is Part without the method that redacts it.
type plainPart Part

// accessForm is an AccessChange with its lists in full.
type accessForm struct {
	Addr       string     `json:"address"`
	Before     []kind.ACL `json:"before"`
	After      []kind.ACL `json:"after"`
	Contenders bool       `json:"contenders,omitempty"`
	Pin        Pin        `json:"pin"`
}

type outputForm struct {
	Name   string  `json:"name"`
	Action Action  `json:"action"`
	Before *Output `json:"before,omitempty"`
	After  *Output `json:"after,omitempty"`
}

// formOf is what there is one of in a plan.
func formOf(p *Plan, t *listTable) planForm {
	f := planForm{
		Ensemble: p.Ensemble, Root: p.Root, Stack: p.Stack, Destroy: p.Destroy, ConfigHash: p.ConfigHash, Problems: p.Problems,
		Index: p.Index, Destroys: p.Destroys, Applied: p.Applied, IndexExtra: p.indexExtra, Resumes: p.Resumes, Transaction: p.Transaction,
		Batches: p.Batches, Shards: p.shards, Strays: p.strays, Kept: p.kept, LeftQuotas: p.leftQuotas, Unread: p.unread, Drifted: p.Drifted, Targeted: p.Targeted, RefreshOnly: p.RefreshOnly, Drain: p.Drain,
		Declared: p.Declared, Noted: p.noted, ACLs: t.lists,
	}
	for _, c := range p.Access {
		f.Access = append(f.Access, accessForm{c.Addr, c.Before, c.After, c.Contenders, c.Pin})
	}
	for _, o := range p.Outputs {
		f.Outputs = append(f.Outputs, outputForm(o))
	}
	return f
}

func changeFormOf(c *Change, t *listTable) (changeForm, error) {
	f := changeForm{
		Action: c.Action, Drift: c.Drift, Unnoted: c.Unnoted, Reason: c.Reason,
		PreviousPath: c.PreviousPath, PreviousAddr: c.PreviousAddr, Importing: c.Importing, Break: c.Break,
	}
	if q := c.Quota; q != nil {
		f.Quota = &quotaForm{q.Before, q.After, q.live}
	}
	var err error
	if f.Before, err = nodeFormOf(c.Before, t); err != nil {
		return f, err
	}
	if f.After, err = nodeFormOf(c.After, t); err != nil || f.Before == nil || f.After == nil {
		return f, err
	}
	b, a := f.Before, f.After
	// Encoded payloads are compared, not values: equal ones give equal bytes, and they are written
	// in any case. The origin and what the acl allows stay with the node after, which a node that
	// was found has none of.
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
	payload.ChildACL = nil // it stands in the table
	data, err := payload.Encode()
	if err != nil {
		return nil, fmt.Errorf("plan: %s: %w", n.Addr, err)
	}
	f := &nodeForm{
		Path: n.Path, Addr: n.Addr, Origin: n.Origin, Payload: data, ACL: t.number(n.ACL), ChildACL: t.number(n.Payload.ChildACL),
		AllowWorld: n.AllowWorld, AllowLockout: n.AllowLockout, Quota: n.Quota,
	}
	if n.Live != nil {
		f.Live = &liveForm{Live: *n.Live}
		for _, p := range n.Live.Parts {
			f.Live.Parts = append(f.Live.Parts, partForm{plainPart(p), t.number(p.ACL)})
		}
	}
	return f, nil
}

// plan checks everything the methods of a Plan rely on: a file may be anything.
func (f planForm) plan() (*Plan, error) {
	p := &Plan{
		Ensemble: f.Ensemble, Root: f.Root, Stack: f.Stack, Destroy: f.Destroy, ConfigHash: f.ConfigHash,
		Problems: f.Problems, Index: f.Index, Destroys: f.Destroys, Applied: f.Applied, indexExtra: f.IndexExtra,
		Resumes: f.Resumes, Transaction: f.Transaction,
		Batches: f.Batches, shards: f.Shards, strays: f.Strays, kept: f.Kept, leftQuotas: f.LeftQuotas, unread: f.Unread, Drifted: f.Drifted, Targeted: f.Targeted, RefreshOnly: f.RefreshOnly, Drain: f.Drain,
		Declared: f.Declared, noted: f.Noted,
	}
	if err := kind.ValidatePath(p.Root); err != nil {
		return nil, err
	}
	if err := kind.ValidateName(p.Stack); err != nil {
		return nil, err
	}
	// It is written and deleted like what it says, so it must not say another place.
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
		if n := len(p.Pins); n > 0 && p.Pins[n-1].Addr == pin.Addr { // a part of it: the same text in memory
			pin.Addr = p.Pins[n-1].Addr
		}
		p.Pins = append(p.Pins, pin)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("pin %d: %w", len(p.Pins), err)
	}
	for _, o := range f.Outputs {
		if (o.After == nil) != (o.Action == Delete) {
			return nil, fmt.Errorf("output %q: %s makes no sense", o.Name, o.Action)
		}
		p.Outputs = append(p.Outputs, OutputChange(o))
	}
	p.clashes()
	for _, c := range f.Access {
		if !p.ownNode(c.Pin.Path) || len(c.After) == 0 || p.Declared == nil {
			return nil, fmt.Errorf("%s is none of the tool's own nodes, or nobody declares its list", c.Pin.Path)
		}
		p.Access = append(p.Access, AccessChange{c.Addr, ACLDiff{c.Before, c.After}, c.Contenders, c.Pin})
	}
	return p, f.lost()
}

// lost checks what is to be deleted besides nodes of the plan.
// Their names become paths of operations that no change accounts for.
func (f planForm) lost() error {
	for _, s := range slices.Concat(f.Shards, f.Strays) {
		if err := kind.ValidateName(s.Name); err != nil {
			return err
		}
	}
	for _, q := range f.LeftQuotas {
		if err := kind.ValidatePath(q.Path); err != nil {
			return err
		}
	}
	return nil
}

// eachOf decodes the elements of a list one by one.
//
// Decoded as a whole, the forms of a hundred thousand changes would be in memory beside the
// changes that are made of them.
func eachOf[T any](list span, each func(T) error) error {
	in := json.NewDecoder(bytes.NewReader(list))
	switch t, err := in.Token(); {
	case len(list) == 0, t == nil && err == nil: // absent, null
		return nil
	case err != nil:
		return err
	// More finds no element in any other value, which would pass for an empty list.
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
	c := &Change{
		Action: f.Action, Before: before, After: after, Drift: f.Drift, Unnoted: f.Unnoted, Reason: f.Reason,
		PreviousPath: f.PreviousPath, PreviousAddr: f.PreviousAddr, Importing: f.Importing, Break: f.Break,
	}
	if q := f.Quota; q != nil {
		c.Quota = &QuotaDiff{q.Before, q.After, q.Live, p.Declared}
	}
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
		// Whose the nodes are decides what a transaction of this stack may touch. Nobody's are those
		// before an import and behind a forgetting, and no others.
		// What an import moved here stood anywhere.
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
		// What is let go, or stays as it is, was compared with nothing.
		if c.Action != Forget && (c.Action != NoOp || before.Payload.Owner != after.Payload.Owner) {
			c.compare()
		}
		// compare says what differs. That a replacement makes its parts anew, and that a change that
		// writes no data has no former address, is known to whoever chose the action: see comparison
		// and adoption, which say the same.
		if c.Reason == ReasonReplaceByRequest || c.Reason == ReasonReplaceACL {
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
	if before == nil || f.After == nil {
		return nil, errors.New("what is said to be the same is missing")
	}
	return &Node{
		Path: before.Path, Addr: before.Addr, Payload: before.Payload, ACL: before.ACL,
		Origin: r.sameOrigin(f.After.Origin), AllowWorld: f.After.AllowWorld, AllowLockout: f.After.AllowLockout, Quota: f.After.Quota,
	}, nil
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
	acl, err := r.list(f.ACL)
	if err != nil {
		return nil, err
	}
	n := &Node{
		Path: f.Path, Addr: f.Addr, Origin: r.sameOrigin(f.Origin), Payload: payload, ACL: acl,
		AllowWorld: f.AllowWorld, AllowLockout: f.AllowLockout, Quota: f.Quota,
	}
	if f.Live != nil {
		live := f.Live.Live
		if live.Parts, err = r.parts(n.Kind(), f.Live.Parts); err != nil {
			return nil, err
		}
		n.Live = &live
	}
	return n, nil
}
