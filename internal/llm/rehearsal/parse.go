package rehearsal

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/goccy/go-yaml/ast"

	"taskdaemon/internal/td"
)

// MaxSize is the largest script Parse takes.
const MaxSize = 1 << 20

// The largest numbers a script may hold.
const (
	maxWait   = 24 * time.Hour
	maxRepeat = 1_000_000
)

// Parse reads a script. Its errors name line and column and, for a key nobody knows, the nearest one
// that is known.
func Parse(src []byte) (*Script, error) {
	root, err := parseYAML(src)
	if err != nil {
		return nil, invalid(err)
	}
	s := &Script{}
	var turns []turn
	err = mapping(root, "the script", fields{
		"name":  text(&s.name),
		"chunk": func(n ast.Node) error { return parseChunk(n, &s.chunk) },
		"turns": func(n ast.Node) error { return parseTurns(n, &turns) },
		"scenes": func(n ast.Node) error {
			return sequence(n, "scenes", func(n ast.Node) error {
				sc, err := parseScene(n)
				s.scenes = append(s.scenes, sc)
				return err
			})
		},
	})
	if err != nil {
		return nil, invalid(err)
	}
	if len(turns) > 0 {
		s.scenes = append(s.scenes, scene{turns: turns})
	}
	if len(s.scenes) == 0 {
		return nil, invalid(at(root, "the script has neither turns nor scenes"))
	}
	return s, nil
}

func invalid(err error) error {
	return &td.Error{
		Kind: td.Invalid, Hint: "docs/rehearsal.md describes the format",
		Err: fmt.Errorf("read rehearsal script: %w", err),
	}
}

func parseScene(n ast.Node) (scene, error) {
	var sc scene
	var name string // for the reader of the script only
	err := mapping(n, "a scene", fields{
		"name": text(&name),
		"when": func(n ast.Node) error {
			var expr string
			if err := text(&expr)(n); err != nil {
				return err
			}
			re, err := regexp.Compile(expr)
			if err != nil {
				return at(n, "when is not a regular expression: %v", err)
			}
			sc.when = re
			return nil
		},
		"turns": func(n ast.Node) error { return parseTurns(n, &sc.turns) },
	})
	if err == nil && len(sc.turns) == 0 {
		err = at(n, "a scene needs turns")
	}
	return sc, err
}

func parseTurns(n ast.Node, into *[]turn) error {
	err := sequence(n, "turns", func(n ast.Node) error {
		t, err := parseTurn(n)
		*into = append(*into, t)
		return err
	})
	if err != nil {
		return err
	}
	for i, t := range *into {
		if t.repeat == forever && i < len(*into)-1 {
			return at(n, "turn %d repeats forever and is not the last", i+1)
		}
	}
	return nil
}

var stops = []td.StopReason{
	td.EndTurn, td.StopSequence, td.StopToolUse, td.MaxTokens, td.PauseTurn, td.WindowExceeded, td.Refusal,
}

func parseTurn(n ast.Node) (turn, error) {
	t := turn{repeat: 1}
	err := mapping(n, "a turn", fields{
		"text":     text(&t.text),
		"thinking": text(&t.thinking),
		"latency":  duration(&t.latency),
		"expect":   text(&t.expect),
		"chunk": func(n ast.Node) error {
			t.chunk = &chunk{}
			return parseChunk(n, t.chunk)
		},
		"usage": func(n ast.Node) error {
			t.usage = &td.Usage{}
			return parseUsage(n, t.usage)
		},
		"tools": func(n ast.Node) error {
			return sequence(n, "tools", func(n ast.Node) error {
				c, err := parseTool(n)
				t.tools = append(t.tools, c)
				return err
			})
		},
		"faults": func(n ast.Node) error {
			return sequence(n, "faults", func(n ast.Node) error {
				f, err := parseFault(n)
				t.faults = append(t.faults, f)
				return err
			})
		},
		"stop": func(n ast.Node) error {
			var s string
			if err := text(&s)(n); err != nil {
				return err
			}
			if t.stop = td.StopReason(s); !slices.Contains(stops, t.stop) {
				return at(n, "no stop reason %q: it is one of %v", s, stops)
			}
			return nil
		},
		"repeat": func(n ast.Node) error {
			if s, ok := n.(*ast.StringNode); ok && s.Value == "forever" {
				t.repeat = forever
				return nil
			}
			return number(&t.repeat, 1, maxRepeat)(n)
		},
	})
	if err == nil {
		err = t.check(n)
	}
	return t, err
}

// check looks at what a single key cannot show, and fills in the stop reason.
func (t *turn) check(n ast.Node) error {
	if t.text == "" && len(t.tools) == 0 && t.thinking == "" && t.stop == "" {
		return at(n, "a turn needs text, tools or a stop reason")
	}
	if t.stop == "" {
		t.stop = td.EndTurn
		if len(t.tools) > 0 {
			t.stop = td.StopToolUse
		}
	}
	if t.stop == td.StopToolUse && len(t.tools) == 0 {
		return at(n, "stop: tool_use needs tools")
	}
	for _, f := range t.faults {
		if f.Garbage && len(t.tools) == 0 {
			return at(n, "garbage needs a tool call to garble")
		}
	}
	return nil
}

func parseTool(n ast.Node) (toolCall, error) {
	c := toolCall{input: json.RawMessage("{}")}
	err := mapping(n, "a tool call", fields{
		"name": text(&c.name),
		"id":   text(&c.id),
		"input": func(n ast.Node) error {
			v, err := value(n)
			if err != nil {
				return err
			}
			if _, ok := v.(map[string]any); !ok {
				return at(n, "a tool's input is a mapping")
			}
			raw, err := json.Marshal(v)
			if err != nil {
				return at(n, "input: %v", err)
			}
			c.input = raw
			return nil
		},
	})
	if err == nil && c.name == "" {
		err = at(n, "a tool call needs a name")
	}
	return c, err
}

func parseFault(n ast.Node) (Fault, error) {
	var f Fault
	kinds := 0
	one := func(parse func(ast.Node) error) func(ast.Node) error {
		return func(n ast.Node) error { kinds++; return parse(n) }
	}
	err := mapping(n, "a fault", fields{
		"status":      one(number(&f.Status, 400, 599)),
		"retry_after": duration(&f.RetryAfter),
		"message":     text(&f.Message),
		"error":       one(text(&f.Type)),
		"silence":     one(duration(&f.Silence)),
		"drip":        one(duration(&f.Drip)),
		"too_long":    one(number(&f.TooLong, 1, 1<<40)),
		"garbage": one(func(n ast.Node) error {
			b, ok := n.(*ast.BoolNode)
			if !ok || !b.Value {
				return at(n, "write garbage: true, or leave it out")
			}
			f.Garbage = true
			return nil
		}),
		"cut": one(func(n ast.Node) error {
			f.Cut = new(int)
			return number(f.Cut, 0, 1<<30)(n)
		}),
	})
	switch {
	case err != nil:
	case kinds != 1:
		err = at(n, "a fault is one of status, error, cut, garbage, silence, drip and too_long")
	case f.RetryAfter != 0 && f.Status == 0:
		err = at(n, "retry_after goes with a status")
	case f.Message != "" && f.Status == 0:
		err = at(n, "message goes with a status")
	case f.Silence == 0 && f.Drip == 0 && f.Status == 0 && f.Type == "" && f.Cut == nil && !f.Garbage && f.TooLong == 0:
		err = at(n, "a fault needs a value")
	}
	return f, err
}

func parseChunk(n ast.Node, c *chunk) error {
	return mapping(n, "chunk", fields{
		"size":  number(&c.size, 1, 1<<20),
		"delay": duration(&c.delay),
	})
}

func parseUsage(n ast.Node, u *td.Usage) error {
	return mapping(n, "usage", fields{
		"input":       number(&u.Input, 0, 1<<40),
		"output":      number(&u.Output, 0, 1<<40),
		"cache_read":  number(&u.CacheRead, 0, 1<<40),
		"cache_write": number(&u.CacheWrite, 0, 1<<40),
	})
}
