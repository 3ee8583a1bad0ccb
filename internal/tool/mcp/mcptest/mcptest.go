// Package mcptest is an MCP server for tests that need a real one: a program of its own that speaks over its
// standard input and output. It keeps notes in a file, so that a test can count outside of it what was done.
package mcptest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// name is what the test binary is called when it is to be the server.
const name = "notes-server"

// Install puts the server into dir, as a link to the test binary that calls it, and gives its path.
func Install(dir string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the test binary: %w", err)
	}
	path := filepath.Join(dir, name)
	if err := os.Symlink(self, path); err != nil {
		return "", fmt.Errorf("install the server: %w", err)
	}
	return path, nil
}

// Main serves if this process was started as the server, and reports whether it was. TestMain calls it first.
func Main() bool {
	if filepath.Base(os.Args[0]) != name {
		return false
	}
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: notes-server FILE")
		os.Exit(2)
	}
	if err := server(os.Args[1]).Run(context.Background(), &sdk.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return true
}

type note struct {
	Text string `json:"text" jsonschema:"one line"`
}

// server keeps its notes in file.
func server(file string) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "notes", Version: "1.0"}, nil)
	add := func(tool, about string, readOnly bool, do func(note) (string, error)) {
		sdk.AddTool(s, &sdk.Tool{Name: tool, Description: about, Annotations: &sdk.ToolAnnotations{ReadOnlyHint: readOnly}},
			func(_ context.Context, _ *sdk.CallToolRequest, in note) (*sdk.CallToolResult, any, error) {
				out, err := do(in)
				if err != nil {
					return nil, nil, err
				}
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: out}}}, nil, nil
			})
	}
	add("write", "Writes a note.", false, func(in note) (string, error) {
		return "noted " + in.Text, write(file, in.Text)
	})
	add("find", "Says whether there is such a note.", true, func(in note) (string, error) {
		raw, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		return fmt.Sprintf("%q is in %s", in.Text, raw), nil
	})
	add("die", "Writes a note and dies before it answers.", false, func(in note) (string, error) {
		if err := write(file, in.Text); err != nil {
			return "", err
		}
		fmt.Fprintln(os.Stderr, "out of ink")
		os.Exit(7)
		return "", nil
	})
	add("wait", "Writes a note and answers when the file beside it, with .go at its end, is there.", false, func(in note) (string, error) {
		if err := write(file, in.Text); err != nil {
			return "", err
		}
		for {
			if _, err := os.Stat(file + ".go"); err == nil {
				return "waited with " + in.Text, nil
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	// A schema that no model's API would take: the server lies about it.
	s.AddTool(&sdk.Tool{Name: "lies", Description: "Has a schema that cannot be used.", InputSchema: json.RawMessage(`{"type":"object","properties":{"a":{"$ref":"#/nowhere"}}}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return nil, errors.New("never")
		})
	return s
}

func write(file, text string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, text)
	return errors.Join(err, f.Close())
}
