package engine

import (
	"context"
	_ "embed" // the base prompt
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/hook"
	"taskdaemon/internal/knowledge"
	"taskdaemon/internal/td"
	"taskdaemon/internal/window"
)

var (
	fpBeforeContext = failpoint.New("engine.context.before_set")
	fpContextSet    = failpoint.New("engine.context.set")
)

//go:embed prompt.md
var basePrompt string

// assemble sets what stands before the conversation (L-2). It is recorded word for word, so that the
// prefix of every later call is the same bytes, also after a restart; what changes from task to task
// or from day to day stands in the opening message, behind everything that can be cached.
func (r *run) assemble(ctx context.Context) error {
	t := r.log.Task()
	plan := r.plannedOf(ctx, t)
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if ok, err := r.mayIterate(ctx, plan); err != nil || !ok {
		return err
	}
	t, words, ok, err := r.beforeContext(ctx)
	if err != nil || !ok {
		return err
	}
	if err := r.equipAnew(ctx); err != nil {
		return err
	}
	tools, err := json.Marshal(r.toolbox().Describe())
	if err != nil {
		return fmt.Errorf("describe tools: %w", err)
	}
	var system, opening prose
	system.add("base prompt", "", basePrompt)
	for _, f := range r.instructions(t.Dir) {
		system.add("instructions", f.name, fmt.Sprintf("\n\n# Instructions from %s\n\n%s", f.name, f.text))
	}
	r.addSkills(t, &system, &opening)
	tier, why := r.tierFor(t, plan)
	if tier != "" {
		t.Chosen, t.Raised = tier, ""
	}
	opening.add("environment", "", r.describeEnvironment(ctx, t))
	untrusted := r.addPlanned(plan, &opening)
	knew := r.log.Now()
	weighed, err := r.addLearnings(ctx, t, plan.Feature, &opening)
	if err != nil {
		return err
	}
	untrusted = r.addNotes(ctx, t, &opening) || untrusted
	hookParts(&opening, hook.TaskStarted, r.startWords)
	hookParts(&opening, hook.PreContextAssembly, words)
	r.addHistory(t, &opening)
	if planned(t) {
		opening.add("rules", "", fmt.Sprintf(rulesOfPlanned, t.Handle))
	}
	opening.add("task", "", t.Prompt)
	parts := append(system.parts, opening.parts...)
	for _, why := range r.more.LeftOut {
		parts = append(parts, td.ContextPart{Name: "left out", Source: why})
	}
	set, ok, err := r.afterContext(ctx, len(system.parts), td.ContextSet{
		Iteration: t.Iteration + 1,
		Provider:  r.provider(t),
		System:    system.String(),
		Tools:     tools,
		Opening:   td.Message{Role: td.User, Blocks: []td.Block{{Type: td.TextBlock, Text: opening.String()}}},
		Parts:     parts,
		More:      r.more.Record,
		Tier:      tier,
		Why:       why,
		Untrusted: untrusted,
		Feature:   plan.Feature,
		Weighed:   weighed,
		Knew:      knew,
		MaxTurns:  t.MaxTurns,
	})
	if err != nil || !ok {
		return err
	}
	forked, err := r.forkOf(ctx, t)
	if td.IsKind(err, td.NotFound) {
		return r.fail(ctx, td.FailedData{Error: err.Error(), Hint: "taskdaemon loop fork the task again"})
	}
	if err != nil {
		return err
	}
	fpBeforeContext.Hit()
	err = r.log.Append(ctx, append([]td.Body{set}, forked...)...)
	fpContextSet.Hit()
	return err
}

// prose is a text with a list of what it is made of.
type prose struct {
	strings.Builder
	parts []td.ContextPart
}

func (p *prose) add(name, source, text string) {
	if text == "" {
		return
	}
	p.WriteString(text)
	p.parts = append(p.parts, td.ContextPart{Name: name, Source: source, Tokens: window.Tokens(text)})
}

func (r *run) describeEnvironment(ctx context.Context, t td.Task) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<environment>\nworkspace: %s\ndate: %s\nmodel: %s\ntask: %s (%s)\n", t.Dir,
		r.log.Now().Format("2006-01-02"), r.model(t), t.Handle, t.Title)
	if t.Parent != "" {
		fmt.Fprintf(&b, "subtask of: %s\n", td.Handle(td.TaskHandle, string(t.Parent), td.HandleLength))
	}
	if len(t.Labels) > 0 {
		fmt.Fprintf(&b, "labels: %s\n", strings.Join(t.Labels, ", "))
	}
	if t.Validator != "" {
		fmt.Fprintf(&b, "validator: %s (must exit 0 before the task counts as completed)\n", t.Validator)
	}
	if env := r.Environment(ctx, t.Dir, t.Apart()); env != "" {
		b.WriteString(strings.TrimRight(env, "\n") + "\n")
	}
	b.WriteString("</environment>\n\n")
	return b.String()
}

// maxInstructions bounds each AGENTS.md or CLAUDE.md: it is paid for in every call.
const maxInstructions = 64 << 10

var instructionFiles = []string{"AGENTS.md", "CLAUDE.md"}

type instruction struct{ name, text string }

// instructions are the AGENTS.md and CLAUDE.md files that hold for the workspace, nearest first, the user's own last. They
// must be files, and no part of their path a symbolic link: the model is shown them without anybody judging where it leads.
func (r *run) instructions(dir string) []instruction {
	var found []instruction
	read := func(root *beneath.Folder, dir string) {
		var beside string
		for _, name := range instructionFiles {
			path := filepath.Join(root.Name(), dir, name)
			raw, _, cut, err := root.Head(filepath.Join(dir, name), maxInstructions)
			text := r.Redact.Piece(strings.ToValidUTF8(string(raw), "\uFFFD"), false, cut)
			if errors.Is(err, beneath.ErrLink) {
				if to, _ := os.Readlink(path); slices.Contains(instructionFiles, filepath.Clean(to)) {
					continue // another name of the file beside it, which is read
				}
				text, err = fmt.Sprintf("[%s is a symbolic link and was not read for you. Read it if you need it.]", path), nil
			}
			switch {
			case errors.Is(err, fs.ErrNotExist):
				continue
			case err != nil:
				r.Log.Warn("read instructions", "folder", root.Name(), "file", filepath.Join(dir, name), "err", err)
				continue
			case text == beside:
				continue // the same thing under two names
			}
			beside = text
			if cut {
				r.Log.Warn("instructions are cut", "file", path, "limit", maxInstructions)
				text += fmt.Sprintf("\n\n[%s is longer than %d bytes: the rest was left out. Read it if you need it.]", path, maxInstructions)
			}
			found = append(found, instruction{path, text})
		}
	}
	top := knowledge.Top(dir)
	if root, err := beneath.Open(top); err == nil {
		inside, err := filepath.Rel(top, dir)
		for d := inside; err == nil; d = filepath.Dir(d) {
			read(root, d)
			if d == "." {
				break
			}
		}
		_ = root.Close()
	}
	if r.UserDir == "" {
		return found
	}
	if root, err := beneath.OpenResolved(r.UserDir); err == nil {
		read(root, ".")
		_ = root.Close()
	}
	return found
}
