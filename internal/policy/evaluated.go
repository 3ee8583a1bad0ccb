package policy

import (
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Some text is data to the parser and a program to the shell: in arithmetic a variable's value is an
// expression itself, an expression may hold a[…], and what stands in a subscript is expanded, commands
// included. So does whatever takes the name of a variable: read, unset, printf -v, test -v. Here only that
// is let through which cannot hold such text: numbers, and names.

// someNumber is the value of a variable that is a number, whichever.
const someNumber = string(markNumber) + string(markValue)

// isNumber reports whether a value is a number in arithmetic, and nothing else.
func isNumber(val string) bool {
	val = strings.TrimPrefix(val, "-")
	if val == someNumber {
		return true
	}
	if val == "" || val[0] < '0' || val[0] > '9' {
		return false
	}
	return !strings.ContainsFunc(val, func(r rune) bool {
		return !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '#')
	})
}

// isName reports whether a word is the name of a variable, without a subscript.
func isName(s string) bool {
	if s == "" || s[0] >= '0' && s[0] <= '9' {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_')
	})
}

// computed are variables that the shell itself changes, or that are integers: what they are given is
// evaluated, and is not what they hold later.
var computed = []string{"_", "REPLY", "OPTARG", "OPTIND", "MAPFILE", "COPROC*", "BASH*", "RANDOM", "SRANDOM", "SECONDS", "LINENO", "EPOCH*", "HISTCMD", "UID", "EUID", "PPID", "GROUPS", "DIRSTACK", "FUNCNAME", "PIPESTATUS", "READLINE_*", "COMP_*", "OLDPWD"}

// evaluates asks about text that the shell would evaluate.
func (w *walker) evaluates(what, text string) {
	w.r.add(Ask, askRuns, "The shell evaluates %s of %s, and runs commands that are in it.", shorten(readable(text)), what)
}

// arithm judges an expression. What it assigns is a number afterwards.
func (w *walker) arithm(x syntax.ArithmExpr) { w.arithmetic(x, true) }

// subscript judges what stands between the brackets of an array.
func (w *walker) subscript(x syntax.ArithmExpr) {
	if word, ok := x.(*syntax.Word); ok && (word.Lit() == "@" || word.Lit() == "*") {
		return
	}
	w.arithm(x)
}

// arithmetic goes through an expression. Surely says that this part of it is always evaluated.
func (w *walker) arithmetic(x syntax.ArithmExpr, surely bool) {
	switch x := x.(type) {
	case nil:
	case *syntax.ParenArithm:
		w.arithmetic(x.X, surely)
	case *syntax.UnaryArithm:
		w.arithmetic(x.X, surely)
		if x.Op == syntax.Inc || x.Op == syntax.Dec {
			w.assigned(x.X, surely)
		}
	case *syntax.BinaryArithm:
		switch {
		case x.Op == syntax.Comma:
			w.arithmetic(x.X, surely)
			w.arithmetic(x.Y, surely)
		case x.Op == syntax.Assgn:
			w.arithmetic(x.Y, surely)
			w.assigned(x.X, surely)
		case x.Op >= syntax.AddAssgn && x.Op <= syntax.PowAssgn:
			w.arithmetic(x.X, surely)
			w.arithmetic(x.Y, surely)
			w.assigned(x.X, surely)
		default:
			w.arithmetic(x.X, false)
			w.arithmetic(x.Y, false)
		}
	case *syntax.Word:
		w.operand(x)
	default:
		w.r.add(Ask, askUnparsed, "The expression contains something that is not known here.")
	}
}

// operand judges a word in arithmetic.
func (w *walker) operand(word *syntax.Word) {
	if name := word.Lit(); isName(name) {
		if !isNumber(w.vars[name]) {
			w.evaluates("arithmetic", name)
		}
		return
	}
	if val := w.value(word); !isNumber(val) {
		w.evaluates("arithmetic", val)
	}
}

// assigned is that arithmetic sets a variable.
func (w *walker) assigned(x syntax.ArithmExpr, surely bool) {
	word, ok := x.(*syntax.Word)
	if !ok || !isName(word.Lit()) {
		w.arithmetic(x, surely) // an element of an array
		return
	}
	name := word.Lit()
	surely = surely || isNumber(w.vars[name])
	w.lose(name)
	if surely && !matchesAny(computed, name) {
		w.vars[name] = someNumber
	}
}

// either is what is known of a variable that has one of two values.
func either(a, b string) (string, bool) {
	if a != b && isNumber(a) && isNumber(b) {
		return someNumber, true
	}
	return a, a == b
}

// settle finds what is known of variables in every round of a loop: rounds are gone through in silence
// until another one changes nothing.
func (w *walker) settle(round func()) {
	for range 4 {
		if !w.left.take((len(w.vars) + len(w.funcs)) * wordCost) {
			break
		}
		saved := *w
		w.vars, w.funcs, w.dirs, w.links = maps.Clone(w.vars), maps.Clone(w.funcs), slices.Clone(w.dirs), maps.Clone(w.links)
		w.r = &report{shell: true, sandboxed: w.r.sandboxed}
		round()
		after := *w
		*w = saved
		w.oddIFS, w.linked = after.oddIFS, after.linked
		settled := true
		for name, old := range w.vars {
			val, ok := after.vars[name]
			if both, known := either(old, val); !ok || !known {
				delete(w.vars, name)
				settled = false
			} else if both != old {
				w.vars[name] = both
				settled = false
			}
		}
		if settled {
			return
		}
	}
	clear(w.vars)
}

// test judges [[ … ]].
func (w *walker) test(x syntax.TestExpr) {
	syntax.Walk(x, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Word:
			w.value(n)
			return false
		case *syntax.UnaryTest:
			if word, ok := n.X.(*syntax.Word); ok && (n.Op == syntax.TsVarSet || n.Op == syntax.TsRefVar) {
				if val := w.value(word); !isName(val) {
					w.evaluates("a test", val)
				}
			}
		case *syntax.BinaryTest:
			if n.Op < syntax.TsEql || n.Op > syntax.TsGtr {
				return true
			}
			for _, side := range []syntax.TestExpr{n.X, n.Y} {
				if word, ok := side.(*syntax.Word); ok {
					w.operand(word)
				}
			}
		}
		return true
	})
}

// tested judges the words of [ and test. By -v they name a variable, and a word that is not known may be -v.
func (w *walker) tested(c *call) {
	for i, a := range c.args {
		if strings.ContainsRune(a, markWords) {
			w.evaluates(c.name, a)
		}
		if i+1 == len(c.args) || a != "-v" && a != "-R" && !maybeFlag(a) {
			continue
		}
		next := c.args[i+1]
		operator := slices.Contains([]string{"]", "=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef", "-a", "-o", ")"}, next)
		if !isName(next) && !operator {
			w.evaluates(c.name, next)
		}
	}
}

// names judges words that name variables, and makes these unknown. What is not a name is asked about.
func (w *walker) names(c *call, words []string) {
	for _, a := range words {
		if !isName(a) {
			w.evaluates(c.name, a)
			w.forget()
			continue
		}
		w.lose(a)
		if c.name == "unset" {
			w.unsure(a)
		}
	}
}

// unsure is that a name may be a function or a program.
func (w *walker) unsure(name string) {
	if bodies := w.funcs[name]; len(bodies) > 0 {
		w.funcs[name] = append(slices.Clone(bodies), bodies...)
	}
}

// reads sets variables to what is known only when it runs.
func reads(w *walker, c *call) bool {
	for _, name := range []string{"REPLY", "OPTARG", "OPTIND", "MAPFILE"} {
		delete(w.vars, name)
	}
	args := c.args
	if c.name == "getopts" { // the options, the name, the words to go through
		if len(args) > 1 {
			w.names(c, args[1:2])
		}
		w.guard(c, args[:min(1, len(args))])
		return true
	}
	w.guardFlags(c)
	valued := "pdintNu" // letters of flags with a value
	if c.name != "read" {
		valued = "dnOsuc"
	}
	for len(args) > 0 {
		a := args[0]
		args = args[1:]
		if len(a) < 2 || a[0] != '-' {
			w.names(c, append([]string{a}, args...))
			return true
		}
		array, value := strings.IndexByte(a, 'a'), strings.IndexAny(a, valued)
		switch {
		case c.name == "unset" && strings.Contains(a, "f"): // what is called may be a program again
			for _, name := range args {
				w.unsure(name)
			}
			if slices.ContainsFunc(args, unknown) {
				w.names(c, args)
			}
			return true
		case c.name == "unset" || array < 0 && value < 0 && !strings.Contains(a, "C"):
			w.guard(c, []string{a})
		case strings.Contains(a, "C") && c.name != "read":
			w.r.add(Ask, askRuns, "%s runs a command on each line.", c.name)
		case array > 0 && array < len(a)-1: // -aname
			w.names(c, []string{a[array+1:]})
		case array < 0 && value == len(a)-1:
			args = args[min(1, len(args)):]
		}
	}
	return true
}

// named judges the commands that take the name of a variable with one of their flags.
func named(letter string, h handler) handler {
	return func(w *walker, c *call) bool {
		for i, a := range c.args {
			if len(a) < 2 || a[0] != '-' || c.name == "printf" && i > 0 {
				break
			}
			if at := strings.Index(a, letter); at == len(a)-1 && i+1 < len(c.args) {
				w.names(c, c.args[i+1:i+2])
			} else if at > 0 {
				w.names(c, []string{a[at+1:]})
			}
		}
		return h(w, c)
	}
}

// running judges jobs, which by -x runs a command.
func running(w *walker, c *call) bool {
	if len(c.args) > 0 {
		w.r.add(Ask, askRuns, "jobs is given %s, by which it may run a command.", shorten(readable(c.args[0])))
		w.nested(c, func() { w.inner(func() { w.exec(operands(c.args)) }) })
	}
	return true
}

// shifts makes the positional words unknown.
func shifts(w *walker, c *call) bool {
	w.guardFlags(c)
	for i := '1'; i <= '9'; i++ {
		delete(w.vars, string(i))
	}
	return true
}

// declares judges declare and its kin where the parser did not take them for what they are.
func declares(w *walker, c *call) bool {
	w.r.add(Ask, askEnv, "%s sets variables in a way that is not followed here.", c.name)
	w.judgeArgs(*c)
	w.forget()
	return false
}

// shellWords are the builtins of the shell that evaluate what they are given.
func shellWords() map[string]handler {
	quiet := func(w *walker, c *call) bool { w.guardFlags(c); return true }
	return map[string]handler{
		"read": reads, "mapfile": reads, "readarray": reads, "getopts": reads, "unset": reads,
		"test": tests, "[": tests, "printf": named("v", printf), "wait": named("p", quiet), "jobs": running, "shift": shifts,
		"declare": declares, "typeset": declares, "local": declares, "export": declares, "readonly": declares, "let": declares,
	}
}

// tests judges test and [, whose words may be paths.
func tests(w *walker, c *call) bool {
	w.tested(c)
	for _, a := range c.args {
		if strings.Contains(a, "/") && certain(a) {
			w.touch(a, Read, c.at, false, false)
		}
	}
	return true
}
