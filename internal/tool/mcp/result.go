package mcp

import (
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// render is an answer in words, bounded as all output of tools is.
func render(o Offer, res *sdk.CallToolResult) td.ToolResult {
	if res.NeedsInput() {
		return failed("The MCP server %s wants to be told more before it carries out %s, which is not possible here.", o.Server, o.Tool)
	}
	var b strings.Builder
	for _, c := range res.Content {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		words(&b, c)
	}
	if b.Len() == 0 && res.StructuredContent != nil { // otherwise the words say the same
		if raw, err := json.MarshalIndent(res.StructuredContent, "", "  "); err == nil {
			b.Write(raw)
		}
	}
	text := tool.Output(sandbox.ProcessResult{Head: []byte(b.String())})
	if strings.TrimSpace(text) == "" {
		text = "(no output)"
	}
	return td.ToolResult{Content: text, IsError: res.IsError}
}

// words writes a piece of an answer: text as it is, all else described.
func words(b *strings.Builder, c sdk.Content) {
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
