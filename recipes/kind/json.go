package kind

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
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
		case members:
			b, err = v.append(b)
		case Owner: // its fields have the order of the struct
			b = appendString(append(b, `{"stack":`...), v.Stack)
			b = append(appendString(append(b, `,"addr":`...), v.Addr), '}')
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
