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
		if got := render(Offer{}, res).Content; got != want {
			t.Errorf("with the words %q: %q, want %q", text, got, want)
		}
	}
}
