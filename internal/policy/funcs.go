package policy

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// uncalled judges the bodies of functions that were declared since and that nothing called: something may
// that was not recognised.
func (w *walker) uncalled(since map[string][]*syntax.Stmt) {
	for _, name := range slices.Sorted(maps.Keys(w.funcs)) {
		if w.called[name] || slices.Equal(w.funcs[name], since[name]) {
			continue
		}
		w.called[name] = true
		for _, body := range w.funcs[name] {
			w.inner(func() {
				home, ok := w.vars["HOME"]
				w.vars, w.dirs = map[string]string{}, []string{string(markValue)}
				if ok {
					w.vars["HOME"] = home
				}
				w.stmt(body)
			})
		}
	}
}

func (w *walker) declare(c *syntax.FuncDecl) {
	if c.Name == nil || c.Body == nil {
		w.r.add(Ask, askUnparsed, "A function has no name.")
		return
	}
	name := c.Name.Value
	if w.bomb(name, c.Body) {
		w.r.add(Deny, floorBomb, "%s starts itself again and again until the machine stands still.", name)
	}
	w.funcs[name] = append(w.funcs[name], c.Body)
	if w.maybe == 0 && w.depth <= 1 {
		w.funcs[name] = []*syntax.Stmt{c.Body}
	}
	w.called[name] = false
}

// bomb reports whether a function runs itself in a pipe or in the background.
func (w *walker) bomb(name string, body *syntax.Stmt) bool {
	calls := func(n syntax.Node) (found bool) {
		if !w.left.take(extent(n)) {
			return false
		}
		syntax.Walk(n, func(n syntax.Node) bool {
			if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 && c.Args[0].Lit() == name {
				found = true
			}
			return !found
		})
		return found
	}
	found := false
	if !w.left.take(extent(body)) {
		return false
	}
	syntax.Walk(body, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			found = found || n.Background && calls(n)
		case *syntax.BinaryCmd:
			found = found || (n.Op == syntax.Pipe || n.Op == syntax.PipeAll) && calls(n.X) && calls(n.Y)
		}
		return !found
	})
	return found
}

// invoke runs a function of the source with its arguments.
func (w *walker) invoke(name string, args []string) {
	w.called[name] = true
	w.shared()
	if w.depth >= maxDepth {
		w.r.add(Ask, askUnparsed, "The function %s calls itself too deeply to be judged.", name)
		return
	}
	w.depth++
	defer func() { w.depth-- }()
	saved := map[string]string{}
	locals := w.locals
	w.locals = map[string]bool{}
	defer func() {
		for name := range w.locals { // what they were outside is back
			delete(w.vars, name)
		}
		w.locals = locals
	}()
	for i := 1; i <= 9; i++ {
		n := strconv.Itoa(i)
		if v, ok := w.vars[n]; ok {
			saved[n] = v
		}
		delete(w.vars, n)
		if i <= len(args) && !slices.ContainsFunc(args[:i], func(a string) bool { return strings.ContainsRune(a, markWords) }) {
			w.vars[n] = args[i-1]
		}
	}
	for _, body := range slices.Clone(w.funcs[name]) {
		w.stmt(body)
	}
	for i := 1; i <= 9; i++ {
		delete(w.vars, strconv.Itoa(i))
	}
	maps.Copy(w.vars, saved)
}
