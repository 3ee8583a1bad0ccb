package builtin

import (
	"context"
	"fmt"
	"strings"

	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

type writeInput struct {
	Path    string `json:"path" jsonschema:"the file, relative to the workspace or absolute" min:"1"`
	Content string `json:"content" jsonschema:"the whole new content"`
}

func writeTool() tool.Tool {
	return tool.Define(tool.Tool{
		Name: "Write",
		Description: "Writes a file, making the folders it needs. An existing file is replaced as a whole " +
			"and must have been read before; to change a part of it use Edit.",
	}, prepareWrite, resolveWrite)
}

func prepareWrite(_ context.Context, env *tool.Env, in writeInput) (tool.Call, error) {
	rel, err := env.Root.Writable(in.Path)
	if err != nil {
		return tool.Call{}, err
	}
	before, _, err := look(env.Root.Root(), rel)
	if err != nil {
		return tool.Call{}, err
	}
	did := "Created"
	if before != "" {
		if !known(env, rel) {
			return tool.Call{}, td.Errorf(td.Conflict, "%s exists and you have not read it; read it first, or it would be lost unseen", rel)
		}
		if strings.Contains(in.Content, env.Secrets.Mark()) {
			had, err := readWhole(env.Root, rel)
			if err != nil {
				return tool.Call{}, err
			}
			if err := unmarked(env, rel, had, in.Content); err != nil {
				return tool.Call{}, err
			}
		}
		did = "Replaced"
	}
	said := fmt.Sprintf("%s %s (%d lines, %d bytes).", did, rel, lines(in.Content), len(in.Content))
	c := newChange(env, rel, before, []byte(in.Content), said)
	return c.call(env, title("Write", rel), []byte(in.Content))
}

func resolveWrite(_ context.Context, env *tool.Env, _ writeInput, intent td.Intent) (tool.Resolution, error) {
	return resolveChange(env, intent)
}

// known reports whether the model has seen the file.
func known(env *tool.Env, rel string) bool { return env.Known != nil && env.Known(rel) }

// lines counts the lines of a text, a last one without an end included.
func lines(s string) int {
	n := strings.Count(s, "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		n++
	}
	return n
}
