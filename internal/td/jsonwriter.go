package td

import (
	"encoding/json"
	"strconv"
	"time"
)

// jsonWriter writes JSON as package json does, and keeps the first error.
type jsonWriter struct {
	b   []byte
	err error
}

// key begins a member of an object. Names are of this package and need no quoting.
func (w *jsonWriter) key(name string) {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b = append(w.b, '"')
	w.b = append(w.b, name...)
	w.b = append(w.b, '"', ':')
}

func (w *jsonWriter) int(name string, v int64) {
	w.key(name)
	w.b = strconv.AppendInt(w.b, v, 10)
}

func (w *jsonWriter) intIf(name string, v int64) {
	if v != 0 {
		w.int(name, v)
	}
}

func (w *jsonWriter) trueIf(name string, v bool) {
	if v {
		w.key(name)
		w.b = append(w.b, "true"...)
	}
}

func (w *jsonWriter) text(name, s string) {
	w.key(name)
	for i := range len(s) {
		if !asItIs[s[i]] {
			w.any(s)
			return
		}
	}
	w.b = append(w.b, '"')
	w.b = append(w.b, s...)
	w.b = append(w.b, '"')
}

func (w *jsonWriter) textIf(name, s string) {
	if s != "" {
		w.text(name, s)
	}
}

func (w *jsonWriter) time(name string, t time.Time) {
	w.key(name)
	w.b = append(w.b, '"')
	b, err := t.AppendText(w.b)
	if err != nil {
		w.keep(err)
		return
	}
	w.b = append(b, '"')
}

// any writes what the caller does not know by heart.
func (w *jsonWriter) any(v any) {
	raw, err := json.Marshal(v)
	w.keep(err)
	w.b = append(w.b, raw...)
}

func (w *jsonWriter) keep(err error) {
	if w.err == nil {
		w.err = err
	}
}

func anyIf[T any](w *jsonWriter, name string, v *T) {
	if v != nil {
		w.key(name)
		w.any(v)
	}
}

// listIf writes a list that is not empty, each item by item, or all by package json when that is nil.
func listIf[T any](w *jsonWriter, name string, list []T, item func(*jsonWriter, *T)) {
	if len(list) == 0 {
		return
	}
	w.key(name)
	if item == nil {
		w.any(list)
		return
	}
	w.b = append(w.b, '[')
	for i := range list {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		item(w, &list[i])
	}
	w.b = append(w.b, ']')
}

// asItIs are the bytes that package json writes as they are, and that are text by themselves.
var asItIs = func() (is [256]bool) {
	for c := byte(' '); c < 0x7f; c++ {
		is[c] = c != '"' && c != '\\' && c != '<' && c != '>' && c != '&'
	}
	return is
}()
