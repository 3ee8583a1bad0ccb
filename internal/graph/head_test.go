package graph

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"taskdaemon/internal/td"
)

func TestReadHead(t *testing.T) {
	for name, c := range map[string]struct {
		spec  string
		want  Head
		wrong string
	}{
		"none":                  {spec: "# Login\n\ncriteria: none\n"},
		"a rule further down":   {spec: "# Login\n---\ncriteria: [a]\n---\n"},
		"all of it":             {"---\ntitle: Login\ncriteria:\n  - the name, once given, is there\n  - |\n    it is\n    quick\nphases: [store, form]\nauto_install: true\n---\n# Login\n", Head{[]string{"the name, once given, is there", "it is quick"}, []td.PRDPart{{Number: 1, Name: "store"}, {Number: 2, Name: "form"}}, true}, ""},
		"one point with commas": {"---\ncriteria: fast, and small\n---\nx\n", Head{Criteria: []string{"fast, and small"}}, ""},
		"with dashes":           {"---\r\nauto-install: true\r\n---\r\nx", Head{AutoInstall: true}, ""},
		"not allowed":           {"---\nauto_install: false\ncriteria:\nphases: [\"\"]\n---\nx", Head{}, ""},
		"never closed":          {"---\ncriteria: [a]\n", Head{}, "line"},
		"no truth value":        {"---\nauto_install: perhaps\n---\nx", Head{}, "true or false"},
		"phases with all": {"---\nphases:\n  - name: store it\n    requirements: [a file, a lock]\n    success-criteria: it is there\n    other: 1\n  - show it\n---\nx", Head{Phases: []td.PRDPart{
			{Number: 1, Name: "store it", Requirements: []string{"a file", "a lock"}, Criteria: []string{"it is there"}}, {Number: 2, Name: "show it"},
		}}, ""},
		"one phase":            {"---\nphases: all at once\n---\nx", Head{Phases: []td.PRDPart{{Number: 1, Name: "all at once"}}}, ""},
		"a phase without name": {"---\nphases:\n  - requirements: [x]\n---\nx", Head{}, "a phase has no name"},
		"a phase in a phase":   {"---\nphases:\n  - name: {a: b}\n---\nx", Head{}, "line 3"},
		"a mapping":            {"---\ncriteria: {a: b}\n---\nx", Head{}, "line 2"},
		"too many":             {"---\ncriteria: [" + strings.Repeat("a, ", maxPoints) + "a]\n---\nx", Head{}, "are allowed"},
		"too long":             {"---\ncriteria: " + strings.Repeat("ä", maxPoint+1) + "\n---\nx", Head{}, "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ReadHead(c.spec)
			if (err != nil) != (c.wrong != "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
				t.Fatalf("%v", err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// FuzzReadHead reads what models and strangers write before a spec.
func FuzzReadHead(f *testing.F) {
	f.Add("---\ncriteria: [a, b]\nphases: [c]\nauto_install: true\n---\n# x\n")
	f.Add("---\nphases:\n  - name: a\n    requirements: [b]\n    success_criteria: c\n---\n")
	f.Add("---\ncriteria:\n  - |\n    a\n  - {b: c}\n---")
	f.Add("\ufeff--- \r\ncriteria: ~\r\n---\r\n")
	f.Fuzz(func(t *testing.T, spec string) {
		h, err := ReadHead(spec)
		if err != nil {
			if len(h.Criteria)+len(h.Phases) > 0 || h.AutoInstall {
				t.Errorf("%+v beside %v", h, err)
			}
			return
		}
		all := h.Criteria
		for i, p := range h.Phases {
			if all = append(append(append(all, p.Name), p.Requirements...), p.Criteria...); p.Number != i+1 {
				t.Errorf("phase %d has the number %d", i+1, p.Number)
			}
		}
		for _, p := range all {
			if p == "" || strings.ContainsAny(p, "\n\r") || utf8.RuneCountInString(p) > maxPoint {
				t.Errorf("the point %q", p)
			}
		}
	})
}
