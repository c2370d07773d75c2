package kind

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// members are the fields of a JSON object. They are written as json.Marshal writes a map, in a quarter of its time: a
// plan encodes every lock of a tree.
type members []member

type member struct {
	name  string
	value any
}

// with adds those fields that m does not have.
func (m members) with(others map[string]json.RawMessage) members {
	for name, value := range others {
		if !slices.ContainsFunc(m, func(f member) bool { return f.name == name }) {
			m = append(m, member{name, value})
		}
	}
	return m
}

func (m members) append(b []byte) (_ []byte, err error) {
	slices.SortFunc(m, func(a, b member) int { return cmp.Compare(a.name, b.name) })
	b = append(b, '{')
	for i, f := range m {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, f.name), ':')
		switch v := f.value.(type) {
		case string:
			b = appendString(b, v)
		case int:
			b = strconv.AppendInt(b, int64(v), 10)
		case int64:
			b = strconv.AppendInt(b, v, 10)
		case bool:
			b = strconv.AppendBool(b, v)
		case interface{ append([]byte) ([]byte, error) }: // members, owner
			b, err = v.append(b)
		default:
			var raw []byte
			raw, err = json.Marshal(v)
			b = append(b, raw...)
		}
		if err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// owner is the form of an Owner, with the fields that a newer version wrote.
type owner struct {
	Owner
	others map[string]json.RawMessage
}

// append writes our fields in the order of the struct, and then the others.
func (o owner) append(b []byte) ([]byte, error) {
	b = appendString(append(b, `{"stack":`...), o.Stack)
	b = appendString(append(b, `,"addr":`...), o.Addr)
	if len(o.others) == 0 {
		return append(b, '}'), nil
	}
	others, err := members(nil).with(o.others).append(nil)
	if err != nil {
		return nil, err
	}
	return append(append(b, ','), others[1:]...), nil
}

// ownerOthers returns what is in the JSON of an owner besides our fields, of which json.Unmarshal takes any letter case. Of
// nearly all it is nothing, which costs no map.
func ownerOthers(raw json.RawMessage, ours Owner) (others map[string]json.RawMessage) {
	if plain, err := (owner{Owner: ours}).append(nil); err == nil && bytes.Equal(raw, plain) {
		return nil
	}
	_ = json.Unmarshal(raw, &others) // into Owner it could be done
	maps.DeleteFunc(others, func(name string, _ json.RawMessage) bool {
		return strings.EqualFold(name, "stack") || strings.EqualFold(name, "addr")
	})
	return others
}

// appendString writes what json.Marshal writes, which has a form of its own for HTML's characters and for bytes that are
// not UTF-8.
func appendString(b []byte, s string) []byte {
	whole := len(b)
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ' || c > '~' || c == '<' || c == '>' || c == '&':
			raw, _ := json.Marshal(s) // a string: it cannot fail
			return append(b[:whole], raw...)
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
