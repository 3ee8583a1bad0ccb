package builtin

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// maxGlob is how many paths Glob shows.
const maxGlob = 1000

type globInput struct {
	Pattern string `json:"pattern" jsonschema:"like **/*.go or src/{a,b}/*.ts" min:"1"`
	Path    string `json:"path,omitempty" alias:"directory,dir" jsonschema:"the folder to look in; the workspace if left out"`
}

func globTool() tool.Tool {
	return tool.Define(tool.Tool{
		Name:        "Glob",
		Description: "Lists the files whose path matches a pattern, newest first, at most 1000. Leaves out .git.",
	}, prepareGlob, nil)
}

func prepareGlob(_ context.Context, env *tool.Env, in globInput) (tool.Call, error) {
	base, err := folder(env, in.Path)
	if err != nil {
		return tool.Call{}, err
	}
	pattern := path.Clean(in.Pattern)
	if path.IsAbs(in.Pattern) {
		return tool.Call{}, td.Errorf(td.Invalid, "the pattern must be relative; name the folder in path")
	}
	if slices.Contains(strings.Split(pattern, "/"), "..") {
		return tool.Call{}, td.Errorf(td.Refused, "the pattern leads outside the folder")
	}
	if !doublestar.ValidatePattern(pattern) {
		return tool.Call{}, td.Errorf(td.Invalid, "the pattern %q is malformed", in.Pattern)
	}
	return tool.Call{
		Effect: td.Pure, Title: title("Glob", in.Pattern), Paths: env.Root.Reads(base), Sifts: true,
		Run: func(ctx context.Context) (td.ToolResult, error) { return glob(ctx, env, base, pattern) },
	}, nil
}

// folder is the folder a search starts in.
func folder(env *tool.Env, dir string) (string, error) {
	if dir == "" {
		return ".", nil
	}
	return env.Root.Rel(dir)
}

type aged struct {
	path string
	at   time.Time
}

func glob(ctx context.Context, env *tool.Env, base, pattern string) (td.ToolResult, error) {
	var found []aged
	err := walk(ctx, env, base, func(name string, d fs.DirEntry) error {
		within := name
		if base != "." {
			within = strings.TrimPrefix(name, base+"/")
		}
		if !doublestar.MatchUnvalidated(pattern, within) {
			return nil
		}
		if info, err := d.Info(); err == nil {
			found = append(found, aged{name, info.ModTime()})
		}
		return nil
	})
	if err != nil {
		return td.ToolResult{}, err
	}
	if len(found) == 0 {
		return td.ToolResult{Content: "(no file matches)"}, nil
	}
	slices.SortFunc(found, func(a, b aged) int {
		if c := b.at.Compare(a.at); c != 0 {
			return c
		}
		return strings.Compare(a.path, b.path)
	})
	var b strings.Builder
	for _, f := range found[:min(len(found), maxGlob)] {
		b.WriteString(cleanPath(f.path) + "\n")
	}
	if len(found) > maxGlob {
		fmt.Fprintf(&b, "[%d files match; the newest %d are shown, make the pattern narrower]\n", len(found), maxGlob)
	}
	return td.ToolResult{Content: b.String()}, nil
}

// walk visits the files under base, in lexical order, without .git and without following symlinks, so
// that no loop is entered and nothing outside is seen, and without what is hidden. base may be a file itself.
func walk(ctx context.Context, env *tool.Env, base string, visit func(name string, d fs.DirEntry) error) error {
	err := env.Root.Walk(base, func(name string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch {
		case err != nil && name == base:
			return tool.Failed("open", base, err)
		case name == base && d.Type()&fs.ModeSymlink != 0: // it was resolved, and is another by now
			return tool.Failed("open", base, &fs.PathError{Op: "open", Path: base, Err: beneath.ErrLink})
		case err != nil:
			return nil // what cannot be read is left out
		case d.IsDir() && (strings.EqualFold(d.Name(), ".git") || env.Hides(name)):
			return fs.SkipDir
		case d.IsDir() || env.Hides(name) || name != base && strings.EqualFold(d.Name(), ".git"): // of a worktree it is a file
			return nil
		}
		return visit(name, d)
	})
	if err != nil {
		return fmt.Errorf("search %s: %w", base, err)
	}
	return nil
}

// cleanPath makes a file's name fit to be shown on one line.
func cleanPath(p string) string { return strings.ReplaceAll(tool.Clean([]byte(p)), "\n", "\uFFFD") }
