package engine

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"taskdaemon/internal/skill"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// batches remembers which records went to disk together.
type batches struct {
	store.Journal
	types [][]td.EventType
}

func (b *batches) Append(ctx context.Context, c td.Claim, head uint64, evs ...td.Event) (td.Task, error) {
	var types []td.EventType
	for _, ev := range evs {
		types = append(types, ev.Body.Type())
	}
	b.types = append(b.types, types)
	return b.Journal.Append(ctx, c, head, evs...)
}

// send is a tool that does something nobody can find out again, or something a shim keeps.
func send(kept bool) tool.Tool {
	return tool.Tool{Name: "Send", Prepare: func(context.Context, *tool.Env, json.RawMessage) (tool.Call, error) {
		return tool.Call{Effect: td.Opaque, Kept: kept, Run: func(context.Context) (td.ToolResult, error) {
			return td.ToolResult{Content: "sent"}, nil
		}}, nil
	}}
}

func TestOutcomeThatNothingKeepsIsRecordedAtOnce(t *testing.T) {
	for name, kept := range map[string]bool{"kept by a shim": true, "kept nowhere": false} {
		t.Run(name, func(t *testing.T) {
			var rec *batches
			play(t, []any{calls("Send", "{}")}, func(s *td.Spec, o *Options) {
				s.Yes = true
				rec = &batches{Journal: o.Journal}
				o.Journal = rec
				o.More = func(context.Context, td.Task, *td.ContextSet) More { return More{Tools: []tool.Tool{send(kept)}} }
			}, func(b *bench, id td.TaskID) {
				b.until(id, td.Completed)
				alone := slices.ContainsFunc(rec.types, func(types []td.EventType) bool {
					return len(types) == 1 && types[0] == td.StepEnded{}.Type()
				})
				if alone == kept {
					t.Errorf("the outcome went to disk by itself: %v; the appends were %v", alone, rec.types)
				}
			})
		})
	}
}

// TestMoreIsMadeFromItsRecord lets a person interrupt the task, so that a second run takes it up.
func TestMoreIsMadeFromItsRecord(t *testing.T) {
	var records []string
	play(t, []any{says("what now?", td.EndTurn), calls("Send", "{}")}, func(s *td.Spec, o *Options) {
		s.Mode, s.Yes = td.Interactive, true
		o.More = func(_ context.Context, _ td.Task, set *td.ContextSet) More {
			record := ""
			if set != nil {
				record = string(set.More)
			}
			records = append(records, record)
			return More{Tools: []tool.Tool{send(false)}, Record: json.RawMessage(`{"it":"was there"}`)}
		}
	}, func(b *bench, id td.TaskID) {
		b.until(id, td.Waiting)
		b.post(id, td.Command{Key: "go", Type: td.CmdMessage, Text: "send it"})
		b.until(id, td.Completed)
		if len(records) != 2 || records[0] != "" || records[1] != `{"it":"was there"}` {
			t.Errorf("it was asked with %q", records)
		}
	})
}

func TestSkillsInTheContext(t *testing.T) {
	dir := t.TempDir()
	write := func(name, description, body string) {
		path := filepath.Join(dir, "skills", name)
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		text := "---\nname: " + name + "\ndescription: " + description + "\n---\n" + body
		if err := os.WriteFile(filepath.Join(path, "SKILL.md"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("brewing", "How tea is brewed", "Warm the pot first.")
	write("weaving", "How carpets are woven", "Count the knots.")
	write("tea-novel", "A novel about tea that is brewed", strings.Repeat("long ", maxSkillText/5))
	skills, problems := skill.Load(skill.Sources(dir, t.TempDir())...)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for name, tc := range map[string]struct {
		tools         []string
		index, opened bool
	}{
		"all tools": {nil, true, true},
		"no Skill":  {[]string{"Complete"}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, nil, func(s *td.Spec, o *Options) {
				s.Prompt, s.Tools = "see how tea is brewed", tc.tools
				o.More = func(context.Context, td.Task, *td.ContextSet) More {
					return More{Skills: skills, Tools: []tool.Tool{{Name: "Skill"}}}
				}
			}, func(b *bench, id td.TaskID) {
				b.until(id, td.Completed)
				req := b.model.requests[0]
				if got := strings.Contains(req.System, "- weaving: How carpets are woven"); got != tc.index {
					t.Errorf("listed: %v\n%s", got, req.System)
				}
				opening := req.Messages[0].Text()
				if got := strings.Contains(opening, "Warm the pot"); got != tc.opened || strings.Contains(opening, "knots") || strings.Contains(opening, "long long") {
					t.Errorf("the opening is %s", opening)
				}
			})
		})
	}
}
