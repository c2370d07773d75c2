package saved

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// codec writes values, or reads them into variables that are zero. A value is written by its type, field by field and without
// names: only the program that wrote a file reads it. The codec does not name fields, so a new field needs no code here. A test
// fails for a type that the codec cannot write.
//
// A string is written once; its next mention is a number. A tree, too, is written once and then named by its number, because
// trees may refer to each other. When a file is read, equal access lists share their memory.
type codec struct {
	out *bufio.Writer // keeps its first error until it is flushed; nil while reading
	in  []byte        // what is left
	err error         // the first one of reading; after it all values are zero

	numbers map[string]int64 // the number of each string, when writing
	texts   []string         // the string of each number, when reading
	lists   map[string]reflect.Value
	trees   []*plan.Tree
}

var (
	listType   = reflect.TypeFor[kind.List]()
	treeType   = reflect.TypeFor[*plan.Tree]()
	kindType   = reflect.TypeFor[*kind.Kind]()
	timeType   = reflect.TypeFor[time.Time]()
	outputType = reflect.TypeFor[plan.Output]()
)

func writer(out *bufio.Writer) *codec { return &codec{out: out, numbers: map[string]int64{}} }
func reader(in []byte) *codec         { return &codec{in: in, lists: map[string]reflect.Value{}} }

// document reads or writes v, and then the trees that v mentions, in the order of mention.
func (c *codec) document(v reflect.Value) error {
	c.value(v)
	for i := 0; i < len(c.trees); i++ {
		c.value(reflect.ValueOf(c.trees[i]).Elem())
	}
	if len(c.in) > 0 {
		c.fail()
	}
	return c.err
}

func (c *codec) fail() {
	c.in, c.err = nil, errors.New("its contents are of another form")
}

func (c *codec) number(n int64) int64 {
	if c.out != nil {
		_, _ = c.out.Write(binary.AppendVarint(c.out.AvailableBuffer(), n))
		return n
	}
	n, size := binary.Varint(c.in)
	if size <= 0 {
		c.fail()
		return 0
	}
	c.in = c.in[size:]
	return n
}

// count is the number of things that follow. Each takes at least a byte; -1 is nil.
func (c *codec) count(n int) int {
	read := c.number(int64(n))
	if c.out == nil && (read < -1 || read > int64(len(c.in))) {
		c.fail()
		return -1
	}
	return int(read)
}

func (c *codec) text(s string) string {
	if c.out != nil {
		n, met := c.numbers[s]
		if c.number(n); !met {
			c.numbers[s] = int64(len(c.numbers)) + 1
			c.count(len(s))
			_, _ = c.out.WriteString(s)
		}
		return s
	}
	switch n := c.number(0); {
	case n < 0 || n > int64(len(c.texts)):
		c.fail()
		return ""
	case n > 0:
		return c.texts[n-1]
	}
	c.texts = append(c.texts, string(c.read(c.count(0))))
	return c.texts[len(c.texts)-1]
}

func (c *codec) read(n int) []byte {
	out := c.in[:max(n, 0)]
	c.in = c.in[len(out):]
	return out
}

func (c *codec) value(v reflect.Value) {
	reads := c.out == nil
	switch v.Type() {
	case treeType:
		c.tree(v)
		return
	case timeType: // in milliseconds, which can express any year
		if n := c.number(v.Interface().(time.Time).UnixMilli()); reads {
			v.Set(reflect.ValueOf(time.UnixMilli(n)))
		}
		return
	case kindType: // only answers contain kinds, and an answer is only summed, never read from a file
		c.text(v.Elem().FieldByName("Name").String())
		return
	case outputType:
		if o := v.Interface().(plan.Output); o.Sensitive && !reads { // no plan uses its value
			o.Value = nil
			v = reflect.ValueOf(o)
		}
	}
	switch v.Kind() {
	case reflect.Bool:
		n := int64(0)
		if v.Bool() {
			n = 1
		}
		if n = c.number(n); reads {
			v.SetBool(n == 1)
		}
	case reflect.Int, reflect.Int32, reflect.Int64:
		if n := c.number(v.Int()); reads {
			v.SetInt(n)
		}
	case reflect.Uint64:
		if n := c.number(int64(v.Uint())); reads {
			v.SetUint(uint64(n))
		}
	case reflect.String:
		if s := c.text(v.String()); reads {
			v.SetString(s)
		}
	case reflect.Pointer:
		c.pointer(v)
	case reflect.Struct:
		c.fields(v)
	case reflect.Slice:
		c.elements(v)
	case reflect.Map:
		c.entries(v)
	case reflect.Interface:
		c.interfaceValue(v)
	default:
		panic(fmt.Sprintf("saved: a %s cannot be written", v.Type()))
	}
}

// length writes or reads the length of a slice or a map.
func (c *codec) length(v reflect.Value) int {
	if v.IsNil() {
		return c.count(-1)
	}
	return c.count(v.Len())
}

func (c *codec) pointer(v reflect.Value) {
	there := -1
	if !v.IsNil() {
		there = 0
	}
	if c.count(there) < 0 {
		return
	}
	if c.out == nil {
		v.Set(reflect.New(v.Type().Elem()))
	}
	c.value(v.Elem())
}

// fields says which fields of a struct are not zero. Only these follow.
func (c *codec) fields(v reflect.Value) {
	set := int64(0)
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			set |= 1 << i
		}
	}
	set = c.number(set)
	for i := range v.NumField() {
		if set&(1<<i) != 0 {
			c.value(v.Field(i))
		}
	}
}

func (c *codec) elements(v reflect.Value) {
	n, reads := c.length(v), c.out == nil
	switch {
	case n < 0:
		return
	case v.Type().Elem().Kind() == reflect.Uint8 && reads:
		v.SetBytes(slices.Clone(c.read(n)))
		return
	case v.Type().Elem().Kind() == reflect.Uint8:
		_, _ = c.out.Write(v.Bytes())
		return
	case reads:
		v.Set(reflect.MakeSlice(v.Type(), n, n))
	}
	for i := range n {
		c.value(v.Index(i))
	}
	if reads && v.Type() == listType {
		c.share(v)
	}
}

// share replaces v by an equal list that was read before.
func (c *codec) share(v reflect.Value) {
	list := v.Interface().(kind.List)
	var key []byte
	for _, a := range list {
		key = strconv.AppendQuote(strconv.AppendQuote(append(key, byte(a.Perms)), a.Scheme), a.ID)
	}
	first, met := c.lists[string(key)]
	if !met {
		first = reflect.ValueOf(list)
		c.lists[string(key)] = first
	}
	v.Set(first)
}

func (c *codec) entries(v reflect.Value) {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	n, reads := c.length(v), c.out == nil
	if n >= 0 && reads {
		v.Set(reflect.MakeMapWithSize(v.Type(), n))
	}
	for i := range n {
		key, one := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		if !reads {
			key, one = keys[i], v.MapIndex(keys[i])
		}
		c.value(key)
		c.value(one)
		if reads {
			v.SetMapIndex(key, one)
		}
	}
}

// tree is the number of a tree, from 0, in the order of their first mention; -1 is nil.
func (c *codec) tree(v reflect.Value) {
	n := -1
	if tree := (*plan.Tree)(v.UnsafePointer()); tree != nil {
		if n = slices.Index(c.trees, tree); n < 0 {
			n = len(c.trees)
			c.trees = append(c.trees, tree)
		}
	}
	read := int(c.number(int64(n)))
	switch {
	case c.out != nil || read < 0:
		return
	case read > len(c.trees):
		c.fail()
		return
	case read == len(c.trees):
		c.trees = append(c.trees, &plan.Tree{})
	}
	v.Set(reflect.ValueOf(c.trees[read]))
}

// interfaceValue writes or reads the value of an interface
// that is not nil.
func (c *codec) interfaceValue(v reflect.Value) {
	switch {
	case c.out == nil:
		k := kind.Lookup(c.text(""))
		if k == nil {
			c.fail()
			return
		}
		p := reflect.ValueOf(k.New())
		p.Elem().SetZero() // a zero value is not in the file, whatever the default
		c.value(p.Elem())
		v.Set(p)
	default:
		if p, ok := v.Interface().(kind.Params); ok {
			c.text(p.Kind().Name)
			c.value(v.Elem().Elem())
			return
		}
		c.text(v.Elem().Type().String()) // v is the value of a changed parameter, which only an answer has
		c.value(v.Elem())
	}
}
