package mirror

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"taskdaemon/internal/td"
)

// page is task.md: the task at a glance.
func (s *state) page() string {
	var b strings.Builder
	item := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "- %s: %s\n", name, oneLine(value, 500))
		}
	}
	fmt.Fprintf(&b, "# %s\n\n", oneLine(orElse(s.Spec.Title, "(no title)"), 500))
	item("task", s.Spec.Handle+" ("+string(s.Task)+")")
	item("workspace", s.Spec.Dir)
	item("state", s.standing())
	item("since", stamp(s.Live.Status.Since))
	item("turns", fmt.Sprint(s.Live.Turns))
	item("cost", fmt.Sprintf("$%.4f", s.Live.Cost.Dollars()))
	item("model", s.Live.LastModel)
	item("mode", string(s.Spec.Mode))
	item("validator", s.Spec.Validator)
	item("created", stamp(s.Spec.CreatedAt)+" "+s.Spec.CreatedBy)
	fmt.Fprintf(&b, "\n## Prompt\n\n%s\n", s.Spec.Prompt)
	return b.String()
}

func (s *state) standing() string {
	st := s.Live.Status
	word, why := string(st.State), st.Reason
	switch {
	case st.Waiting != nil:
		why = string(st.Waiting.Kind) + ": " + st.Waiting.Prompt
	case st.Completed != nil:
		why = st.Completed.Summary
	case st.Failed != nil:
		why = st.Failed.Error
	}
	if why == "" {
		return word
	}
	return word + " (" + why + ")"
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// blocks are the parts of a message as a person reads them.
func blocks(m td.Message) []string {
	var parts []string
	for i, b := range m.Blocks {
		if i > 0 {
			parts = append(parts, "\n")
		}
		switch b.Type {
		case td.TextBlock:
			parts = append(parts, b.Text, "\n")
		case td.ThinkingBlock:
			parts = append(parts, "## Thinking\n\n")
			parts = append(parts, fenced("text", b.Text)...)
		case td.RedactedThinkingBlock:
			parts = append(parts, "## Thinking\n\n(sealed by the provider)\n")
		case td.ToolUseBlock:
			parts = append(parts, "## Call: ", oneLine(b.Name, 80), "\n\n")
			if b.Malformed != "" {
				parts = append(parts, "The input was not valid JSON:\n\n")
				parts = append(parts, fenced("text", b.Malformed)...)
				continue
			}
			parts = append(parts, fenced("json", pretty(b.Input))...)
		case td.ToolResultBlock:
			parts = append(parts, "## Result\n\n")
			parts = append(parts, fenced("text", b.Text)...)
		default:
			parts = append(parts, "## ", oneLine(string(b.Type), 80), "\n")
		}
	}
	return parts
}

// fenced puts text between fences that are longer than any in it.
func fenced(lang, text string) []string {
	longest, n := 2, 0
	for i := range len(text) {
		if text[i] != '`' {
			n = 0
			continue
		}
		n++
		longest = max(longest, n)
	}
	fence := strings.Repeat("`", longest+1)
	end := "\n" + fence + "\n"
	if text == "" || strings.HasSuffix(text, "\n") {
		end = end[1:]
	}
	return []string{fence + lang + "\n", text, end}
}

func pretty(raw json.RawMessage) string {
	var out bytes.Buffer
	if json.Indent(&out, raw, "", "  ") != nil {
		return string(raw)
	}
	return out.String()
}

// telling are the inputs that say most about a call, the first that is there is shown.
var telling = []string{"command", "file_path", "path", "pattern", "url", "question", "title", "prompt", "summary", "reason"}

// gist is a tool call's input in a few words.
func gist(raw json.RawMessage) string {
	var in map[string]json.RawMessage
	if json.Unmarshal(raw, &in) == nil {
		for _, k := range telling {
			var v string
			if json.Unmarshal(in[k], &v) == nil && v != "" {
				return v
			}
		}
		if len(in) == 0 {
			return ""
		}
	}
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil {
		return ""
	}
	return out.String()
}

// subject is a commit's first line: short, and never empty.
func subject(s string) string { return orElse(strings.TrimRight(oneLine(s, 100), " :"), "checkpoint") }

// oneLine makes s one printable line of at most n runes.
func oneLine(s string, n int) string {
	var b strings.Builder
	gap, used := false, 0
	for _, r := range s {
		if r == utf8.RuneError || unicode.IsSpace(r) || !unicode.IsPrint(r) {
			gap = b.Len() > 0
			continue
		}
		if used >= n-1 {
			b.WriteRune('…')
			break
		}
		if gap {
			b.WriteByte(' ')
			used++
		}
		b.WriteRune(r)
		gap = false
		used++
	}
	return b.String()
}

// fitName reports whether name can be a branch as it stands.
func fitName(name string) bool {
	return len(name) > 2 && name[0] != '-' && name == safeName(name)
}

// safeName keeps of a name what is harmless in file names and refs everywhere.
func safeName(name string) string {
	out := make([]byte, 0, 40)
	for i := 0; i < len(name) && len(out) < 40; i++ {
		c := name[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			out = append(out, c)
		}
	}
	return orElse(string(out), "unnamed")
}

func orSomeone(who string) string { return orElse(who, "someone") }

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
