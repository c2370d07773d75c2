package saved

import (
	"bufio"
	"bytes"
	"reflect"
)

// SumOf returns the sum of an answer.
var SumOf = sumOf

// Carried writes a question without its answer, and returns what it reads back.
func Carried(q *Question) (*Question, error) {
	var b bytes.Buffer
	out := bufio.NewWriter(&b)
	if err := writer(out).document(reflect.ValueOf(q).Elem()); err != nil {
		return nil, err
	}
	if err := out.Flush(); err != nil {
		return nil, err
	}
	back := &Question{}
	return back, reader(b.Bytes()).document(reflect.ValueOf(back).Elem())
}
