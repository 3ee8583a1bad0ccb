package clean

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/redact"
	"taskdaemon/internal/store/mem"
	"taskdaemon/internal/td"
)

// fill puts a text into every string there is below v: in fields, lists, maps and raw JSON.
func fill(v reflect.Value, text string, depth int) {
	if depth > 8 {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text, depth+1)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), text, depth+1)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			raw, _ := json.Marshal(map[string]string{text: text})
			v.SetBytes(raw)
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), text, depth+1)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, text, depth+1)
		fill(value, text, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	}
}

func forms(v string) []string {
	return []string{
		v, base64.StdEncoding.EncodeToString([]byte(v)), base64.RawURLEncoding.EncodeToString([]byte("xy" + v)), hex.EncodeToString([]byte(v)),
		strings.ToUpper(hex.EncodeToString([]byte(v))), url.QueryEscape(v),
	}
}

const odd = `canary/of "the" daemon`

// Every string of every type of record is covered, also of those that are added later.
func TestEveryFieldOfEveryRecord(t *testing.T) {
	r := redact.New(odd)
	j := New(nil, r)
	n := 0
	for _, form := range forms(odd) {
		for body := range td.Bodies() {
			v := reflect.New(reflect.TypeOf(body)).Elem()
			fill(v, form, 0)
			sealed, err := j.Clean(v.Interface().(td.Body))
			if err != nil {
				t.Errorf("%s: %v", body.Type(), err)
				continue
			}
			n++
			if r.Holds(sealed.Raw()) || strings.Contains(string(sealed.Raw()), "canary") {
				t.Errorf("%s keeps it: %s", body.Type(), sealed.Raw())
			}
		}
	}
	if n < 50 {
		t.Errorf("only %d records were tried", n)
	}
}

// Of a command every string is covered, and of a task each field either loses the secret or is refused.
func TestEveryFieldOfACommandAndATask(t *testing.T) {
	r := redact.New(odd)
	for _, form := range forms(odd) {
		m := mem.New(nil)
		j := New(m, r)
		task, err := j.Create(t.Context(), td.Spec{ID: td.NewTaskID(), Handle: "t-1", Title: form, Prompt: "use " + form, CreatedBy: form, Dir: "/"}, "k")
		if err != nil {
			t.Fatal(err)
		}
		var cmd td.Command
		fill(reflect.ValueOf(&cmd).Elem(), form, 0)
		cmd.Key, cmd.Type = "c", td.CmdMessage
		if err := j.Post(t.Context(), task.ID, cmd); err != nil {
			t.Fatal(err)
		}
		kept, _, err := m.Posted(t.Context(), task.ID, "c")
		if err != nil {
			t.Fatal(err)
		}
		if all, err := json.Marshal([]any{task, kept}); err != nil || r.Holds(all) {
			t.Errorf("kept %s, %v", all, err)
		}
		spec := reflect.TypeFor[td.Spec]()
		for i := range spec.NumField() {
			s := td.Spec{ID: td.NewTaskID(), Handle: "t-" + spec.Field(i).Name, Dir: "/"}
			fill(reflect.ValueOf(&s).Elem().Field(i), form, 0)
			task, err := j.Create(t.Context(), s, "")
			if err != nil && !td.IsKind(err, td.Invalid) {
				t.Errorf("%s: %v", spec.Field(i).Name, err)
			}
			if raw, _ := json.Marshal(task); r.Holds(raw) {
				t.Errorf("%s is kept: %s", spec.Field(i).Name, raw)
			}
		}
	}
}

// What is carried out is what was asked for, or nothing.
func TestExactFieldsAreRefused(t *testing.T) {
	key := "ghp" + "_abcdefghijklmnopqrst0123456789"
	for name, s := range map[string]struct {
		spec    td.Spec
		refused bool
	}{
		"validator":          {td.Spec{Validator: "curl -H 'x: " + odd + "'"}, true},
		"validator with key": {td.Spec{Validator: "curl -H 'x: " + key + "'"}, true},
		"test password":      {td.Spec{Validator: "PGPASSWORD=test1234 make test"}, false},
		"label":              {td.Spec{Labels: []string{"a", odd}}, true},
		"script":             {td.Spec{Rehearsal: "turns: [{text: '" + odd + "'}]"}, true},
		"script about a key": {td.Spec{Rehearsal: "turns: [{text: '" + key + "'}]"}, false},
	} {
		s.spec.ID, s.spec.Dir, s.spec.Handle = td.NewTaskID(), "/", "t-1"
		task, err := New(mem.New(nil), redact.New(odd)).Create(t.Context(), s.spec, "")
		if (err != nil) != s.refused || err != nil && (!td.IsKind(err, td.Invalid) || td.HintOf(err) == "") {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && (task.Validator != s.spec.Validator || task.Rehearsal != s.spec.Rehearsal) {
			t.Errorf("%s was changed: %+v", name, task.Spec)
		}
	}
}
