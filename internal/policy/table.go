package policy

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// commandTable is the list of known commands, as data. Its first lines say how it is written.
//
//go:embed commands.txt
var commandTable string

// class is what is known of a command that matched a line of the table, the most harmless first.
type class int

const (
	classText  class = iota // it changes nothing, starts nothing, and knows no settings
	classLook               // it changes nothing
	classHeld               // it changes nothing in a sandbox with nothing to write
	classReach              // it changes nothing, and asks a service that the person has set up
	classWrap               // it is the command that it runs
	classBuild              // it changes the workspace, in a sandbox that holds it to that
)

var classNames = map[string]class{"text": classText, "look": classLook, "held": classHeld, "reach": classReach, "wrap": classWrap, "build": classBuild}

// option is a flag that a command may be given.
type option struct {
	values   []string // kinds of its values; none: it takes none
	optional bool     // the value must be attached, and may be missing
	apart    bool     // the value is the next word: attached, it would be other flags
	first    bool     // it stands in for the first operand
	walks    bool     // operands are gone through with all that is below them
}

// entry is a line of the table, for one command.
type entry struct {
	class    class
	key      string
	options  map[string]option // "-a", "--all"
	words    bool              // some flags are a dash and a whole name
	numbers  bool              // a number may be a flag
	free     bool              // the kind of the operand judges all words
	operands []operand
}

// operand is what a command takes after its flags.
type operand struct {
	kind     string
	many     bool // any number of them
	optional bool
}

// known are the commands of the table by their first words.
var known = sync.OnceValue(func() map[string][]*entry {
	table, err := parseTable(commandTable)
	if err != nil {
		panic(err) // a test reads the table
	}
	return table
})

func parseTable(text string) (map[string][]*entry, error) {
	table, shared := map[string][]*entry{}, map[string]string{}
	cls, found := class(0), false
	for n, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if name, rest, ok := strings.Cut(line, " = "); ok && strings.ToUpper(name) == name && !strings.Contains(name, " ") {
			shared[name] = rest
			continue
		}
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "["):
			if cls, found = classNames[strings.Trim(line, "[]")]; !found {
				return nil, fmt.Errorf("line %d: no class %s", n+1, line)
			}
		default:
			parts := strings.Split(line, " :")
			if len(parts) < 3 || !found {
				return nil, fmt.Errorf("line %d: want names, flags and operands", n+1)
			}
			// The command ":" is a name, too.
			names, flags, operands := strings.Join(parts[:len(parts)-2], " :"), parts[len(parts)-2], parts[len(parts)-1]
			for name, rest := range shared {
				flags = strings.ReplaceAll(flags, name, rest)
			}
			e, err := parseEntry(flags, operands)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", n+1, err)
			}
			for _, key := range strings.Split(names, ",") {
				one := e
				one.class, one.key = cls, strings.TrimSpace(key)
				table[one.key] = append(table[one.key], &one)
			}
		}
	}
	return table, nil
}

func parseEntry(flags, operands string) (entry, error) {
	e := entry{options: map[string]option{}}
	for _, f := range strings.Fields(flags) {
		switch {
		case f == "...":
			e.free = true
			continue
		case f == "-#":
			e.numbers = true
			continue
		}
		name, o := parseOption(f)
		for _, kind := range o.values {
			if kinds[kind] == nil {
				return e, fmt.Errorf("%s: no kind %q", f, kind)
			}
		}
		switch {
		case strings.HasPrefix(name, "--"):
			e.options[name] = o
		case strings.HasPrefix(name, "+"):
			e.options["-"+name[1:]], e.words = o, true
		case strings.HasPrefix(name, "-") && len(name) > 1:
			for i := 1; i < len(name); i++ {
				if i == len(name)-1 {
					e.options["-"+name[i:]] = o
				} else {
					e.options["-"+name[i:i+1]] = option{}
				}
			}
		default:
			return e, fmt.Errorf("%q is not a flag", f)
		}
	}
	for _, w := range strings.Fields(operands) {
		o := operand{kind: strings.Trim(w, "[]*"), many: strings.HasSuffix(w, "*"), optional: strings.HasPrefix(w, "[")}
		if o.kind == "none" {
			continue
		}
		if kinds[o.kind] == nil && !structural[o.kind] {
			return e, fmt.Errorf("no kind %q", o.kind)
		}
		e.operands = append(e.operands, o)
	}
	return e, nil
}

func parseOption(f string) (string, option) {
	o := option{}
	if f, o.walks = strings.CutSuffix(f, "~"); o.walks {
		return f, o
	}
	at := strings.IndexAny(f, "=?:")
	if at < 0 {
		if strings.HasPrefix(f, "--") {
			f, o.first = strings.CutSuffix(f, "1")
		}
		return f, o
	}
	o.optional, o.apart = f[at] == '?', f[at] == ':'
	kind := f[at+1:]
	kind, o.first = strings.CutSuffix(kind, "1")
	o.values = strings.Split(kind, ",")
	return f[:at], o
}

// entriesFor are the lines that may be about a command, the most harmless class first.
func entriesFor(words []string) []*entry {
	var out []*entry
	table := known()
	var keys []string
	for n := min(4, len(words)); n > 0; n-- {
		keys = append(keys, strings.Join(words[:n], " "))
	}
	// One word of a program that builds may be a target of its own: mage version.
	builds := func(e *entry) bool { return e.class == classBuild }
	target := len(words) == 2 && !strings.HasPrefix(words[1], "-") && slices.ContainsFunc(table[words[0]], builds)
	if handlerOf(words[0]) == nil && !target {
		keys = append(keys, "*")
	}
	for cls := classText; cls <= classBuild; cls++ {
		for _, key := range keys {
			for _, e := range table[key] {
				if e.class == cls {
					out = append(out, e)
				}
			}
		}
	}
	return out
}

// stranger reports whether nothing is known of a program but perhaps how to ask for its version.
func stranger(name string) bool { return handlerOf(name) == nil && !listed()[name] }

// listed are the programs that the table has a line for, other than one for their version.
var listed = sync.OnceValue(func() map[string]bool {
	names := map[string]bool{}
	for key, entries := range known() {
		name, _, _ := strings.Cut(key, " ")
		for _, e := range entries {
			names[name] = names[name] || len(e.operands) != 1 || !strings.HasPrefix(e.operands[0].kind, "version")
		}
	}
	return names
})
