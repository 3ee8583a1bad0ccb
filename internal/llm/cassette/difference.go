package cassette

import (
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/td"
)

// like counts what two requests have in common, from the front.
func like(a, b request) int {
	n := 0
	if a.Model == b.Model {
		n++
	}
	if a.System == b.System {
		n += 2
	}
	for i := range min(len(a.Messages), len(b.Messages)) {
		if encode(a.Messages[i]) != encode(b.Messages[i]) {
			break
		}
		n += 2
	}
	if len(a.Messages) == len(b.Messages) {
		n++
	}
	return n
}

// difference says in words where two requests first part.
func difference(recorded, asked request) string {
	switch {
	case recorded.Model != asked.Model:
		return fmt.Sprintf("its model is %q, now it is %q", recorded.Model, asked.Model)
	case recorded.MaxTokens != asked.MaxTokens:
		return fmt.Sprintf("its max_tokens is %d, now it is %d", recorded.MaxTokens, asked.MaxTokens)
	case recorded.Temperature != asked.Temperature:
		return fmt.Sprintf("its temperature is %q, now it is %q", recorded.Temperature, asked.Temperature)
	case recorded.Thinking != asked.Thinking:
		return fmt.Sprintf("its thinking is %d, now it is %d", recorded.Thinking, asked.Thinking)
	case recorded.System != asked.System:
		return "its system prompt " + parting(recorded.System, asked.System)
	}
	if d := differentTools(recorded.Tools, asked.Tools); d != "" {
		return d
	}
	for i := range min(len(recorded.Messages), len(asked.Messages)) {
		if a, b := encode(recorded.Messages[i]), encode(asked.Messages[i]); a != b {
			return fmt.Sprintf("its message %d (%s) %s", i+1, asked.Messages[i].Role, parting(a, b))
		}
	}
	return fmt.Sprintf("it has %d messages, now there are %d", len(recorded.Messages), len(asked.Messages))
}

func differentTools(recorded, asked []llm.Tool) string {
	names := func(tools []llm.Tool) []string {
		var out []string
		for _, t := range tools {
			out = append(out, t.Name)
		}
		return out
	}
	if a, b := names(recorded), names(asked); !slices.Equal(a, b) {
		return fmt.Sprintf("its tools are %v, now they are %v", a, b)
	}
	for i := range asked {
		if a, b := encode(recorded[i]), encode(asked[i]); a != b {
			return fmt.Sprintf("its tool %s %s", asked[i].Name, parting(a, b))
		}
	}
	return ""
}

func encode[T td.Message | llm.Tool](v T) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// parting shows both texts from a little before the place where they part.
func parting(recorded, asked string) string {
	at := 0
	for at < len(recorded) && at < len(asked) && recorded[at] == asked[at] {
		at++
	}
	return fmt.Sprintf("says %q where now it says %q", around(recorded, at), around(asked, at))
}

func around(s string, at int) string {
	from, to := max(0, at-20), min(len(s), at+40)
	for from > 0 && !utf8.RuneStart(s[from]) {
		from--
	}
	for to < len(s) && !utf8.RuneStart(s[to]) {
		to++
	}
	return s[from:to]
}
