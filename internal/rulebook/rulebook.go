// Package rulebook puts together the permission rules that are in force: those of the config, those that
// people's answers made, which it keeps in a file of theirs, and those of the project, which can only tighten.
//
// Files are read anew when they change. Rules that cannot be read are an error, never fewer rules. The file
// of answers is replaced as a whole under a lock, by the daemon and by commands alike.
package rulebook

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/config"
	"taskdaemon/internal/graph"
	"taskdaemon/internal/policy"
	"taskdaemon/internal/td"
)

// Book is the rules in force. Its methods may be called from any goroutine.
type Book struct {
	file   string        // of answers
	fixed  []policy.Rule // of the config
	wheres []string      // file and line of each
	place  policy.Place  // without the workspace
	temps  func(workspace string) []string
	steers func(dir, tree string) ([]string, error)
	ready  sync.Map // workspace → *compiled
}

// Options say where rules and what must be guarded are.
type Options struct {
	UserDir  string // of the person's config, where the answers' file is kept
	StateDir string
	Home     string
	Config   config.Config
	// Checkouts is the folder in StateDir whose folders may be workspaces; empty: there is none.
	Checkouts string
	// Steering are the files and folders in a folder, in the task's own worktree at tree or in none, that the person's git runs or obeys; nil: none.
	Steering func(dir, tree string) ([]string, error)
	// Temps are the folders that a command in a workspace has for itself; nil: none.
	Temps func(workspace string) []string
}

// compiled are the rules of a workspace as of a state of its files.
type compiled struct {
	stamp  string
	rules  []policy.Rule
	policy *policy.Policy
	err    error
}

// New makes a book. Servers of tools that the config trusts need no permission.
func New(o Options) *Book {
	if o.UserDir == "" {
		o.UserDir = o.StateDir
	}
	if !filepath.IsAbs(o.Home) {
		o.Home = "/nonexistent" // who has no home keeps nothing there
	}
	b := &Book{
		file:  filepath.Join(o.UserDir, "permissions.yaml"),
		place: policy.Place{Home: o.Home, State: o.StateDir, Checkouts: o.Checkouts, Own: []string{o.UserDir}, Resolve: ResolveLinks, Glob: Glob, Git: LookAtGit},
		temps: o.Temps, steers: o.Steering,
	}
	if o.Config.Git.Protected != "" {
		b.place.Branches = o.Config.Git.Branches()
	}
	for _, r := range o.Config.Rules {
		b.fixed = append(b.fixed, ruleOf(r, "config, "+r.Where))
		b.wheres = append(b.wheres, r.Where)
	}
	for _, s := range o.Config.MCP {
		if s.Trusted {
			b.fixed = append(b.fixed, policy.Rule{
				Verdict: policy.Allow, Match: policy.ServerPrefix + s.Name + "__*", From: "config, " + s.Where, Why: "The server is trusted.",
			})
			b.wheres = append(b.wheres, s.Where)
		}
	}
	return b
}

// File is where answers are kept.
func (b *Book) File() string { return b.file }

func ruleOf(r config.Rule, from string) policy.Rule {
	verdict, match := r.Verdict()
	return policy.Rule{Verdict: policy.Verdict(verdict), Match: match, In: r.In, Why: r.Why, From: from, Untrusted: r.Untrusted}
}

// ResolveLinks follows the symlinks of what exists, and can be looked at, of a path.
func ResolveLinks(path string) string {
	if real, err := beneath.Resolve(path); err == nil {
		return real
	}
	rest := ""
	for p := path; ; p = filepath.Dir(p) {
		if real, err := filepath.EvalSymlinks(p); err == nil {
			return filepath.Join(real, rest)
		}
		if p == filepath.Dir(p) {
			return path
		}
		rest = filepath.Join(filepath.Base(p), rest)
	}
}

// Policy is what holds in a workspace for a task with rules of its own. tree is the top of the worktree of the task's own that it lies in, or empty. Rules that cannot be read are an
// error: nothing is judged by half of them.
func (b *Book) Policy(dir, tree string, own []td.KeptRule) (*policy.Policy, error) {
	c := b.compiled(dir, tree)
	if c.err != nil || len(own) == 0 {
		return c.policy, c.err
	}
	rules := slices.Clone(c.rules)
	for _, r := range own {
		from := cmp.Or(r.From, policy.FromTask)
		if r.By != "" {
			from = "an answer of " + r.By
		}
		rules = append(rules, policy.Rule{Verdict: policy.Verdict(r.Verdict), Match: r.Match, Why: r.Why, From: from, Untrusted: r.Untrusted})
	}
	return policy.New(b.at(dir, tree), rules)
}

// Local are the rules that hold in a workspace for where it is: those for its folder, and those of its project. A
// checkout of it, which lies elsewhere, is judged by them as well.
func (b *Book) Local(dir string) ([]td.KeptRule, error) {
	c := b.compiled(dir, "")
	if c.err != nil {
		return nil, c.err
	}
	var out []td.KeptRule
	for _, r := range c.rules {
		if r.From == policy.FromProject || r.In != "" && within(dir, r.In) {
			out = append(out, td.KeptRule{Verdict: string(r.Verdict), Match: r.Match, Why: r.Why, From: r.From, Untrusted: r.Untrusted})
		}
	}
	return out, nil
}

func (b *Book) at(dir, tree string) policy.Place {
	p := b.place
	p.Workspace = dir
	if b.temps != nil {
		p.Temp = b.temps(dir)
	}
	if b.steers != nil {
		p.Steering = func(dir string) ([]string, error) { return b.steers(dir, tree) }
	}
	p.Own = append(slices.Clone(p.Own), filepath.Join(dir, config.ProjectFile), filepath.Join(dir, td.WorktreeFolder)) // where others work
	if root, ok := graph.Find(dir); ok {
		p.Own = append(p.Own, filepath.Join(root, graph.Folder, graph.LogFile), filepath.Join(root, graph.Folder, graph.PRDFolder))
	}
	return p
}

// compiled are the workspace's rules, read anew when a file changed.
func (b *Book) compiled(dir, tree string) *compiled {
	stamp := stampOf(os.Stat(b.file))
	for _, d := range foldersOf(dir) {
		stamp += " " + stampOf(os.Lstat(filepath.Join(d, config.ProjectFile)))
	}
	if c, ok := b.ready.Load([2]string{dir, tree}); ok && c.(*compiled).stamp == stamp {
		return c.(*compiled)
	}
	c := &compiled{stamp: stamp}
	c.rules, c.err = b.read(dir)
	if c.err == nil {
		c.policy, c.err = policy.New(b.at(dir, tree), c.rules)
	}
	if c.err != nil {
		c.err = td.Errorf(td.Invalid, "the rules cannot be used: %w", c.err).WithHint("taskdaemon config check")
	}
	b.ready.Store([2]string{dir, tree}, c)
	return c
}

func (b *Book) read(dir string) ([]policy.Rule, error) {
	rules := slices.Clone(b.fixed)
	kept, err := config.ReadRules(b.file)
	if err != nil {
		return nil, err
	}
	for _, r := range kept {
		if r.In == "" || within(dir, r.In) {
			rules = append(rules, ruleOf(r, fmt.Sprintf("%s, %s:%d", policy.FromAnswer, filepath.Base(b.file), r.Line)))
		}
	}
	for _, d := range foldersOf(dir) {
		tighter, err := projectRules(d)
		if err != nil {
			return nil, err
		}
		for _, r := range tighter {
			if !slices.ContainsFunc(rules, func(o policy.Rule) bool { return o == r }) {
				rules = append(rules, r)
			}
		}
	}
	return rules, nil
}

// projectRules are the rules of the file in a folder.
func projectRules(dir string) (rules []policy.Rule, err error) {
	read, err := config.ReadProjectRules(dir)
	if m, ok := errors.AsType[*config.Mistake](err); ok {
		// The model is told of this. What the file holds is not for it: the person sees it with config check.
		return nil, td.Errorf(td.Invalid, "%s: these are not rules", m.Where)
	}
	if err != nil {
		return nil, err
	}
	for _, r := range read {
		rule := ruleOf(r, policy.FromProject)
		if err := policy.Tightens(rule); err != nil {
			return nil, td.Errorf(td.Invalid, "%s: %w", r.Where, err)
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

// foldersOf are the folders whose project files hold in a workspace: its own and, where it is in a task's worktree, the one of the person's checkout
// that it corresponds to. An agent can commit another file on its branch, which a rebase or a worktree that is made again would bring into the
// workspace. Since rules can only tighten, those of both hold.
func foldersOf(dir string) []string {
	top, ok := td.WorktreeAround(dir)
	sub, err := filepath.Rel(top, dir)
	if !ok || err != nil {
		return []string{dir}
	}
	return []string{dir, filepath.Join(filepath.Dir(filepath.Dir(top)), sub)}
}

// within reports whether a folder is another one or lies below it.
func within(dir, parent string) bool {
	rel, err := filepath.Rel(parent, dir)
	return err == nil && filepath.IsLocal(rel)
}

// stampOf tells one state of a file from another.
func stampOf(info fs.FileInfo, err error) string {
	if err != nil {
		return "none"
	}
	return fmt.Sprintf("%d/%d/%s", info.ModTime().UnixNano(), info.Size(), info.Mode().Type())
}

// Rule is a rule in force, and where it comes from.
type Rule struct {
	policy.Rule
	Kept bool // it stands in the file of answers
}

// Rules are those in force in a workspace, in the order in which they were read.
func (b *Book) Rules(dir string) ([]Rule, error) {
	c := b.compiled(dir, "")
	if c.err != nil {
		return nil, c.err
	}
	out := make([]Rule, len(c.rules))
	for i, r := range c.rules {
		out[i] = Rule{Rule: r, Kept: i >= len(b.fixed) && r.From != policy.FromProject}
	}
	return out, nil
}
