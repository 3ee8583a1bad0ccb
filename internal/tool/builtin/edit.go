package builtin

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	udiff "github.com/aymanbagabas/go-udiff"

	"taskdaemon/internal/fence"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// The sizes of what Edit takes and shows.
const (
	maxEditSize = 16 << 20
	maxDiffSize = 1 << 20 // of a larger file no diff is made
	maxDiff     = 4000    // characters of a diff
)

type editInput struct {
	Path string `json:"path" alias:"file_path,filepath,filename,absolute_path" jsonschema:"the file, relative to the workspace or absolute" min:"1"`
	edit
}

// edit is one replacement in a file.
type edit struct {
	Old string `json:"old_string" alias:"old_str,oldString" jsonschema:"the exact text to replace, without line numbers" min:"1"`
	New string `json:"new_string" alias:"new_str,newString" jsonschema:"what to put in its place"`
	All bool   `json:"replace_all,omitempty" jsonschema:"replace every occurrence; without it the text must occur once"`
}

type multiEditInput struct {
	Path  string `json:"path" alias:"file_path,filepath,filename,absolute_path" jsonschema:"the file, relative to the workspace or absolute" min:"1"`
	Edits []edit `json:"edits" jsonschema:"made one after the other; all or none" min:"1"`
}

func editTool() tool.Tool {
	return tool.Define(tool.Tool{
		Name:        "Edit",
		Description: "Replaces a piece of text in a file that you have read. The text must occur exactly once, unless replace_all is set.",
	}, func(_ context.Context, env *tool.Env, in editInput) (tool.Call, error) {
		return prepareEdit(env, in.Path, []edit{in.edit})
	}, func(_ context.Context, env *tool.Env, _ editInput, intent td.Intent) (tool.Resolution, error) {
		return resolveChange(env, intent)
	})
}

func multiEditTool() tool.Tool {
	return tool.Define(tool.Tool{
		Name:        "MultiEdit",
		Description: "Makes several replacements in one file that you have read, one after the other. If one cannot be made, none is.",
	}, func(_ context.Context, env *tool.Env, in multiEditInput) (tool.Call, error) {
		return prepareEdit(env, in.Path, in.Edits)
	}, func(_ context.Context, env *tool.Env, _ multiEditInput, intent td.Intent) (tool.Resolution, error) {
		return resolveChange(env, intent)
	})
}

func prepareEdit(env *tool.Env, path string, edits []edit) (tool.Call, error) {
	rel, err := env.Root.Writable(path)
	if err != nil {
		return tool.Call{}, err
	}
	before, err := readWhole(env.Root, rel)
	if err != nil {
		return tool.Call{}, err
	}
	if !known(env, rel) {
		return tool.Call{}, td.Errorf(td.Conflict, "you have not read %s; read it first", rel)
	}
	after, made := before, 0
	for i, e := range edits {
		if err := unmarked(env, rel, before, e.Old+"\n"+e.New); err != nil {
			return tool.Call{}, err
		}
		next, n, err := e.apply(after)
		if err != nil && len(edits) > 1 {
			return tool.Call{}, fmt.Errorf("edit %d of %d in %s: %w", i+1, len(edits), rel, err)
		}
		if err != nil {
			return tool.Call{}, fmt.Errorf("edit %s: %w", rel, err)
		}
		after, made = next, made+n
	}
	if bytes.Equal(before, after) {
		return tool.Call{}, td.Errorf(td.Invalid, "edit %s: nothing would change", rel)
	}
	if len(after) > maxEditSize {
		return tool.Call{}, td.Errorf(td.Invalid, "edit %s: it would grow beyond %d bytes", rel, maxEditSize)
	}
	c := newChange(env, rel, hash(before), after, editSaid(env, rel, made, before, after))
	call, err := c.call(env, title("Edit", rel), after)
	call.Diff = func() string { return shownDiff(env, rel, before, after) }
	return call, err
}

// maxShownDiff bounds the diff that a request carries, in characters.
const maxShownDiff = 16 << 10

// shownDiff is what would change, for the person who is asked.
func shownDiff(env *tool.Env, rel string, before, after []byte) string {
	if len(before)+len(after) > maxEditSize {
		return fmt.Sprintf("[%s is too large for a diff: %d bytes, then %d]", rel, len(before), len(after))
	}
	text := fence.Spell(env.Secrets.String(udiff.Unified(rel, rel, string(before), string(after))))
	if diff := []rune(text); len(diff) > maxShownDiff {
		cut := string(diff[:maxShownDiff])
		return cut[:strings.LastIndexByte(cut, '\n')+1] + "[the rest of the diff is left out]"
	}
	return text
}

// readWhole is the content of a file that is small enough to edit.
func readWhole(w *tool.Workspace, rel string) ([]byte, error) {
	f, info, err := w.Open(rel)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size() > maxEditSize {
		return nil, td.Errorf(td.Invalid, "%s is too large to edit: %d bytes", rel, info.Size())
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxEditSize+1))
	if err != nil {
		return nil, td.Errorf(td.Storage, "read %s: %w", rel, err)
	}
	return raw, nil
}

// apply makes the edit in text and counts its replacements. A model sees no carriage returns, so in a
// file whose lines end with them its newlines stand for both.
func (e edit) apply(text []byte) ([]byte, int, error) {
	from, to := []byte(e.Old), []byte(e.New)
	crlf := bytes.Count(text, []byte("\r\n"))
	n := bytes.Count(text, from)
	switch {
	case crlf > 0 && n == 0:
		from, to = withCRLF(from), withCRLF(to)
		n = bytes.Count(text, from)
	case crlf > 0 && crlf == bytes.Count(text, []byte("\n")) && !bytes.HasSuffix(from, []byte("\r")):
		to = withCRLF(to)
	}
	switch {
	case n == 0:
		return nil, 0, td.Errorf(td.NotFound, "not found: old_string does not occur in the file")
	case n > 1 && !e.All:
		return nil, 0, td.Errorf(td.Ambiguous, "ambiguous, %d matches: give more of the text around it, or set replace_all", n)
	case bytes.Equal(from, to):
		return nil, 0, td.Errorf(td.Invalid, "old_string and new_string are the same")
	}
	return bytes.ReplaceAll(text, from, to), n, nil
}

func withCRLF(s []byte) []byte {
	return bytes.ReplaceAll(bytes.ReplaceAll(s, []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r\n"))
}

// editSaid is the result of an edit: how many replacements, and a short diff.
func editSaid(env *tool.Env, rel string, made int, before, after []byte) string {
	said := fmt.Sprintf("Edited %s, 1 replacement.", rel)
	if made != 1 {
		said = fmt.Sprintf("Edited %s, %d replacements.", rel, made)
	}
	if len(before)+len(after) > maxDiffSize {
		return said
	}
	diff := []rune(env.Secrets.String(tool.Clean([]byte(udiff.Unified(rel, rel, string(before), string(after))))))
	if len(diff) > maxDiff {
		cut := string(diff[:maxDiff])
		return said + "\n" + cut[:strings.LastIndexByte(cut, '\n')+1] + "[the rest of the diff is left out]"
	}
	return said + "\n" + string(diff)
}
