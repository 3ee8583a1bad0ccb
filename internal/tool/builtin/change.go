package builtin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

var (
	fpBeforeParents = failpoint.New("builtin.change.before_parents")
	fpBeforeTemp    = failpoint.New("builtin.change.before_temp")
	fpAfterTemp     = failpoint.New("builtin.change.after_temp")
	fpBeforeRename  = failpoint.New("builtin.change.before_rename")
	fpAfterRename   = failpoint.New("builtin.change.after_rename")
	fpAfterSync     = failpoint.New("builtin.change.after_sync")
	fpProbed        = failpoint.New("builtin.change.probed")
)

// change is one file's replacement, and the evidence of it.
type change struct {
	Path   string `json:"path"`
	Before string `json:"before,omitempty"` // hash of the content; empty: there is no such file
	After  string `json:"after"`
	Temp   string `json:"temp"` // where the new content is written first
	Said   string `json:"said"` // the result, the same whether it was seen or found done
}

// newChange describes the replacement of rel's content, which has the hash before.
func newChange(env *tool.Env, rel, before string, content []byte, said string) change {
	sum := sha256.Sum256([]byte(string(env.Task) + "\x00" + string(env.Step)))
	temp := path.Join(path.Dir(filepath.ToSlash(rel)), ".taskdaemon-"+hex.EncodeToString(sum[:8])+".tmp")
	return change{Path: rel, Before: before, After: hash(content), Temp: temp, Said: said}
}

// call is the keyed call that makes the change.
func (c change) call(env *tool.Env, shown string, content []byte) (tool.Call, error) {
	evidence, err := json.Marshal(c)
	if err != nil {
		return tool.Call{}, fmt.Errorf("encode evidence: %w", err)
	}
	return tool.Call{
		Effect: td.Keyed, Evidence: evidence, Title: shown, Paths: env.Root.Writes(c.Path),
		Run: func(context.Context) (td.ToolResult, error) {
			if err := c.make(env.Root, content); err != nil {
				return td.ToolResult{}, err
			}
			return c.result(), nil
		},
	}, nil
}

func (c change) result() td.ToolResult {
	return td.ToolResult{Content: c.Said, Files: []string{c.Path}}
}

// make replaces the file: a reader sees the old content or the new, and so does whoever looks after a
// crash of the host. The folder it is in is held from the first look on, so that nothing else can take its place.
func (c change) make(w *tool.Workspace, content []byte) (err error) {
	defer w.Alone(c.Path)()
	fpBeforeParents.Hit()
	dir, err := w.Parent(c.Path, false)
	if errors.Is(err, fs.ErrNotExist) && c.Before == "" {
		dir, err = w.Parent(c.Path, true)
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	now, mode, err := look(dir, c.Path)
	if err != nil {
		return err
	}
	if now != c.Before {
		return td.Errorf(td.Conflict, "%s was changed by something else just now; read it again", c.Path)
	}
	fpBeforeTemp.Hit()
	temp := path.Base(c.Temp)
	f, err := dir.CreateAnew(temp, 0o644) // one that is there was left by a crash
	if err != nil {
		return td.Errorf(td.Storage, "write %s: %w", c.Path, err)
	}
	defer func() {
		if err != nil {
			err = td.Errorf(td.Storage, "write %s: %w", c.Path, errors.Join(err, dir.Remove(temp)))
		}
	}()
	fpAfterTemp.Hit()
	_, err = f.Write(content)
	if err == nil && now != "" {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	fpBeforeRename.Hit()
	if err := dir.Rename(temp, path.Base(c.Path)); err != nil {
		return err
	}
	fpAfterRename.Hit()
	if err := dir.Sync(); err != nil {
		return err
	}
	fpAfterSync.Hit()
	return nil
}

// maxReplaced is the largest file that is replaced: it is read as a whole, to find out after a crash what became of it.
const maxReplaced = 1 << 30

// look is the hash and mode of a file in its folder; the hash is empty when there is none.
func look(dir *beneath.Folder, rel string) (string, fs.FileMode, error) {
	f, info, err := dir.File(path.Base(rel))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", 0, nil
	case errors.Is(err, beneath.ErrLink):
		return "", 0, td.Errorf(td.Conflict, "the path changed while the call was being checked: %s is now a symbolic link", rel)
	case errors.Is(err, beneath.ErrNotRegular):
		if at, lerr := dir.Lstat(path.Base(rel)); lerr == nil && at.IsDir() {
			return "", 0, td.Errorf(td.Invalid, "%s is a folder", rel)
		}
		return "", 0, td.Errorf(td.Invalid, "%s is not a regular file", rel)
	case err != nil:
		return "", 0, tool.Failed("open", rel, err)
	}
	defer f.Close()
	if info.Size() > maxReplaced {
		return "", 0, td.Errorf(td.Invalid, "%s is too large to replace: %d bytes", rel, info.Size())
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, info.Size()+1)); err != nil { // it may grow without end
		return "", 0, td.Errorf(td.Storage, "read %s: %w", rel, err)
	}
	return hex.EncodeToString(h.Sum(nil)), info.Mode().Perm(), nil
}

func hash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// resolveChange finds out by the content whether a change took place.
func resolveChange(env *tool.Env, intent td.Intent) (tool.Resolution, error) {
	var c change
	if err := json.Unmarshal(intent.Evidence, &c); err != nil || c.Path == "" || c.After == "" {
		return tool.Resolution{}, td.Errorf(td.Corrupt, "read evidence of %s: %v", intent.Key, err)
	}
	state, err := c.probe(env.Root)
	fpProbed.Hit()
	switch {
	case err != nil && td.KindOf(err) == td.Storage:
		return tool.Resolution{}, err
	case err == nil && state == c.After:
		return tool.Resolution{State: tool.Done, Via: td.Probed, Result: c.result()}, nil
	case err == nil && state == c.Before:
		return tool.Resolution{State: tool.NotDone}, nil
	}
	return tool.Resolution{State: tool.Done, Via: td.Probed, Result: td.ToolResult{
		IsError: true,
		Content: fmt.Sprintf("This call was interrupted, and %s was changed by something else meanwhile. "+
			"Whether the change was made is not known. Read the file again.", c.Path),
	}}, nil
}

// probe is the hash of the file's content, after what a crash left beside it is removed.
func (c change) probe(w *tool.Workspace) (string, error) {
	dir, err := w.Folder(path.Dir(c.Path))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer dir.Close()
	if c.Temp != "" {
		if err := dir.Remove(path.Base(c.Temp)); err != nil {
			return "", td.Errorf(td.Storage, "remove %s: %w", c.Temp, err)
		}
	}
	now, _, err := look(dir, c.Path)
	if err == nil && now == c.After {
		// The rename was seen, but a crash of the host may still undo it.
		if err := dir.Sync(); err != nil {
			return "", td.Errorf(td.Storage, "sync the folder of %s: %w", c.Path, err)
		}
	}
	return now, err
}
