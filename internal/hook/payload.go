package hook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"taskdaemon/internal/td"
)

// Payload is what a hook is told at one point. Each point has a type of its own, with a Head.
type Payload interface {
	// Point is where the payload belongs.
	Point() Point
}

// checked is a payload whose changed fields can be wrong in ways their types allow.
type checked interface{ check() error }

// Head is what every hook is told.
type Head struct {
	TaskID    td.TaskID `json:"task_id" doc:"the task"`
	Handle    string    `json:"task_handle" doc:"its short name"`
	Title     string    `json:"title" doc:"its title"`
	RunID     td.RunID  `json:"run_id,omitempty" doc:"the run, if there is one"`
	Parent    td.TaskID `json:"parent,omitempty" doc:"the task that started this one as its child"`
	Cwd       string    `json:"cwd" doc:"the workspace, and the folder a command runs in"`
	Iteration int       `json:"iteration" doc:"the iteration, from 1; 0 before the first"`
	Turn      int       `json:"turn" doc:"answers of the model so far"`
	At        time.Time `json:"at" doc:"when the point was reached"`
}

// HeadOf is the head for a task at a time.
func HeadOf(t td.Task, parent td.TaskID, at time.Time) Head {
	return Head{
		TaskID: t.ID, Handle: t.Handle, Title: t.Title, RunID: t.Run, Parent: parent,
		Cwd: t.Dir, Iteration: t.Iteration, Turn: t.Turns, At: at,
	}
}

// eventName is the field that tells a hook where it was called. It comes first, and from the type.
const eventName = "hook_event_name"

// Encode is the payload as a hook reads it: one JSON object, one line.
func Encode(p Payload) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{%q:%q,`, eventName, p.Point())
	prefix := b.Len()
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // a command with && in it stays readable
	if err := enc.Encode(p); err != nil {
		return nil, fmt.Errorf("encode payload of %s: %w", p.Point(), err)
	}
	raw := b.Bytes()
	// Every payload has a Head, so its object is not empty: its brace makes way for the name.
	return append(raw[:prefix], raw[prefix+1:]...), nil
}

// Decode reads what Encode wrote.
func Decode[P Payload](raw []byte) (P, error) {
	var p P
	if err := json.Unmarshal(raw, &p); err != nil {
		return p, fmt.Errorf("decode payload of %s: %w", p.Point(), err)
	}
	return p, nil
}

// Field is one field of a payload, for the reference page.
type Field struct {
	Name string
	Doc  string
	Kind string // text, number, true or false, list, object

	typ   reflect.Type
	index []int
}

// Fields are the fields of a point's payload beside those of the Head.
func (t Trait) Fields() []Field {
	var own []Field
	for _, f := range fieldsOf(reflect.TypeOf(t.sample)) {
		if _, common := headFields()[f.Name]; !common {
			own = append(own, f)
		}
	}
	return own
}

// HeadFields are the fields every payload has.
func HeadFields() []Field {
	own := fieldsOf(reflect.TypeFor[Head]())
	return append([]Field{{Name: eventName, Doc: "the point", Kind: "text"}}, own...)
}

var headFields = sync.OnceValue(func() map[string]Field { return byName(fieldsOf(reflect.TypeFor[Head]())) })

// payloadFields are the fields of each point's payload by name. It never changes.
var payloadFields = sync.OnceValue(func() map[Point]map[string]Field {
	all := make(map[Point]map[string]Field, len(Traits))
	for _, t := range Traits {
		all[t.Point] = byName(fieldsOf(reflect.TypeOf(t.sample)))
	}
	return all
})

func byName(fields []Field) map[string]Field {
	m := make(map[string]Field, len(fields))
	for _, f := range fields {
		m[f.Name] = f
	}
	return m
}

func fieldsOf(t reflect.Type) []Field {
	var out []Field
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous {
			continue // its own fields follow
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out = append(out, Field{Name: name, Doc: f.Tag.Get("doc"), Kind: kindOf(f.Type), typ: f.Type, index: f.Index})
	}
	return out
}

func kindOf(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return "text"
	case t == reflect.TypeFor[json.RawMessage]():
		return "object"
	case t == reflect.TypeFor[json.Number]():
		return "number"
	}
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "list"
	case reflect.Struct, reflect.Pointer:
		return "object"
	default:
		return "number"
	}
}
