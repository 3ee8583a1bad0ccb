package mcp

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"taskdaemon/internal/fence"
	"taskdaemon/internal/redact"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// render is an answer in words, bounded as all output of tools is.
func render(secrets *redact.Redactor, o Offer, res *sdk.CallToolResult) td.ToolResult {
	if res.NeedsInput() {
		return failed("The MCP server %s wants to be told more before it carries out %s, which is not possible here.", o.Server, o.Tool)
	}
	var b strings.Builder
	for _, c := range res.Content {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		words(secrets, &b, c)
	}
	if res.StructuredContent != nil && !repeats(res.Content, res.StructuredContent) {
		if raw, err := json.MarshalIndent(res.StructuredContent, "", "  "); err == nil {
			if b.Len() > 0 {
				b.WriteByte('\n')
			}
			b.Write(raw)
		}
	}
	if strings.TrimSpace(b.String()) == "" {
		return td.ToolResult{Content: "(no output)", IsError: res.IsError}
	}
	return stranger(secrets, o, fence.Visible(b.String()), res.IsError)
}

// stranger is what a server said, as the model is to take it: as data, whoever wrote it.
func stranger(secrets *redact.Redactor, o Offer, text string, isError bool) td.ToolResult {
	text = tool.Text(secrets, text)
	return td.ToolResult{Content: fence.Text("What the MCP server "+o.Server+" said", text), IsError: isError, Untrusted: true}
}

// repeats reports whether the pieces are data once more. Servers should send both, as the same JSON; many wrap the data in an object
// of one field, and send a piece for each entry of a list.
func repeats(pieces []sdk.Content, data any) bool {
	var texts []string
	for _, c := range pieces {
		if text, ok := c.(*sdk.TextContent); ok {
			texts = append(texts, text.Text)
		}
	}
	if sayAll(texts, data) {
		return true
	}
	if object, ok := data.(map[string]any); ok && len(object) == 1 {
		for _, wrapped := range object {
			return sayAll(texts, wrapped)
		}
	}
	return false
}

// sayAll reports whether one text is the data, or each text the entry of a list at its place.
func sayAll(texts []string, data any) bool {
	if slices.ContainsFunc(texts, func(text string) bool { return sameAs(text, data) }) {
		return true
	}
	list, ok := data.([]any)
	if !ok || len(list) != len(texts) {
		return false
	}
	for i, text := range texts {
		if !sameAs(text, list[i]) {
			return false
		}
	}
	return true
}

func sameAs(text string, data any) bool {
	var said any
	return data == text || json.Unmarshal([]byte(text), &said) == nil && reflect.DeepEqual(said, data)
}

// words writes a piece of an answer: text as it is, all else described.
func words(secrets *redact.Redactor, b *strings.Builder, c sdk.Content) {
	cut := func(s string, n int) string { return cut(secrets.String(s), n) }
	switch c := c.(type) {
	case *sdk.TextContent:
		b.WriteString(c.Text)
	case *sdk.ImageContent:
		fmt.Fprintf(b, "[an image, %s, %d bytes, which cannot be shown here]", kind(c.MIMEType), len(c.Data))
	case *sdk.AudioContent:
		fmt.Fprintf(b, "[a recording, %s, %d bytes, which cannot be played here]", kind(c.MIMEType), len(c.Data))
	case *sdk.ResourceLink:
		fmt.Fprintf(b, "[a link to %s", cut(c.URI, 500))
		for _, s := range []string{c.Title, c.Name, c.Description} {
			if s != "" {
				fmt.Fprintf(b, ", %s", cut(s, 300))
			}
		}
		b.WriteByte(']')
	case *sdk.EmbeddedResource:
		switch {
		case c.Resource == nil:
			b.WriteString("[an empty resource]")
		case c.Resource.Text != "":
			fmt.Fprintf(b, "[%s]\n%s", cut(c.Resource.URI, 500), c.Resource.Text)
		default:
			fmt.Fprintf(b, "[the resource %s, %s, %d bytes, which cannot be shown here]", cut(c.Resource.URI, 500), kind(c.Resource.MIMEType), len(c.Resource.Blob))
		}
	default:
		fmt.Fprintf(b, "[something that cannot be shown here: %T]", c)
	}
}

func kind(mime string) string {
	if mime == "" {
		return "of an unknown kind"
	}
	return cut(mime, 100)
}
