package mcp

import (
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestStructuredContentIsToldOnce(t *testing.T) {
	data := map[string]any{"sheep": float64(42)}
	for text, want := range map[string]string{
		`{"sheep": 42}`: `{"sheep": 42}`,
		"counted":       "counted\n{\n  \"sheep\": 42\n}",
		"":              "{\n  \"sheep\": 42\n}",
	} {
		res := &sdk.CallToolResult{StructuredContent: data, Content: []sdk.Content{&sdk.TextContent{Text: text}}}
		if got := unfenced(t, render(Offer{}, res)); got != want {
			t.Errorf("with the words %q: %q, want %q", text, got, want)
		}
	}
}

func TestWhatAServerHidesIsShown(t *testing.T) {
	res := render(Offer{Server: "helper"}, &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "a\u202eb\u200bc\U000E0041"}}})
	if got := unfenced(t, res); got != `a\u{202e}b\u{200b}c\u{e0041}` || !res.Untrusted {
		t.Errorf("got %+q, untrusted %v", got, res.Untrusted)
	}
}
