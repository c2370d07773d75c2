package kind

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Format is the version of the payload format that this package reads and writes. It refuses newer formats.
const Format = 1

// maxPayload is far more than we write (about a kilobyte). Larger data is not parsed, so a foreign megabyte costs nothing.
const maxPayload = 64 << 10

// State says whether a provisioned lock may be used.
type State string

// The states.
const (
	StateActive   State = "active"
	StateDraining State = "draining" // grants nothing new: new calls and waiters get an error, holders keep the lock
)

// Made says how a provisioned node came into being.
type Made string

const (
	// MadeHere: an apply created the node. It is persistent.
	MadeHere Made = ""
	// MadeElsewhere: another program created the node, and an apply took the node over while it was in use. The node may be a
	// container (Curator's nodes are), which the servers delete some time after the last child left. A server does not say whether
	// a node is a container.
	MadeElsewhere Made = "elsewhere"
)

// Owner is the stack that declared a node, and the node's address there.
type Owner struct {
	Stack string `json:"stack"`
	Addr  string `json:"addr"`
}

// String names the stack and the address: stack "payments" (mutex.ledger). A node that its stack has let go has neither.
func (o Owner) String() string {
	if o.Stack == "" {
		return "no stack"
	}
	return fmt.Sprintf("stack %q (%s)", o.Stack, o.Addr)
}

// Payload is the data of a provisioned node: its declaration as the library, plan and other stacks see it.
type Payload struct {
	Params   Params
	Owner    Owner
	Protect  bool  // the node must not be deleted until an apply unprotects it
	ChildACL List  // the ACL of contenders; nil: derived from the lock node's own ACL
	Gen      int64 // a number that every apply raises when it changes the payload
	State    State
	Made     Made
	// Since is when the schedule of a job was declared, in milliseconds since 1970 by the servers' clock: its slots count from
	// then on. The write that declares a schedule cannot know its own time, and leaves Since out: see [Payload.Read]. Later writes
	// have Since.
	Since int64
	// Sum is a checksum of the node, which each apply writes. By it the next plan sees what was changed by hand. It is "" for a
	// node of no stack.
	Sum string

	Unknown *unknown // fields that a newer version wrote, kept for rewriting; nil for nearly all
}

type unknown struct{ Doc, Spec, Owner map[string]json.RawMessage }

// ErrForeign means that the data is not a payload of locktree: the node belongs to another program, and must be left alone.
var ErrForeign = errors.New("kind: not a locktree node")

// VersionError means that the payload has a newer format than this program reads, or a newer type or state. For a newer type or
// state, Unknown names that type or state (`type "barrier"`), and Got is the present format.
type VersionError struct {
	Got     int
	Unknown string
}

func (e *VersionError) Error() string {
	if e.Unknown != "" {
		return fmt.Sprintf("kind: the node has the %s, which this program does not know: upgrade locktree", e.Unknown)
	}
	return fmt.Sprintf("kind: the node was written in payload format %d, this program reads format %d: upgrade locktree", e.Got, Format)
}

// damagedError is the error of data that claims to be ours but does not make sense. The parameter field is a JSON path; "" means
// the whole payload.
func damagedError(field string, err error) error {
	if field == "" {
		return fmt.Errorf("kind: damaged payload: %w", err)
	}
	return fmt.Errorf("kind: damaged payload: %s: %w", field, err)
}

// Encode writes the payload as JSON with sorted keys: equal payloads give equal bytes. No field that Carry brought can replace one of ours.
func (p *Payload) Encode() ([]byte, error) {
	if p.Params == nil {
		return nil, errors.New("kind: payload without parameters")
	}
	if err := Validate(p.Params); err != nil {
		return nil, err
	}
	var kept unknown
	if p.Unknown != nil {
		kept = *p.Unknown
	}
	fields := p.Params.Fields()
	spec := make(members, 0, len(fields))
	for _, f := range fields {
		v := f.Get()
		if (f.Inherit || f.Derived) && v == f.Default {
			// The default of such a parameter means "none" in every version. So it is left out, as older versions do.
			continue
		}
		// A default is written too: the declaration must keep its meaning when a later version changes the default.
		spec = append(spec, member{f.Name, v})
	}
	doc := append(make(members, 0, 13), member{"locktree", Format}, member{"type", p.Params.Kind().Name},
		member{"spec", spec.addMissing(kept.Spec)}, member{"owner", owner{p.Owner, kept.Owner}}, member{"protect", p.Protect}, member{"gen", p.Gen},
		member{"state", string(stateOr(p.State))})
	if p.ChildACL != nil {
		doc = append(doc, member{"child_acl", p.ChildACL})
	}
	if p.Made != MadeHere {
		doc = append(doc, member{"made", string(p.Made)})
	}
	if p.Since != 0 {
		doc = append(doc, member{"since", p.Since})
	}
	if p.Sum != "" {
		doc = append(doc, member{"sum", p.Sum})
	}
	return doc.addMissing(kept.Doc).append(make([]byte, 0, 384))
}

// Children returns the names of the child nodes that are created with the node: for a family its directories, otherwise those of
// [Kind].
func (p *Payload) Children() []string {
	if family, ok := p.Params.(*KeyedParams); ok {
		return family.children()
	}
	return p.Params.Kind().Children
}

// stateOr returns one string for all nodes of a state: the decoder makes a copy for each node, which matters with a hundred
// thousand nodes.
func stateOr(s State) State {
	switch s {
	case "", StateActive:
		return StateActive
	case StateDraining:
		return StateDraining
	}
	return s
}

// Decode reads a payload. An error other than [ErrForeign] and [*VersionError] means that the data is damaged. No input makes Decode panic.
func Decode(data []byte) (*Payload, error) {
	doc, err := envelope(data)
	if err != nil {
		return nil, err
	}
	// Each known field is taken out of doc: what is left is unknown.
	p := &Payload{}
	var name string
	spec := map[string]json.RawMessage{}
	rawOwner := doc["owner"]
	for _, f := range []struct {
		key string
		to  any
	}{
		{"type", &name}, {"spec", &spec}, {"owner", &p.Owner}, {"protect", &p.Protect},
		{"child_acl", &p.ChildACL}, {"gen", &p.Gen}, {"state", &p.State},
		{"made", &p.Made}, {"since", &p.Since}, {"sum", &p.Sum},
	} {
		if raw, ok := doc[f.key]; ok {
			if err := json.Unmarshal(raw, f.to); err != nil {
				return nil, damagedError(f.key, err)
			}
			delete(doc, f.key)
		}
	}
	delete(doc, "locktree")
	p.State = stateOr(p.State)
	k := Lookup(name)
	switch {
	case name == "":
		return nil, damagedError("type", errors.New("it has none"))
	case k == nil:
		return nil, &VersionError{Got: Format, Unknown: fmt.Sprintf("type %q", name)}
	case !slices.Contains([]State{StateActive, StateDraining}, p.State):
		return nil, &VersionError{Got: Format, Unknown: fmt.Sprintf("state %q", p.State)}
	}
	p.Params = k.New()
	spec, err = decodeSpec(p.Params, spec)
	// An emptied map would keep the memory of everything it held, which was a third of the memory of a plan of 100,000 locks.
	if others := ownerOthers(rawOwner, p.Owner); len(doc)+len(spec)+len(others) > 0 {
		p.Unknown = &unknown{doc, spec, others}
	}
	return p, err
}

// Found returns p with the generation and the sum in a node's data, which is faster than Decode. It returns nil if the data differ from p
// in another field.
func (p *Payload) Found(data []byte) *Payload {
	_, gen, _ := bytes.Cut(data, []byte(`"gen":`))
	gen, _, _ = bytes.Cut(gen, []byte(","))
	_, sum, _ := bytes.Cut(data, []byte(`"sum":"`))
	sum, _, _ = bytes.Cut(sum, []byte(`"`))
	found := *p
	found.State, found.Sum = stateOr(p.State), string(sum)
	var err error
	if found.Gen, err = strconv.ParseInt(string(gen), 10, 64); err != nil {
		return nil
	}
	if own, err := found.Encode(); err != nil || !bytes.Equal(own, data) {
		return nil
	}
	return &found
}

// envelope decides whether data is a payload at all.
func envelope(data []byte) (map[string]json.RawMessage, error) {
	if len(data) > maxPayload || !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return nil, ErrForeign
	}
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(data, &doc); err != nil {
		// If a damaged payload counted as foreign, the parameters that a program brings would be used in its place.
		if bytes.Contains(data, []byte(`"locktree"`)) {
			return nil, damagedError("", err)
		}
		return nil, ErrForeign
	}
	raw, ok := doc["locktree"]
	if !ok {
		return nil, ErrForeign
	}
	var version int
	if err := json.Unmarshal(raw, &version); err != nil {
		return nil, damagedError("locktree", err)
	}
	if version > Format {
		return nil, &VersionError{Got: version}
	}
	if version < 1 {
		return nil, damagedError("locktree", fmt.Errorf("%d is not a payload format", version))
	}
	return doc, nil
}

// decodeSpec sets the known parameters and returns the others. An absent parameter keeps its default; a required one must be there.
func decodeSpec(p Params, spec map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	for _, f := range p.Fields() {
		raw, ok := spec[f.Name]
		if !ok {
			if f.Required {
				return nil, damagedError("spec."+f.Name, errors.New("is missing"))
			}
			continue
		}
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			return nil, damagedError("spec."+f.Name, err)
		}
		// Values that are read must obey the declaration too: another program may have written them.
		if err := f.Set(v); err != nil {
			return nil, damagedError("spec."+f.Name, err)
		}
		delete(spec, f.Name)
	}
	return spec, nil
}

// Carry copies from live, the payload found at the node, what no declaration contains: how the node was made, and the fields that
// this version does not know. An update without Carry would drop what a newer version wrote.
func (p *Payload) Carry(live *Payload) {
	p.Unknown, p.Made = live.Unknown, live.Made
	p.CarrySince(live)
}

// CarrySince copies Since if p declares the schedule that the job had before, also if the job's node is created again.
func (p *Payload) CarrySince(live *Payload) {
	now, _ := p.Params.(*OnceParams)
	before, _ := live.Params.(*OnceParams)
	if now != nil && before != nil && now.calendar() == before.calendar() {
		p.Since = live.Since
	}
}

// Read completes Since in a decoded payload. The parameter written is the time of the node's last write, in milliseconds since 1970.
func (p *Payload) Read(written int64) {
	if p.Since == 0 && p.Params.Kind() == Once {
		p.Since = written
	}
}

// Limits returns the limits declared for the node, including inherited ones.
func (p *Payload) Limits() Limits {
	if p == nil {
		return Limits{}
	}
	return p.Params.common().Limits
}

// Provisioner is what [Provision] needs of a zktest.Server.
type Provisioner interface {
	Provision(path string, d interface {
		Encode() ([]byte, error)
		Children() []string
	}) error
}

// Provision declares nodes below a root of a server for tests. Each is a path below the root and the data of the node, which [Decode]
// reads. It is for code that "locktree generate go" writes. After an error, the nodes before the one that failed stay declared.
func Provision(server Provisioner, root string, nodes [][2]string) error {
	for _, node := range nodes {
		d, err := Decode([]byte(node[1]))
		if err == nil {
			err = server.Provision(strings.TrimSuffix(root, "/")+node[0], d)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
