package builtin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

type writeInput struct {
	Path    string `json:"path" alias:"file_path,filepath,filename,absolute_path" jsonschema:"the file, relative to the workspace or absolute" min:"1"`
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
	before, err := replaced(env, rel)
	if err != nil {
		return tool.Call{}, err
	}
	did := "Created"
	if before != "" {
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
	call, err := c.call(env, title("Write", rel), []byte(in.Content))
	call.Diff = func() string {
		var had []byte
		if before != "" {
			if had, err = readWhole(env.Root, rel); err != nil {
				return ""
			}
		}
		return shownDiff(env, rel, had, []byte(in.Content))
	}
	return call, err
}

// replaced is the hash of the content that a file has now; empty when there is no such file. It must have been read.
func replaced(env *tool.Env, rel string) (string, error) {
	dir, err := env.Root.Folder(path.Dir(rel))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer dir.Close()
	if info, err := dir.Lstat(path.Base(rel)); err == nil && info.Mode().IsRegular() && !known(env, rel) {
		return "", td.Errorf(td.Conflict, "%s exists and you have not read it; read it first, or it would be lost unseen", rel)
	}
	before, _, err := look(dir, rel)
	return before, err
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
