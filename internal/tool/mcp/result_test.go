package mcp

import (
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"taskdaemon/internal/redact"
	"taskdaemon/internal/tool"
)

func TestStructuredContentIsToldOnce(t *testing.T) {
	data := map[string]any{"sheep": float64(42)}
	for text, want := range map[string]string{
		`{"sheep": 42}`: `{"sheep": 42}`,
		"counted":       "counted\n{\n  \"sheep\": 42\n}",
		"":              "{\n  \"sheep\": 42\n}",
	} {
		res := &sdk.CallToolResult{StructuredContent: data, Content: []sdk.Content{&sdk.TextContent{Text: text}}}
		if got := unfenced(t, render(nil, Offer{}, res)); got != want {
			t.Errorf("with the words %q: %q, want %q", text, got, want)
		}
	}
}

// Servers that wrap what they return say it twice all the same.
func TestWrappedContentIsToldOnce(t *testing.T) {
	for _, c := range []struct {
		data  any
		texts []string
		once  bool
	}{
		{"forty-two", []string{"forty-two"}, true},
		{float64(42), []string{"42"}, true},
		{[]any{"a", map[string]any{"b": float64(1)}}, []string{"a", `{"b":1}`}, true},
		{[]any{"a", "b"}, []string{"a"}, false},
		{"forty-two", []string{"counted"}, false},
	} {
		res := &sdk.CallToolResult{StructuredContent: map[string]any{"result": c.data}}
		for _, text := range c.texts {
			res.Content = append(res.Content, &sdk.TextContent{Text: text})
		}
		if got := unfenced(t, render(nil, Offer{}, res)); strings.Contains(got, "result") == c.once {
			t.Errorf("%v with the words %q: %q", c.data, c.texts, got)
		}
	}
}

func TestWhatAServerHidesIsShown(t *testing.T) {
	res := render(nil, Offer{Server: "helper"}, &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "a\u202eb\u200bc\U000E0041"}}})
	if got := unfenced(t, res); got != `a\u{202e}b\u{200b}c\u{e0041}` || !res.Untrusted {
		t.Errorf("got %+q, untrusted %v", got, res.Untrusted)
	}
}

// A known value that a cut goes through is taken out before, from the words of a server and from what describes other things.
func TestAnswersAreCutWithoutSecrets(t *testing.T) {
	const key = "zqSEKRETvalue98765xyz"
	for _, n := range []int{tool.MaxOutput / 2, 500 * 2 / 3} {
		for beyond := 1; beyond < len(key); beyond++ {
			text := strings.Repeat(".", n+beyond-len(key)) + key
			for _, c := range []sdk.Content{&sdk.TextContent{Text: text + strings.Repeat(".", 2*tool.MaxOutput)}, &sdk.ResourceLink{URI: text + strings.Repeat(".", 600), Name: "x"}} {
				got := render(redact.New(key), Offer{}, &sdk.CallToolResult{Content: []sdk.Content{c}}).Content
				if strings.Contains(got, key[:8]) || strings.Contains(got, key[len(key)-8:]) {
					t.Fatalf("%T, %d beyond %d: a part of the key is left", c, beyond, n)
				}
			}
		}
	}
}
