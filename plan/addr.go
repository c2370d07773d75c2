package plan

import (
	"strconv"
	"strings"
)

// Addr is the address of a declaration: namespace.pay.mutex.ledger, module.team["search"].mutex.m["k"].
// It consists of steps TYPE.NAME, each with a key in brackets if it is one of several instances. "" is no address.
//
// A key is quoted as by [strconv.Quote], so that anything inside a key that looks like an address is part of the
// key. Addresses compare and sort as strings.
type Addr string

// step is one step of an address.
type step struct {
	typ, name string
	key       string // as written, with its quotes; "" for none
	end       int    // where the step ends in the address
}

// steps calls f for each step until f returns false.
func (a Addr) steps(f func(step) bool) {
	for at := 0; at < len(a); {
		typ, rest, _ := strings.Cut(string(a[at:]), ".")
		s := step{typ: typ, name: rest}
		if i := strings.IndexAny(rest, ".["); i >= 0 {
			s.name = rest[:i]
		}
		s.end = min(at+len(typ)+1+len(s.name), len(a))
		if key, err := strconv.QuotedPrefix(strings.TrimPrefix(string(a[s.end:]), "[")); err == nil && a[s.end] == '[' {
			s.key = key
			s.end = min(s.end+len(key)+2, len(a))
		}
		if !f(s) {
			return
		}
		at = s.end + 1 // the dot
	}
}

func (a Addr) last() (last step) {
	a.steps(func(s step) bool { last = s; return true })
	return last
}

// Child returns the address of a block inside the block at address a.
func (a Addr) Child(typ, name string) Addr {
	if a != "" {
		a += "."
	}
	return a + Addr(typ+"."+name)
}

// Instance is the address of one instance of the block a.
func (a Addr) Instance(key string) Addr { return a + Addr("["+strconv.Quote(key)+"]") }

// Type is the type of the last step: "mutex".
func (a Addr) Type() string { return a.last().typ }

// Name is the last name, without its key.
func (a Addr) Name() string { return a.last().name }

// Key is the key of the last step, which distinguishes the instances of a block; ok reports whether there is one.
func (a Addr) Key() (key string, ok bool) {
	key, err := strconv.Unquote(a.last().key)
	return key, err == nil
}

// Base is the address without its own key.
func (a Addr) Base() Addr {
	if key := a.last().key; key != "" {
		return a[:len(a)-len(key)-2]
	}
	return a
}

// Block is the address without any keys.
func (a Addr) Block() Addr {
	if !strings.Contains(string(a), "[") {
		return a
	}
	var out []string
	a.steps(func(s step) bool { out = append(out, s.typ+"."+s.name); return true })
	return Addr(strings.Join(out, "."))
}

// Parent is the address of the enclosing block, "" if there is none.
func (a Addr) Parent() Addr {
	before, end := 0, 0
	a.steps(func(s step) bool { before, end = end, s.end; return true })
	return a[:before]
}

// Module is the address of the module that declares a; "" for the root module.
func (a Addr) Module() Addr {
	end := 0
	a.steps(func(s step) bool {
		if s.typ == "module" {
			end = s.end
		}
		return s.typ == "module"
	})
	return a[:end]
}

// Covers reports whether b is at the address a, an instance of it or something in it. The address a may be a person's input, and
// malformed. If a ends inside a key, it covers nothing.
func (a Addr) Covers(b Addr) bool {
	_, ok := b.within(a)
	ok = ok && a != ""
	b.steps(func(s step) bool {
		bracket := s.end - len(s.key) - len("[]")
		ok = ok && (s.key == "" || len(a) <= bracket || s.end <= len(a))
		return ok && s.end < len(a)
	})
	return ok
}

// within reports whether a is base, an instance of it or something in it, and returns what follows base.
//
// A dot or a bracket must follow, otherwise mutex.ab would be within mutex.a. That character cannot be part of a key, because base
// ends outside of quotes.
func (a Addr) within(base Addr) (rest Addr, ok bool) {
	text, ok := strings.CutPrefix(string(a), string(base))
	return Addr(text), ok && (text == "" || base == "" || text[0] == '.' || text[0] == '[')
}
