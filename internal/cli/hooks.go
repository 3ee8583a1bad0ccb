package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"taskdaemon/internal/config"
	"taskdaemon/internal/daemon"
	"taskdaemon/internal/hook"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
)

func newHooksCmd(a *app) *cobra.Command {
	return group("hooks", "Show and try the hooks of the config", "taskdaemon hooks list", newHooksListCmd(a), newHooksTestCmd(a))
}

type hooksOptions struct {
	app   *app
	point hook.Point
}

func newHooksListCmd(a *app) *cobra.Command {
	o := hooksOptions{app: a}
	return &cobra.Command{
		Use: "list", Short: "Show the points of a loop and the hooks at them", Args: args(cobra.NoArgs, "no arguments"),
		Long: `Show every point at which hooks may be asked, whether it fires yet, and the hooks that are configured
there, in the order in which they are asked. It is what a daemon started now would use.`,
		Example: "  taskdaemon hooks list", Annotations: exits(exitOK, exitUsage),
		RunE: func(*cobra.Command, []string) error { return runHooksList(o) },
	}
}

func (a *app) hooks() (*hook.Set, error) {
	c, _, err := a.loadConfig(nil)
	if err != nil {
		return nil, err
	}
	return a.hooksOf(c)
}

func (a *app) hooksOf(c config.Config) (*hook.Set, error) {
	dir, err := a.stateDir()
	if err != nil {
		return nil, err
	}
	return daemon.Hooks(c, daemon.HookFuncs(dir))
}

// hookView is a hook for people and programs.
type hookView struct {
	Name    string `json:"name"`
	Matcher string `json:"matcher,omitempty"`
	Command string `json:"command,omitempty"`
	URL     string `json:"url,omitempty"`
	Func    string `json:"func,omitempty"`
	Timeout string `json:"timeout"`
	OnError string `json:"on_error"`
	Where   string `json:"where,omitempty"`
}

type pointView struct {
	Point string     `json:"point"`
	Group string     `json:"group"`
	Doc   string     `json:"doc"`
	Hooks []hookView `json:"hooks"`
}

func viewPoints(set *hook.Set) []pointView {
	points := make([]pointView, len(hook.Traits))
	for i, t := range hook.Traits {
		points[i] = pointView{Point: string(t.Point), Group: string(t.Group), Doc: t.Doc, Hooks: []hookView{}}
		for _, s := range set.All() {
			if s.Point == t.Point {
				points[i].Hooks = append(points[i].Hooks, hookView{
					Name: s.Name, Matcher: s.Matcher, Command: s.Command, URL: s.URL, Func: s.Func,
					Timeout: s.Timeout.String(), OnError: string(s.OnError), Where: s.Where,
				})
			}
		}
	}
	return points
}

func runHooksList(o hooksOptions) error {
	a := o.app
	set, err := a.hooks()
	if err != nil {
		return err
	}
	points := viewPoints(set)
	if a.json {
		return a.printJSON(points)
	}
	var rows [][]string
	for _, p := range points {
		rows = append(rows, []string{p.Point, p.Doc})
		for _, h := range p.Hooks {
			what := h.Command + h.URL
			if h.Func != "" {
				what = "func " + h.Func
			}
			if h.Matcher != "" {
				what = h.Matcher + ": " + what
			}
			rows = append(rows, []string{"  " + a.style.green(plainLine(h.Name, 40)),
				plainLine(fmt.Sprintf("%s (%s, on_error %s) %s", what, h.Timeout, h.OnError, h.Where), 200)})
		}
	}
	return table(a.stdout, rows)
}

func newHooksTestCmd(a *app) *cobra.Command {
	o := hooksOptions{app: a}
	return &cobra.Command{
		Use: "test <point>", Short: "Ask the hooks of a point with an example", Args: args(cobra.ExactArgs(1), "one point"),
		Long: `Ask the hooks of a point here and now, in this folder, with an example of what they are told, and show what
each decides. Nothing is recorded and no task is touched; what the hooks themselves do is done.`,
		Example: "  taskdaemon hooks test PreToolUse", Annotations: exits(exitOK, exitFailed, exitUsage, exitNotFound, exitInterrupted),
		RunE: func(cmd *cobra.Command, given []string) error {
			o.point = hook.Point(given[0])
			return runHooksTest(cmd.Context(), o)
		},
	}
}

// tried is what came of asking one hook.
type tried struct {
	Hook   string       `json:"hook"`
	Took   string       `json:"took"`
	Result *hook.Result `json:"result,omitempty"` // nil: it was not asked
	Why    string       `json:"why,omitempty"`    // it was not
}

func runHooksTest(ctx context.Context, o hooksOptions) error {
	a := o.app
	sample := hook.Sample(o.point)
	if sample == nil {
		return td.Errorf(td.NotFound, "there is no point %q", plainLine(string(o.point), 40)).WithHint("taskdaemon hooks list")
	}
	set, err := a.hooks()
	if err != nil {
		return err
	}
	payload, err := hook.Encode(sample)
	if err != nil {
		return err
	}
	asked := map[string]*tried{}
	_, sum, err := hook.Fire(ctx, set, sample, func(ctx context.Context, s hook.Spec, p hook.Payload) (hook.Result, error) {
		began := time.Now()
		res, err := tryHook(ctx, set, s, p)
		asked[s.Name] = &tried{Hook: s.Name, Took: took(time.Since(began)), Result: &res}
		return res, err
	})
	if err != nil {
		return err
	}
	hooks := []tried{}
	for _, s := range set.All() {
		switch t := asked[s.Name]; {
		case s.Point != o.point:
		case t != nil:
			hooks = append(hooks, *t)
		default:
			hooks = append(hooks, tried{Hook: s.Name, Why: "not asked: the example does not meet its matcher, or a hook before it blocked"})
		}
	}
	if a.json {
		err = a.printJSON(map[string]any{"point": o.point, "payload": json.RawMessage(payload), "hooks": hooks, "result": sum})
	} else {
		err = a.showTried(o.point, payload, hooks, sum)
	}
	if err == nil && sum.Failure != "" {
		return outcome(exitFailed)
	}
	return err
}

func (a *app) showTried(point hook.Point, payload []byte, hooks []tried, sum hook.Result) error {
	if _, err := fmt.Fprintf(a.stdout, "%s\n", strings.TrimSpace(plainText(string(payload)))); err != nil {
		return written(err)
	}
	if len(hooks) == 0 {
		a.say("no hook is configured at %s", point)
		return nil
	}
	var rows [][]string
	for _, h := range hooks {
		words := h.Why
		if h.Result != nil {
			words = decisionWords(*h.Result)
		}
		rows = append(rows, []string{plainLine(h.Hook, 40), h.Took, plainLine(words, 400)})
	}
	return table(a.stdout, append(rows, []string{"in all", "", plainLine(decisionWords(sum), 400)}))
}

// goesOn is said of a hook that has nothing to say.
const goesOn = "goes on"

// decisionWords are a decision for people.
func decisionWords(r hook.Result) string {
	var words []string
	add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	switch {
	case r.Stop:
		add("blocks, and pauses the task: %s", r.Reason)
	case r.Blocked:
		add("blocks: %s", r.Reason)
	case r.Permission != hook.NoOpinion:
		add("%s: %s", r.Permission, r.Reason)
	}
	if len(r.Changes) > 0 {
		raw, err := json.Marshal(r.Changes)
		if err != nil {
			raw = []byte(err.Error())
		}
		add("changes %s", raw)
	}
	for _, w := range r.Inject {
		add("adds %q", w)
	}
	if r.Failure != "" && !r.Blocked {
		add("%s", r.Failure)
	}
	if len(words) == 0 {
		return goesOn
	}
	return strings.Join(words, "; ")
}

// tryHook asks a hook without a record.
func tryHook(ctx context.Context, set *hook.Set, s hook.Spec, p hook.Payload) (hook.Result, error) {
	key := "test/" + string(td.NewRequestID())
	switch {
	case s.URL != "":
		return hook.HTTP(ctx, s, p, key, nil)
	case s.Func != "":
		return set.Call(ctx, s, p, hook.Firing{Key: key})
	}
	dir, err := os.MkdirTemp("", "taskdaemon-hook")
	if err != nil {
		return hook.Result{}, td.Errorf(td.Storage, "make a folder for the hook: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	stdin, err := hook.Encode(p)
	if err != nil {
		return hook.Result{}, err
	}
	if err := hook.Prepare(dir, stdin); err != nil {
		return hook.Result{}, err
	}
	within, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	var stderr strings.Builder
	cmd := exec.CommandContext(within, "/bin/sh", "-c", hook.Wrap(dir, s.Command))
	cmd.Env, cmd.Stderr, cmd.WaitDelay = sandbox.Environ(os.Environ()), &stderr, time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Run(); cmd.ProcessState == nil {
		return hook.Failed(s, err), nil
	}
	if err := context.Cause(ctx); err != nil {
		return hook.Result{}, err
	}
	stdout, err := hook.Collect(dir)
	if err != nil {
		return hook.Failed(s, err), nil
	}
	return hook.Interpret(s, p, hook.Output{
		Exit: cmd.ProcessState.ExitCode(), Stdout: stdout, Stderr: []byte(stderr.String()), TimedOut: within.Err() != nil,
	}), nil
}
