// Package policy judges what a tool call would do: allow, ask or deny, and why.
//
// It is pure: it reads no file, asks no clock and starts nothing. Paths come to it absolute and with the
// symlinks of what exists resolved; those it finds in a shell command itself it resolves with
// Place.Resolve.
//
// The order is fixed. The floor denies first, and no mode, rule or answer gets past it. Then deny rules,
// then plan mode, then what nobody can foresee (a command that cannot be parsed, a path that is known only
// when it runs): that is asked about, whatever an allow rule says, unless a sandbox makes it harmless. Then ask rules, allow rules and, last,
// the mode. For a task that has read untrusted text and is held stricter only the allow rules count that are
// made for such tasks.
package policy

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Verdict is what becomes of a call.
type Verdict string

// The verdicts.
const (
	Allow Verdict = "allow"
	Ask   Verdict = "ask"
	Deny  Verdict = "deny"
)

// Access is what is done to a path.
type Access string

// The accesses.
const (
	Read  Access = "read"
	Write Access = "write"
)

// Mode is how much a person leaves to the task.
type Mode string

// The modes.
const (
	ModeAsk         Mode = "ask"          // looking is free, the rest is asked about
	ModeAcceptEdits Mode = "accept-edits" // and so is editing files of the workspace
	ModeAuto        Mode = "auto"         // and commands that a sandbox holds
	ModePlan        Mode = "plan"         // only looking; nothing is changed
)

// PathUse is a path and what is done to it. The path is absolute, and its symlinks are resolved.
type PathUse struct {
	Path   string
	Access Access
}

// Action is one tool call as it would happen.
type Action struct {
	Tool      string // "Bash", "Write", "mcp__notes__write"
	Origin    Origin // who brought the tool
	Bound     string // what the tool is, where others may make something else of its name: "sha256:…"
	Paths     []PathUse
	Command   string   // shell source, when it runs one
	Dir       string   // the folder in which it runs; empty: the workspace
	Hosts     []string // it would reach
	Looks     bool     // the tool says that it only looks
	Sifts     bool     // the tool leaves out what may not be read, of what is below the paths: see Hides
	Mode      Mode     // empty: ask
	Sandboxed bool     // a sandbox can hold the command to the workspace or to nothing, without a network
	Apart     bool     // the workspace is a worktree of the task's own: no file in it is anybody else's
	Tainted   bool     // the task has read untrusted text, and the config wants it held stricter
}

// Place is where actions happen.
type Place struct {
	Workspace string
	Home      string
	State     string
	Checkouts string   // folder in State whose folders may be workspaces: a task may use its own of them
	Own       []string // further files of taskdaemon: config, socket
	Temp      []string // folders that may be written like the workspace
	Branches  []string // protected branches, as globs; nil: DefaultBranches
	// Steering are the files and folders in a folder that the person's git runs or obeys. It is asked of the workspace, and of repositories below it that are written in; where it fails no write
	// is allowed. Nil: there are none.
	Steering func(dir string) ([]string, error)
	// Resolve follows the symlinks of what exists of a path. Nil: there are none.
	Resolve func(path string) string
	// Glob are the paths that match a pattern now, in which only * and ? without a backslash are special; false where they are too many or cannot be read. Nil: nobody knows.
	Glob func(pattern string) (paths []string, ok bool)
	// Git is what a folder is to git. Nil: only names tell, and every workspace has a repository.
	Git func(dir string) Git
}

// Git is what a folder is to git.
type Git struct {
	Top    bool // it holds a .git that git takes, before it looks for anything else
	Inside bool // it looks like what .git is: with HEAD and objects, or what leads to them
}

// DefaultBranches are protected where nobody says which are.
func DefaultBranches() []string { return []string{"main", "master", "trunk", "release/*"} }

// Decision is what was decided, and what it was decided on.
type Decision struct {
	Verdict Verdict
	Rule    string // the deciding rule, as a person may read and type it
	Why     string
	Floor   bool // nothing can change this verdict
	// Fixed says that no allow rule can turn this verdict into allow: it is of the floor, or nobody can
	// foresee what the call would do. Only an answer to this one call can.
	Fixed   bool
	Unruled bool // no rule speaks of it: the mode decided
	Looks   bool // nothing is changed, by what is known of the commands
	Reaches bool // though it only looks, it asks a service, or may ask one where it has a network
	// Confined is what the command must be held to, and nothing less: it is allowed for that reason. Of one that is asked about, it is what holds it after a yes: what held it without
	// the rule that asks, or had the task not read untrusted text. An answer lifts only what was asked about.
	Confined Confinement
	// Offline says that it may want a network, and is held without one.
	Offline bool
	// Lifts are the rules that together give it the network of the config, where a question would offer them.
	Lifts  []string
	Writes []string // resolved paths it would touch, as far as known
	Reads  []string
	Hosts  []string
	Offers []Offer // what "always" and "never" may store, the most specific first
}

// Confinement is what a sandbox leaves to a command.
type Confinement string

// The confinements. All but the first and the last are without a network.
const (
	Unconfined      Confinement = ""          // what the config says
	HeldToLooking   Confinement = "read-only" // nothing can be written
	HeldToWorkspace Confinement = "workspace" // the workspace can be written, and caches of builds
	HeldToService   Confinement = "service"   // it has the network that the config says; nothing can be written, and nothing that could be written is run
)

// And is what holds to both.
func (c Confinement) And(other Confinement) Confinement {
	switch {
	case c == other || other == Unconfined:
		return c
	case c == Unconfined:
		return other
	}
	return HeldToLooking
}

// Policy is the rules of one place, ready to judge. It is safe for concurrent use.
type Policy struct {
	place    Place
	deny     []compiled
	ask      []compiled
	allow    []compiled
	branches []string
}

// New compiles rules for a place. A rule that cannot be read is an error that names where it is from, and
// so is one of a project that loosens.
func New(place Place, rules []Rule) (*Policy, error) {
	for _, p := range []struct{ name, path string }{{"workspace", place.Workspace}, {"home", place.Home}} {
		if !filepath.IsAbs(p.path) {
			return nil, fmt.Errorf("make policy: the %s %q is not an absolute path", p.name, p.path)
		}
	}
	if place.Resolve == nil {
		place.Resolve = func(path string) string { return path }
	}
	p := &Policy{place: place, branches: place.Branches}
	if p.branches == nil {
		p.branches = DefaultBranches()
	}
	p.place.Workspace = p.resolved(place.Workspace)
	p.place.Home = p.resolved(place.Home)
	if place.State != "" {
		p.place.State = p.resolved(place.State)
	}
	if place.Checkouts != "" {
		p.place.Checkouts = p.resolved(place.Checkouts)
	}
	p.place.Own = p.resolvedAll(place.Own)
	p.place.Temp = p.resolvedAll(place.Temp)
	for i, r := range rules {
		if err := Tightens(r); err != nil {
			return nil, err
		}
		c, err := compile(r, p.place)
		if err != nil {
			return nil, fmt.Errorf("rule %d: %w", i+1, err)
		}
		switch r.Verdict {
		case Deny:
			p.deny = append(p.deny, c)
		case Ask:
			p.ask = append(p.ask, c)
		default:
			p.allow = append(p.allow, c)
		}
	}
	return p, nil
}

func (p *Policy) resolved(path string) string {
	return filepath.Clean(p.place.Resolve(filepath.Clean(path)))
}

func (p *Policy) resolvedAll(paths []string) []string {
	var out []string
	for _, path := range paths {
		out = append(out, p.resolved(path))
	}
	return out
}

// Decide judges an action.
func (p *Policy) Decide(a Action) Decision {
	if a.Dir == "" {
		a.Dir = p.place.Workspace
	}
	a.Dir = p.resolved(a.Dir)
	p = p.now()
	r := p.examine(a)
	d := p.verdict(a, r)
	d.Looks, d.Reaches = r.looks(), r.reaches || r.held
	switch d.Verdict {
	case Allow:
		d.Confined = r.hold(a, d)
		d.Offline = d.Offline && d.Confined != Unconfined
	case Ask:
		d.Confined, d.Offline = p.unasked(a, r)
	}
	d.Reads, d.Writes = r.paths(Read), r.paths(Write)
	d.Hosts = r.hosts
	if !d.Fixed {
		d.Offers = p.offers(a, r)
	}
	if d.Verdict == Allow && d.Offline {
		d.Lifts = p.lifts(a, r, d.Offers)
	}
	for i := range d.Offers {
		if a.Tainted {
			d.Offers[i].Words += ", also for tasks that have read untrusted text"
		}
	}
	return d
}

// hold is what an action that is allowed is held to.
func (r *report) hold(a Action, d Decision) Confinement {
	switch {
	case !r.sandboxed:
		return Unconfined // there is no sandbox to speak of
	case d.Confined == HeldToService && a.Mode != ModePlan:
		return HeldToService
	case a.Mode == ModePlan || r.looks() && (r.held || d.Confined != Unconfined):
		return HeldToLooking
	case r.held || d.Confined != Unconfined:
		return HeldToWorkspace
	}
	return Unconfined
}

// unasked is what would hold an action if no rule had it asked about and the task had read nothing untrusted. Where it is asked about even then, nobody knows what it needs, or
// a sandbox does not give that: it is not held.
func (p *Policy) unasked(a Action, r *report) (held Confinement, offline bool) {
	bare, alike := *p, *r
	bare.deny, bare.ask, a.Tainted = nil, nil, false
	d := bare.verdict(a, &alike)
	if d.Verdict != Allow {
		return Unconfined, false
	}
	held = alike.hold(a, d)
	return held, d.Offline && held != Unconfined
}

// now is the policy for one decision: what steers git is the same for all that a command does.
func (p *Policy) now() *Policy {
	if p.place.Steering == nil {
		return p
	}
	one := *p
	type answer struct {
		paths []string
		err   error
	}
	known := map[string]answer{}
	one.place.Steering = func(dir string) ([]string, error) {
		a, is := known[dir]
		if !is {
			a.paths, a.err = p.place.Steering(dir)
			a.paths = p.resolvedAll(a.paths)
			known[dir] = a
		}
		return a.paths, a.err
	}
	return &one
}

// Hides reports whether a path may not be read, whatever is answered: what goes through folders must leave it out.
// The path is absolute, and its symlinks are resolved.
func (p *Policy) Hides(path string) bool {
	if f, ok := p.floorPath(path, Read, false); ok && f.verdict == Deny {
		return true
	}
	a := Action{Dir: p.place.Workspace}
	return slices.ContainsFunc(p.deny, func(c compiled) bool { return c.kind == kindRead && p.holds(c, a) && matchesPath(c.arg, path) })
}

// Refuses is the deny rule that keeps a file from being changed, if there is one: what a task has changed all the same is not merged. File is its path
// below a folder, with slashes, as git names it.
func (p *Policy) Refuses(top, file string) (Decision, bool) {
	a := Action{Dir: p.place.Workspace}
	at := p.resolved(top) + "/" + file
	i := slices.IndexFunc(p.deny, func(c compiled) bool { return c.kind == kindWrite && p.holds(c, a) && matchesPath(c.arg, at) })
	if i < 0 {
		return Decision{}, false
	}
	return p.deny[i].decision(), true
}

// verdict goes through the order.
func (p *Policy) verdict(a Action, r *report) Decision {
	if f, ok := r.first(Deny); ok {
		return Decision{Verdict: Deny, Rule: "floor: " + f.rule, Why: f.why, Floor: true, Fixed: true}
	}
	if c, ok := p.anyOf(p.deny, a, r, yes); ok {
		return c.decision()
	}
	if a.Mode == ModePlan && !r.looks() && !p.planned(a, r) {
		return Decision{Verdict: Deny, Rule: "mode plan", Fixed: !r.sandboxed,
			Why: "In plan mode nothing is changed: look, think and present the plan. " + r.changing()}
	}
	own := r.stays(a)
	if f, ok := r.asks(own); ok {
		return Decision{Verdict: Ask, Rule: f.rule, Why: f.why, Fixed: true}
	}
	if _, unforeseen := r.first(Ask); unforeseen {
		r.held = true // whatever allows it: it passed only for the sandbox
	}
	if c, ok := p.anyOf(p.deny, a, r, could); ok && !a.Sifts {
		d := c.decision()
		return Decision{Verdict: Ask, Rule: d.Rule, Why: "It may touch what is denied. " + d.Why, Fixed: true}
	}
	if c, ok := p.anyOf(p.ask, a, r, could); ok {
		return c.decision()
	}
	if c, ok := p.covered(a, r); ok {
		return c.decision()
	}
	d := p.byMode(a, r, own)
	if calm := a; a.Tainted && d.Verdict == Ask {
		calm.Tainted = false
		if c, ok := p.covered(calm, r); ok {
			d.Rule, d.Why = askTainted, fmt.Sprintf("The task has read untrusted text, and %q is not made for such tasks.", c.rule.String())
		}
	}
	return d
}

// planned reports whether a command that may change something runs in plan mode all the same: a rule allows it, and a
// sandbox leaves it nothing to change.
func (p *Policy) planned(a Action, r *report) bool {
	_, covered := p.covered(a, r)
	return r.sandboxed && covered
}

// askedService is why what asks a service is asked about beside other commands.
const askedService = "It asks a service, which needs a network, beside commands that are to have none."

// byMode decides what no rule has decided.
func (p *Policy) byMode(a Action, r *report, own bool) Decision {
	mode := a.Mode
	if mode == "" {
		mode = ModeAsk
	}
	d := Decision{Verdict: Ask, Rule: "mode " + string(mode), Unruled: true}
	outsideWrite, wrote := r.outside(Write)
	outsideRead, read := p.strays(a, r)
	switch {
	case wrote:
		d.Rule, d.Why = "outside the workspace", fmt.Sprintf("It writes %s, outside the workspace.", readable(outsideWrite.path))
	case read && outsideRead.secret:
		d.Rule, d.Why = "secrets", fmt.Sprintf("It reads %s, which is likely to hold secrets.", readable(outsideRead.path))
	case read:
		d.Rule, d.Why = "outside the workspace", fmt.Sprintf("It reads %s, outside the workspace.", readable(outsideRead.path))
	case len(r.hosts) > 0 && !(own && r.nearby()):
		d.Why = fmt.Sprintf("It reaches %s.", strings.Join(r.hosts, ", "))
	case r.looks():
		d.Verdict, d.Rule, d.Why = Allow, "read-only", "It changes nothing."
		if r.held {
			d.Rule, d.Why = "read-only sandbox", "It runs where it can write nothing and reach nobody."
		}
		switch d.Confined = HeldToLooking; {
		case !r.reaches:
		case r.held || r.mixed:
			d.Verdict, d.Rule, d.Confined = Ask, "mode "+string(mode), Unconfined
			d.Why = askedService
		default:
			d.Confined = HeldToService
		}
	case r.reaches && a.Sandboxed:
		d.Why = askedService // what holds the rest leaves it no network
	case mode == ModeAsk || mode == ModePlan:
		d.Why = r.changing()
	case r.edits(a) && len(r.findings) == 0: // else only its own worktree lets it pass
		d.Verdict, d.Why, d.Confined = Allow, "It edits files of the workspace.", HeldToWorkspace
	case r.works():
		d.Verdict, d.Rule, d.Why, d.Confined = Allow, "builds and tests", "A sandbox holds it to the workspace, without a network.", HeldToWorkspace
	case own:
		d.Verdict, d.Rule, d.Why, d.Confined = Allow, "its own worktree", "A sandbox holds it to the task's own worktree, without a network.", HeldToWorkspace
		d.Offline = r.offline()
	case mode == ModeAuto && a.Command != "" && a.Sandboxed:
		d.Verdict, d.Why, d.Confined = Allow, "A sandbox holds the command to the workspace, without a network.", HeldToWorkspace
	default:
		d.Why = r.changing()
	}
	d.Why = clipped(d.Why)
	if d.Verdict == Allow && a.Tainted && !r.looks() && a.Command != "" {
		d.Verdict, d.Rule = Ask, askTainted
		d.Why = "The task has read untrusted text, so that its commands are asked about."
	}
	return d
}

// strays is the first path that is read, that the mode alone does not allow, and that no rule does.
func (p *Policy) strays(a Action, r *report) (use, bool) {
	i := slices.IndexFunc(r.uses, func(u use) bool {
		allowed := func(c compiled) bool {
			return c.kind == kindRead && p.holds(c, a) && (c.rule.Untrusted || !a.Tainted) && !strings.ContainsRune(u.path, markBelow) && matchesPath(c.arg, u.path)
		}
		return u.outside && u.access == Read && !slices.ContainsFunc(p.allow, allowed)
	})
	if i < 0 {
		return use{}, false
	}
	return r.uses[i], true
}

// writesFiles names the tools that change files and nothing else.
func writesFiles(tool string) bool {
	return slices.Contains([]string{"Write", "Edit", "MultiEdit"}, tool)
}

// Forbids says why a command that a person gave may not be run all the same, if a rule or the floor denies it. What
// would be asked about is not forbidden: who gave the command was the one to ask.
func (p *Policy) Forbids(command, dir string) (Decision, bool) {
	d := p.Decide(Action{Tool: "Bash", Command: command, Dir: dir, Mode: ModeAuto})
	return d, d.Verdict == Deny
}
