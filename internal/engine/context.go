package engine

import (
	"context"
	_ "embed" // the base prompt
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

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
	words, ok, err := r.beforeContext(ctx)
	if err != nil || !ok {
		return err
	}
	t = r.log.Task()
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
	if err := r.addLearnings(ctx, t, &opening); err != nil {
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
	if env := r.Environment(ctx, t.Dir); env != "" {
		b.WriteString(strings.TrimRight(env, "\n") + "\n")
	}
	b.WriteString("</environment>\n\n")
	return b.String()
}

// maxInstructions bounds each AGENTS.md or CLAUDE.md: it is paid for in every call.
const maxInstructions = 64 << 10

type instruction struct{ name, text string }

// instructions are the AGENTS.md and CLAUDE.md files that hold for the workspace, nearest first, the
// user's own last.
func (r *run) instructions(dir string) []instruction {
	var found []instruction
	read := func(root *os.Root, dir string) {
		var beside string
		for _, name := range []string{"AGENTS.md", "CLAUDE.md"} {
			text, cut, err := readHead(root, filepath.Join(dir, name), maxInstructions)
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
			path := filepath.Join(root.Name(), dir, name)
			if cut {
				r.Log.Warn("instructions are cut", "file", path, "limit", maxInstructions)
				text += fmt.Sprintf("\n\n[%s is longer than %d bytes: the rest was left out. Read it if you need it.]", path, maxInstructions)
			}
			found = append(found, instruction{path, text})
		}
	}
	top := knowledge.Top(dir)
	if root, err := os.OpenRoot(top); err == nil {
		inside, err := filepath.Rel(top, dir)
		for d := inside; err == nil; d = filepath.Dir(d) {
			read(root, d)
			if d == "." {
				break
			}
		}
		_ = root.Close()
	}
	if root, err := os.OpenRoot(r.UserDir); r.UserDir != "" && err == nil {
		read(root, ".")
		_ = root.Close()
	}
	return found
}

var errNotRegular = errors.New("it is not a regular file")

// readHead reads the beginning of a file, and says whether there is more. It is found within root only, so that a symlink cannot lead to
// what the model must not see, and opened without waiting, so that a pipe cannot hold the run up.
func readHead(root *os.Root, path string, limit int64) (text string, cut bool, _ error) {
	f, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", false, err
	}
	defer func() { _ = f.Close() }()
	if st, err := f.Stat(); err != nil {
		return "", false, err
	} else if !st.Mode().IsRegular() {
		return "", false, errNotRegular
	}
	raw, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return "", false, err
	}
	if cut = int64(len(raw)) > limit; cut {
		raw = raw[:limit]
	}
	return strings.ToValidUTF8(string(raw), "\uFFFD"), cut, nil
}
