package builtin

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"taskdaemon/internal/redact"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// maxGrepLine is how many characters of a line Grep shows.
const maxGrepLine = 500

type grepInput struct {
	Pattern   string `json:"pattern" jsonschema:"a regular expression (RE2)" min:"1"`
	Path      string `json:"path,omitempty" alias:"file_path,filepath,filename,absolute_path" jsonschema:"the file or folder to search; the workspace if left out"`
	Glob      string `json:"glob,omitempty" jsonschema:"only files whose name matches, like *.go; with a slash the path within the folder must match; with a leading ! those are left out"`
	Mode      string `json:"output_mode,omitempty" jsonschema:"content: the matching lines (default); files: the paths; count: how many lines match in each file" enum:"content,files,count"`
	Fold      bool   `json:"-i,omitempty" jsonschema:"ignore case"`
	After     int    `json:"-A,omitempty" jsonschema:"lines to show after each match" min:"0" max:"100"`
	Before    int    `json:"-B,omitempty" jsonschema:"lines to show before each match" min:"0" max:"100"`
	Around    int    `json:"-C,omitempty" jsonschema:"lines to show before and after each match" min:"0" max:"100"`
	Multiline bool   `json:"multiline,omitempty" jsonschema:"let the pattern match across lines; a dot matches a newline, too"`
	Head      int    `json:"head_limit,omitempty" jsonschema:"show at most so many lines or paths" min:"1"`
}

func grepTool(opts Options) tool.Tool {
	return tool.Define(tool.Tool{
		Name: "Grep",
		Description: "Searches the content of files for a regular expression. Leaves out .git and binary files. " +
			"Matching lines are shown as path:number:text, those around them as path-number-text.",
	}, func(_ context.Context, env *tool.Env, in grepInput) (tool.Call, error) {
		return prepareGrep(opts, env, in)
	}, nil)
}

// search is a Grep call that has been checked.
type search struct {
	grepInput
	base string // relative to the workspace
	re   *regexp.Regexp
}

func prepareGrep(opts Options, env *tool.Env, in grepInput) (tool.Call, error) {
	base, err := folder(env, in.Path)
	if err != nil {
		return tool.Call{}, err
	}
	in.Before, in.After = max(in.Before, in.Around), max(in.After, in.Around)
	if in.Mode == "" {
		in.Mode = "content"
	}
	if in.Mode != "content" {
		in.Before, in.After = 0, 0
	}
	if !doublestar.ValidatePattern(strings.TrimPrefix(in.Glob, "!")) || strings.ContainsRune(in.Glob, 0) {
		return tool.Call{}, td.Errorf(td.Invalid, "the glob %q is malformed", in.Glob)
	}
	if strings.ContainsAny(in.Pattern, "\x00") || !in.Multiline && strings.Contains(in.Pattern, "\n") {
		return tool.Call{}, td.Errorf(td.Invalid, "the pattern holds a newline or NUL; set multiline to match across lines")
	}
	// Compiled here even if ripgrep does the work: both then refuse the same patterns.
	flags := ""
	if in.Fold {
		flags += "i"
	}
	if in.Multiline {
		flags += "ms"
	}
	expr := in.Pattern
	if flags != "" {
		expr = "(?" + flags + ")" + expr
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return tool.Call{}, td.Errorf(td.Invalid, "the pattern is malformed: %w", err)
	}
	s := search{in, base, re}
	return tool.Call{
		Effect: td.Pure, Title: title("Grep", in.Pattern), Paths: env.Root.Reads(base), Sifts: true,
		Run: func(ctx context.Context) (td.ToolResult, error) {
			out := &findings{secrets: env.Secrets, limit: in.Head}
			if err := s.run(ctx, opts.Ripgrep, env, out); err != nil {
				return td.ToolResult{}, err
			}
			return td.ToolResult{Content: out.text()}, nil
		},
	}, nil
}

// run searches the files that ripgrep finds in a folder, or all of them. Either way they are opened and searched here.
func (s search) run(ctx context.Context, ripgrep string, env *tool.Env, out *findings) error {
	info, err := env.Root.Lstat(s.base)
	if err != nil {
		return fmt.Errorf("search %s: %w", s.base, err)
	}
	if ripgrep != "" && info.IsDir() {
		return s.ripgrep(ctx, ripgrep, env, out)
	}
	return s.builtin(ctx, env, out)
}

// wants reports whether the glob lets a file in; name is relative to the searched folder.
func (s search) wants(name string) bool {
	glob, not := strings.CutPrefix(s.Glob, "!")
	if glob == "" {
		return true
	}
	if glob, rooted := strings.CutPrefix(glob, "/"); rooted || strings.Contains(glob, "/") {
		return doublestar.MatchUnvalidated(glob, name) != not
	}
	// Without a slash it may name the file or any folder above it when it excludes.
	if not {
		return !slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool { return doublestar.MatchUnvalidated(glob, part) })
	}
	return doublestar.MatchUnvalidated(glob, path.Base(name))
}

// findings collects what is shown, up to its limits.
type findings struct {
	secrets *redact.Redactor
	b       strings.Builder
	chars   int
	entries int
	limit   int    // of entries; zero: none
	full    bool   // nothing more is taken
	apart   bool   // what comes next is not next to what came before
	notes   string // what was left out and why
}

// add takes one line; false says that it is enough.
func (f *findings) add(line string) bool {
	if f.full {
		return false
	}
	if f.apart && f.entries > 0 {
		f.b.WriteString("--\n")
		f.chars += 3
	}
	f.apart = false
	size := utf8.RuneCountInString(line) + 1
	if f.limit > 0 && f.entries == f.limit || f.chars+size > tool.MaxOutput {
		f.full = true
		return false
	}
	f.b.WriteString(line + "\n")
	f.chars += size
	f.entries++
	return true
}

// separate draws a line before what comes next, if anything does.
func (f *findings) separate() { f.apart = true }

func (f *findings) note(format string, args ...any) {
	f.notes += "[" + fmt.Sprintf(format, args...) + "]\n"
}

func (f *findings) text() string {
	body := strings.TrimSuffix(f.b.String(), "--\n") // the piece after it was too much
	switch {
	case f.full:
		f.note("there is more; the first %d entries are shown, make the search narrower", f.entries)
	case f.entries == 0:
		body = "(nothing found)\n"
	}
	return body + f.notes
}

// showLine is a line of a file as it is shown.
func (f *findings) showLine(file string, number int, mark byte, line []byte) string {
	text := strings.ReplaceAll(f.secrets.String(tool.Clean(line)), "\n", "\uFFFD")
	if r := []rune(text); len(r) > maxGrepLine {
		text = string(r[:maxGrepLine]) + " [cut]"
	}
	return fmt.Sprintf("%s%c%d%c%s", cleanPath(file), mark, number, mark, text)
}
