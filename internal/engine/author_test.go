package engine

import (
	"testing"

	"taskdaemon/internal/policy"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// TestAuthorWritesItsDocumentAlone judges calls of authors before any rule is asked.
func TestAuthorWritesItsDocumentAlone(t *testing.T) {
	const doc = "/src/proj/.taskdaemon/prds/login/spec.md"
	writes := func(paths ...string) (call tool.Call) {
		call.Effect = td.Keyed
		for _, p := range paths {
			call.Paths = append(call.Paths, policy.PathUse{Path: p, Access: policy.Write})
		}
		return call
	}
	author, planner := &td.Author{Document: doc}, &td.Author{}
	for name, tc := range map[string]struct {
		author *td.Author
		call   tool.Call
		want   policy.Verdict // empty: the rules decide
	}{
		"its document":               {author, writes(doc), policy.Allow},
		"another file":               {author, writes("/src/proj/a.txt"), policy.Deny},
		"another document":           {author, writes("/src/proj/.taskdaemon/prds/login/plan.md"), policy.Deny},
		"its document and another":   {author, writes(doc, "/src/proj/a.txt"), policy.Deny},
		"a command":                  {author, tool.Call{Effect: td.Opaque, Command: "true"}, policy.Deny},
		"a command that only looks":  {author, tool.Call{Effect: td.Pure, Command: "ls"}, policy.Deny},
		"a page":                     {author, tool.Call{Effect: td.Pure, Hosts: []string{"example.com"}}, policy.Deny},
		"a foreign tool":             {author, tool.Call{Effect: td.Opaque}, policy.Deny},
		"a look":                     {author, tool.Call{Effect: td.Pure, Paths: []policy.PathUse{{Path: "/src/proj/a.txt", Access: policy.Read}}}, ""},
		"a word to the loop":         {author, tool.Call{Free: true}, ""},
		"a plan":                     {planner, tool.Call{Effect: td.Keyed, Free: true}, ""},
		"a plan with commands":       {planner, tool.Call{Effect: td.Keyed}, ""},
		"a file of who has none":     {planner, writes("/src/proj/a.txt"), policy.Deny},
		"a task that is no author's": {nil, writes("/src/proj/a.txt"), ""},
	} {
		d, decided := authored(td.Task{Spec: td.Spec{Author: tc.author}}, tc.call)
		if decided != (tc.want != "") || d.Verdict != tc.want {
			t.Errorf("%s: %v, %+v", name, decided, d)
		}
		if d.Verdict == policy.Deny && (!d.Floor || !d.Fixed || d.Rule != ruleForeign || d.Why == "") {
			t.Errorf("%s: it can be got around: %+v", name, d)
		}
	}
}
