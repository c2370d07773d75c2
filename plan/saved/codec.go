package saved

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// A value is written by its type, field by field and without names: only the program that wrote a file reads it. Nothing
// here knows what a tree consists of, so a new field follows by itself, and a test fails for a type that cannot.
//
// What many nodes have in common is written once, and is in memory once when it was read: strings and access lists, by
// what they are, and trees, which may refer to each other. The next mention is a number.

var (
	listType   = reflect.TypeFor[[]kind.ACL]()
	treeType   = reflect.TypeFor[*plan.Tree]()
	kindType   = reflect.TypeFor[*kind.Kind]()
	paramsType = reflect.TypeFor[kind.Params]()
	spanType   = reflect.TypeFor[plan.Span]()
	outputType = reflect.TypeFor[plan.Output]()
)

// span is a [plan.Span] that was read.
type span int64

func (s span) Milliseconds() int64 { return int64(s) }

type writer struct {
	to    *bufio.Writer // keeps its first error until it is flushed
	texts map[string]uint64
	lists map[string]uint64
	trees map[*plan.Tree]uint64
	queue []*plan.Tree // those that were mentioned
	err   error
}

func newWriter(to *bufio.Writer) *writer {
	return &writer{to: to, texts: map[string]uint64{}, lists: map[string]uint64{}, trees: map[*plan.Tree]uint64{}}
}

// everything writes a value, and then the trees that it mentions, in this order.
func (w *writer) everything(v reflect.Value) error {
	w.value(v)
	for i := 0; i < len(w.queue); i++ {
		w.value(reflect.ValueOf(w.queue[i]).Elem())
	}
	return w.err
}

func (w *writer) number(n uint64) { _, _ = w.to.Write(binary.AppendUvarint(w.to.AvailableBuffer(), n)) }
func (w *writer) signed(n int64)  { _, _ = w.to.Write(binary.AppendVarint(w.to.AvailableBuffer(), n)) }

// again writes the number of a key that was met before, from 1. If it was not, it writes 0, and the value is to follow.
func again[K comparable](w *writer, known map[K]uint64, key K) bool {
	n, met := known[key]
	if w.number(n); !met {
		known[key] = uint64(len(known)) + 1
	}
	return met
}

func (w *writer) text(s string) {
	if !again(w, w.texts, s) {
		w.number(uint64(len(s)))
		_, _ = w.to.WriteString(s)
	}
}

// length writes how many elements follow, and whether there is a value at all.
func (w *writer) length(v reflect.Value) {
	if v.IsNil() {
		w.number(0)
		return
	}
	w.number(uint64(v.Len()) + 1)
}

// list writes an access list. Its key has the lengths of scheme and id, so that these cannot be taken for each other.
func (w *writer) list(v reflect.Value) {
	var key []byte // of no list; an empty one differs
	if !v.IsNil() {
		key = binary.AppendUvarint(make([]byte, 0, 128), uint64(v.Len()))
	}
	for i := range v.Len() {
		entry := v.Index(i)
		for f := range entry.NumField() {
			if field := entry.Field(f); field.Kind() == reflect.String {
				key = append(binary.AppendUvarint(key, uint64(field.Len())), field.String()...)
			} else {
				key = binary.AppendVarint(key, field.Int())
			}
		}
	}
	if !again(w, w.lists, string(key)) {
		w.elements(v)
	}
}

func (w *writer) elements(v reflect.Value) {
	w.length(v)
	for i := range v.Len() {
		w.value(v.Index(i))
	}
}

func (w *writer) value(v reflect.Value) {
	switch v.Type() {
	case listType:
		w.list(v)
		return
	case treeType:
		w.tree(v)
		return
	case kindType:
		w.kind(v)
		return
	case outputType:
		if o := v.Interface().(plan.Output); o.Sensitive { // no plan uses its value
			o.Value = nil
			v = reflect.ValueOf(o)
		}
	}
	switch v.Kind() {
	case reflect.Bool:
		n := uint64(0)
		if v.Bool() {
			n = 1
		}
		w.number(n)
	case reflect.Int, reflect.Int32, reflect.Int64:
		w.signed(v.Int())
	case reflect.Uint64:
		w.number(v.Uint())
	case reflect.String:
		w.text(v.String())
	case reflect.Pointer:
		if v.IsNil() {
			w.number(0)
			return
		}
		w.number(1)
		w.value(v.Elem())
	case reflect.Struct:
		w.fields(v)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			w.length(v)
			_, _ = w.to.Write(v.Bytes())
			return
		}
		w.elements(v)
	case reflect.Map:
		w.length(v)
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range keys {
			w.value(key)
			w.value(v.MapIndex(key))
		}
	case reflect.Interface:
		w.dynamic(v)
	default:
		w.err = errors.Join(w.err, fmt.Errorf("saved: a %s cannot be written", v.Type()))
	}
}

// tree writes the number of a tree, which follows later: trees that refer to each other have no end.
func (w *writer) tree(v reflect.Value) {
	tree := (*plan.Tree)(v.UnsafePointer())
	if tree == nil {
		w.number(0)
		return
	}
	n, met := w.trees[tree]
	if !met {
		w.queue = append(w.queue, tree)
		n = uint64(len(w.queue))
		w.trees[tree] = n
	}
	w.number(n)
}

func (w *writer) kind(v reflect.Value) {
	name := ""
	if !v.IsNil() {
		name = v.Elem().FieldByName("Name").String()
	}
	w.text(name)
}

// fields writes which fields of a struct are not zero, and then these.
func (w *writer) fields(v reflect.Value) {
	set := uint64(0)
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			set |= 1 << i
		}
	}
	w.number(set)
	for i := range v.NumField() {
		if set&(1<<i) != 0 {
			w.value(v.Field(i))
		}
	}
}

// dynamic writes the value of an interface.
func (w *writer) dynamic(v reflect.Value) {
	if v.IsNil() {
		w.text("")
		return
	}
	switch v.Type() {
	case paramsType:
		w.text(v.Interface().(kind.Params).Kind().Name)
		w.value(v.Elem().Elem())
	case spanType:
		w.text("ms")
		w.signed(v.Interface().(plan.Span).Milliseconds())
	default: // a value of a parameter, in an answer
		w.text(v.Elem().Type().String())
		w.value(v.Elem())
	}
}

// reader reads what writer wrote. After an error, all that it reads is nothing.
type reader struct {
	data  []byte // what is left
	texts []string
	lists [][]kind.ACL
	trees []*plan.Tree
	err   error
}

func newReader(data []byte) *reader { return &reader{data: data} }

var errMiddle = errors.New("its contents are of another form")

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.data = nil
}

func (r *reader) everything(v reflect.Value) error {
	r.value(v)
	for i := 0; i < len(r.trees); i++ {
		r.value(reflect.ValueOf(r.trees[i]).Elem())
	}
	if len(r.data) > 0 {
		r.fail(errMiddle)
	}
	return r.err
}

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.data)
	if size <= 0 {
		r.fail(errMiddle)
		return 0
	}
	r.data = r.data[size:]
	return n
}

func (r *reader) signed() int64 {
	n, size := binary.Varint(r.data)
	if size <= 0 {
		r.fail(errMiddle)
		return 0
	}
	r.data = r.data[size:]
	return n
}

// size reads a number of things of which each takes at least a byte.
func (r *reader) size(n uint64) int {
	if n > uint64(len(r.data)) {
		r.fail(errMiddle)
		return 0
	}
	return int(n)
}

func (r *reader) bytes(n uint64) []byte {
	size := r.size(n)
	out := r.data[:size:size]
	r.data = r.data[size:]
	return out
}

func (r *reader) text() string {
	if n := r.number(); n > 0 {
		return known(r, r.texts, n)
	}
	s := string(r.bytes(r.number()))
	r.texts = append(r.texts, s)
	return s
}

// known returns what was read before.
func known[T any](r *reader, all []T, n uint64) (one T) {
	if n > uint64(len(all)) {
		r.fail(errMiddle)
		return one
	}
	return all[n-1]
}

func (r *reader) list() []kind.ACL {
	if n := r.number(); n > 0 {
		return known(r, r.lists, n)
	}
	var list []kind.ACL
	r.elements(reflect.ValueOf(&list).Elem())
	r.lists = append(r.lists, list)
	return list
}

func (r *reader) elements(v reflect.Value) {
	n := r.number()
	if n == 0 {
		return
	}
	size := r.size(n - 1)
	v.Set(reflect.MakeSlice(v.Type(), size, size))
	for i := range size {
		r.value(v.Index(i))
	}
}

func (r *reader) value(v reflect.Value) {
	switch v.Type() {
	case listType:
		v.Set(reflect.ValueOf(r.list()))
		return
	case treeType:
		v.Set(reflect.ValueOf(r.tree()))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(r.number() > 0)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(r.signed())
	case reflect.Uint64:
		v.SetUint(r.number())
	case reflect.String:
		v.SetString(r.text())
	case reflect.Pointer:
		if r.number() > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			r.value(v.Elem())
		}
	case reflect.Struct:
		set := r.number()
		for i := range v.NumField() {
			if set&(1<<i) != 0 {
				r.value(v.Field(i))
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			if n := r.number(); n > 0 {
				v.SetBytes(slices.Clone(r.bytes(n - 1)))
			}
			return
		}
		r.elements(v)
	case reflect.Map:
		r.entries(v)
	case reflect.Interface:
		r.dynamic(v)
	}
}

func (r *reader) entries(v reflect.Value) {
	n := r.number()
	if n == 0 {
		return
	}
	size := r.size(n - 1)
	v.Set(reflect.MakeMapWithSize(v.Type(), size))
	for range size {
		key, one := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		r.value(key)
		r.value(one)
		v.SetMapIndex(key, one)
	}
}

// tree returns the tree with this number, which is filled later.
func (r *reader) tree() *plan.Tree {
	n := r.number()
	if n == 0 {
		return nil
	}
	if n == uint64(len(r.trees))+1 { // they are met in the order of their numbers
		r.trees = append(r.trees, &plan.Tree{})
	}
	return known(r, r.trees, n)
}

func (r *reader) dynamic(v reflect.Value) {
	name := r.text()
	switch {
	case name == "":
	case v.Type() == spanType:
		v.Set(reflect.ValueOf(span(r.signed())))
	default:
		k := kind.Lookup(name)
		if k == nil {
			r.fail(fmt.Errorf("there is no type %q", name))
			return
		}
		p := k.New()
		// Fields that were written as zero are not in the file, so a default must not stand there.
		reflect.ValueOf(p).Elem().SetZero()
		r.value(reflect.ValueOf(p).Elem())
		v.Set(reflect.ValueOf(p))
	}
}
