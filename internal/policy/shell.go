package policy

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

const (
	maxSource = 64 << 10 // bytes of a command that is still judged
	maxStmts  = 2000     // statements that are judged, those of loops and functions each time
	maxDepth  = 12       // shells within shells, functions within functions
	maxItems  = 16       // words of a for loop that are gone through one by one
	maxDirs   = 8        // folders in which a command may be running
)

// parsers are kept: making one costs more than parsing a command.
var parsers = sync.Pool{New: func() any { return syntax.NewParser(syntax.Variant(syntax.LangBash)) }}

// examine finds out what an action would do.
func (p *Policy) examine(a Action) *report {
	r := &report{shell: a.Command != "", says: a.Looks, tool: a.Tool, origin: a.Origin, bound: a.Bound, sandboxed: a.Sandboxed && a.Command != ""}
	for _, h := range a.Hosts {
		r.host(h)
	}
	for _, u := range a.Paths {
		path := p.canonical(a.Dir, u.Path, nil)
		p.judgePath(r, use{path: path, access: u.Access, cmd: -1}, false)
		if a.Tool == "Grep" { // it reads all that is below
			below := use{path: finds(path, false), access: u.Access, cmd: -1}
			if a.Sifts {
				r.uses = append(r.uses, below) // but nothing of what the floor keeps
			} else {
				p.judgePath(r, below, false)
			}
		}
	}
	if hidden(a.Tool) {
		r.add(Ask, askHidden, "The name of the tool contains characters that are not shown as they are.")
	}
	if !r.shell && a.Tool == "Bash" {
		r.add(Ask, askUnparsed, "There is no command to judge.")
	}
	if r.shell {
		w := &walker{p: p, r: r, dirs: []string{a.Dir}, vars: map[string]string{"HOME": p.place.Home, "PWD": a.Dir, "IFS": " \t\n"},
			funcs: map[string][]*syntax.Stmt{}, links: map[string]string{}, called: map[string]bool{}, left: newBudget()}
		w.source(a.Command)
		w.steers()
		w.over()
	}
	return r
}

// walker goes through a shell source as the shell would, and records every simple command with what is
// known of its words.
type walker struct {
	p       *Policy
	r       *report
	vars    map[string]string // known variables; values may hold marks
	funcs   map[string][]*syntax.Stmt
	called  map[string]bool
	links   map[string]string // symlinks the source itself makes
	dirs    []string          // where it may be running, the likely one first
	went    []string          // where the last cd leads to, if it succeeds
	locals  map[string]bool   // variables of the function that is running
	linked  bool              // it went through a symlink: what ".." is for cd is not known
	oddIFS  bool
	exports bool    // what is assigned is given to programs
	piped   bool    // its input comes from another command
	fed     *string // its input, when that is known
	via     string
	depth   int
	maybe   int // in a branch that may not be taken
	left    *budget
}

// source judges shell source.
func (w *walker) source(src string) {
	switch {
	case unknown(src) || globbed(src):
		w.r.add(Ask, askRuns, "A shell is given text that is known only when it runs.")
		return
	case len(src) > maxSource:
		w.r.add(Ask, askUnparsed, "The command is longer than %d KiB.", maxSource>>10)
		return
	case hidden(src):
		w.r.add(Ask, askHidden, "The command contains control, zero-width or direction characters: it is not what it looks like.")
		return
	case w.depth >= maxDepth:
		w.r.add(Ask, askUnparsed, "Shells are nested too deeply to be judged.")
		return
	}
	if !w.left.take(len(src)) {
		return
	}
	parser := parsers.Get().(*syntax.Parser)
	file, err := parser.Parse(strings.NewReader(src), "")
	parsers.Put(parser)
	if err != nil {
		w.r.add(Ask, askUnparsed, "The command cannot be parsed: %v.", err)
		return
	}
	w.shared()
	w.depth++
	defer func() { w.depth-- }()
	before, since := len(w.r.cmds), maps.Clone(w.funcs)
	w.stmts(file.Stmts)
	w.uncalled(since)
	if len(w.r.cmds) == before && w.depth == 1 {
		w.r.cmds = append(w.r.cmds, command{words: []string{":"}, looks: true})
	}
}

func (w *walker) stmts(list []*syntax.Stmt) {
	for _, s := range list {
		w.stmt(s)
	}
}

// inner runs what a subshell runs: nothing of its state comes back.
func (w *walker) inner(f func()) {
	if !w.left.take((len(w.vars) + len(w.funcs)) * wordCost) {
		return
	}
	saved := *w
	w.vars, w.funcs, w.dirs = maps.Clone(w.vars), maps.Clone(w.funcs), slices.Clone(w.dirs)
	w.piped, w.fed = false, nil
	w.depth++
	if w.depth > maxDepth {
		w.r.add(Ask, askUnparsed, "Shells are nested too deeply to be judged.")
	} else {
		f()
		w.uncalled(saved.funcs)
	}
	*w = saved
}

// branch runs what may not run: what it leaves different is not known afterwards.
func (w *walker) branch(f func()) {
	if !w.left.take((len(w.vars) + len(w.funcs)) * wordCost) {
		return
	}
	vars, dirs, funcs := maps.Clone(w.vars), slices.Clone(w.dirs), w.funcs
	w.funcs = maps.Clone(w.funcs)
	w.maybe++
	f()
	w.maybe--
	for name, val := range w.vars {
		old, ok := vars[name]
		both, known := either(old, val)
		if w.vars[name] = both; !ok || !known {
			delete(w.vars, name)
		}
	}
	for name, bodies := range funcs {
		w.funcs[name] = append(slices.Clone(bodies), w.funcs[name]...)
	}
	w.dirs = mergeDirs(w.dirs, dirs)
}

func mergeDirs(a, b []string) []string {
	for _, d := range b {
		if !slices.Contains(a, d) {
			a = append(slices.Clone(a), d)
		}
	}
	if len(a) > maxDirs {
		return []string{string(markValue)}
	}
	return a
}

// loop runs what may run again with what it left behind.
func (w *walker) loop(body []*syntax.Stmt, each func()) {
	for _, s := range body {
		if !w.left.take(extent(s)) {
			return
		}
		syntax.Walk(s, func(n syntax.Node) bool {
			if n, ok := n.(*syntax.CallExpr); ok && len(n.Args) > 0 && slices.Contains([]string{"cd", "pushd", "popd"}, n.Args[0].Lit()) {
				w.dirs = mergeDirs(w.dirs, []string{string(markValue)})
			}
			return true
		})
	}
	w.settle(each)
	w.branch(each)
}

func (w *walker) stmt(s *syntax.Stmt) {
	if w.left.stmts--; w.left.spent() {
		return
	}
	piped, fed := w.piped, w.fed
	defer func() { w.piped, w.fed = piped, fed }()
	w.redirections(s.Redirs)
	if s.Background {
		w.fork(func() { w.command(s.Cmd) })
		return
	}
	w.command(s.Cmd)
}

// fork is a subshell that keeps the input it has.
func (w *walker) fork(f func()) {
	piped, fed := w.piped, w.fed
	w.inner(func() {
		w.piped, w.fed = piped, fed
		f()
	})
}

// shared forgets the input: several commands read from it, and what each gets of it is not known.
func (w *walker) shared() {
	w.piped, w.fed = w.piped || w.fed != nil, nil
}

func (w *walker) command(c syntax.Command) {
	if _, simple := c.(*syntax.CallExpr); !simple {
		w.shared()
	}
	switch c := c.(type) {
	case nil: // only redirections
	case *syntax.CallExpr:
		w.call(c)
	case *syntax.IfClause:
		w.ifClause(c)
	case *syntax.WhileClause:
		w.r.chosen = true
		w.loop(append(slices.Clone(c.Cond), c.Do...), func() { w.stmts(c.Cond); w.stmts(c.Do) })
	case *syntax.ForClause:
		w.forClause(c)
	case *syntax.CaseClause:
		w.value(c.Word)
		w.r.chosen = true
		for _, item := range c.Items {
			for _, p := range item.Patterns {
				w.value(p)
			}
			w.branch(func() { w.stmts(item.Stmts) })
		}
	case *syntax.Block:
		w.stmts(c.Stmts)
	case *syntax.Subshell:
		w.fork(func() { w.stmts(c.Stmts) })
	case *syntax.BinaryCmd:
		w.binary(c)
	case *syntax.FuncDecl:
		w.declare(c)
	case *syntax.ArithmCmd:
		w.arithm(c.X)
	case *syntax.LetClause:
		for _, x := range c.Exprs {
			w.arithm(x)
		}
	case *syntax.TestClause:
		w.test(c.X)
	case *syntax.DeclClause:
		w.declClause(c)
	case *syntax.TimeClause:
		if c.Stmt != nil {
			w.stmt(c.Stmt)
		}
	case *syntax.CoprocClause:
		w.inner(func() { w.stmt(c.Stmt) })
	default:
		w.r.add(Ask, askUnparsed, "The command contains something that is not known here.")
	}
}

func (w *walker) ifClause(c *syntax.IfClause) {
	for ; c != nil; c = c.Else {
		from := len(w.r.cmds)
		w.stmts(c.Cond)
		w.choosing(from, c.Cond...)
		w.branch(func() { w.stmts(c.Then) })
	}
}

func (w *walker) forClause(c *syntax.ForClause) {
	iter, ok := c.Loop.(*syntax.WordIter)
	if !ok {
		l, ok := c.Loop.(*syntax.CStyleLoop)
		if !ok {
			w.r.add(Ask, askUnparsed, "The command contains a loop that is not known here.")
			return
		}
		w.r.chosen = true
		w.arithm(l.Init)
		w.arithm(l.Cond)
		w.loop(c.Do, func() {
			w.arithm(l.Cond)
			w.stmts(c.Do)
			w.arithm(l.Post)
		})
		return
	}
	w.lose(iter.Name.Value)
	delete(w.vars, "REPLY") // select
	var items []string
	for _, word := range iter.Items {
		items = append(items, w.fields(word)...)
	}
	w.r.chosen = w.r.chosen || len(items) == 0 || slices.ContainsFunc(items, func(s string) bool { return !certain(s) })
	foreseen := len(items) > 0 && len(items) <= maxItems && !slices.ContainsFunc(items, unknown) && !c.Select
	w.loop(c.Do, func() {
		if !foreseen {
			delete(w.vars, iter.Name.Value)
			w.stmts(c.Do)
			return
		}
		for _, item := range items {
			w.vars[iter.Name.Value] = item
			w.stmts(c.Do)
		}
	})
}

func (w *walker) binary(c *syntax.BinaryCmd) {
	switch c.Op {
	case syntax.Pipe, syntax.PipeAll:
		piped, fed := w.piped, w.fed
		from := len(w.r.cmds)
		w.fork(func() { w.stmt(c.X) })
		to := len(w.r.cmds)
		w.inner(func() {
			w.piped, w.fed = true, w.said(from, to)
			w.stmt(c.Y)
		})
		w.piped, w.fed = piped, fed
	case syntax.AndStmt:
		w.and(c)
	default:
		from := len(w.r.cmds)
		w.stmt(c.X)
		w.choosing(from, c.X)
		w.branch(func() { w.stmt(c.Y) })
	}
}

// and judges a list of && and returns where it is if all of it succeeded; afterwards it may be in any of the folders on the way.
func (w *walker) and(c *syntax.BinaryCmd) (succeeded []string) {
	from := len(w.r.cmds)
	at := w.succeeding(c.X)
	w.choosing(from, c.X)
	whole := w.dirs
	w.dirs = at
	w.branch(func() { succeeded = w.succeeding(c.Y) })
	w.dirs = mergeDirs(w.dirs, whole)
	return succeeded
}

// succeeding judges a statement and returns where it is if that succeeded.
func (w *walker) succeeding(s *syntax.Stmt) []string {
	plain := !s.Background && !s.Negated
	switch c := s.Cmd.(type) {
	case *syntax.BinaryCmd:
		if c.Op == syntax.AndStmt && plain {
			return w.and(c)
		}
	case *syntax.CallExpr:
		if plain && len(c.Args) > 0 && c.Args[0].Lit() == "cd" {
			w.went = nil
			if w.stmt(s); w.went != nil {
				return w.went
			}
			return w.dirs
		}
	}
	w.stmt(s)
	return w.dirs
}

// said is what the commands between from and to print, when that is known: an echo, or a cat of a
// here-document.
func (w *walker) said(from, to int) *string {
	if to != from+1 {
		return nil
	}
	words := w.r.cmds[from].words
	if words[0] == "cat" && len(words) == 1 {
		return w.r.cmds[from].input
	}
	if words[0] != "echo" && words[0] != "printf" || !certain(strings.Join(words, " ")) {
		return nil
	}
	text := strings.Join(words[1:], " ")
	if words[0] == "printf" && len(words) != 2 {
		return nil
	}
	if strings.HasPrefix(text, "-") || strings.ContainsAny(text, `\%`) {
		return nil // escapes make something else of it
	}
	return &text
}

// extent is how long a part of a source is.
func extent(n syntax.Node) int { return int(n.End().Offset() - n.Pos().Offset()) }
