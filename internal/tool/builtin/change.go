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
	"os"
	"path"
	"path/filepath"
	"syscall"

	"taskdaemon/internal/disk"
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
			if err := c.make(env.Root.Root(), content); err != nil {
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
// crash of the host.
func (c change) make(root *os.Root, content []byte) (err error) {
	now, mode, err := look(root, c.Path)
	if err != nil {
		return err
	}
	if now != c.Before {
		return td.Errorf(td.Conflict, "%s was changed by something else just now; read it again", c.Path)
	}
	fpBeforeParents.Hit()
	if err := disk.MakeFolder(root, path.Dir(c.Path)); err != nil {
		return err
	}
	fpBeforeTemp.Hit()
	f, err := createTemp(root, c.Temp)
	if err != nil {
		return td.Errorf(td.Storage, "write %s: %w", c.Path, err)
	}
	defer func() {
		if err != nil {
			err = td.Errorf(td.Storage, "write %s: %w", c.Path, errors.Join(err, disk.Remove(root, c.Temp)))
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
	if err := root.Rename(c.Temp, c.Path); err != nil {
		return err
	}
	fpAfterRename.Hit()
	if err := disk.SyncFolder(root, path.Dir(c.Path)); err != nil {
		return err
	}
	fpAfterSync.Hit()
	return nil
}

// createTemp makes the temporary file anew: one that is there was left by a crash.
func createTemp(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		if err := disk.Remove(root, name); err != nil {
			return nil, err
		}
		f, err = root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	}
	return f, err
}

// look is the hash and mode of a file; the hash is empty when there is none.
func look(root *os.Root, rel string) (string, fs.FileMode, error) {
	info, err := root.Lstat(rel)
	if errors.Is(err, fs.ErrNotExist) {
		return "", 0, nil
	}
	if err != nil {
		return "", 0, td.Errorf(td.Refused, "look at %s: %w", rel, err)
	}
	if info.IsDir() {
		return "", 0, td.Errorf(td.Invalid, "%s is a folder", rel)
	}
	if !info.Mode().IsRegular() {
		return "", 0, td.Errorf(td.Invalid, "%s is not a regular file", rel)
	}
	f, err := root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may be a pipe by now
	if err != nil {
		return "", 0, td.Errorf(td.Refused, "open %s: %w", rel, err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
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
	root := env.Root.Root()
	if c.Temp != "" {
		if err := disk.Remove(root, c.Temp); err != nil {
			return tool.Resolution{}, td.Errorf(td.Storage, "remove %s: %w", c.Temp, err)
		}
	}
	now, _, err := look(root, c.Path)
	fpProbed.Hit()
	switch {
	case err == nil && now == c.After:
		// The rename was seen, but a crash of the host may still undo it.
		if err := disk.SyncFolder(root, path.Dir(c.Path)); err != nil {
			return tool.Resolution{}, err
		}
		return tool.Resolution{State: tool.Done, Via: td.Probed, Result: c.result()}, nil
	case err == nil && now == c.Before:
		return tool.Resolution{State: tool.NotDone}, nil
	}
	return tool.Resolution{State: tool.Done, Via: td.Probed, Result: td.ToolResult{
		IsError: true,
		Content: fmt.Sprintf("This call was interrupted, and %s was changed by something else meanwhile. "+
			"Whether the change was made is not known. Read the file again.", c.Path),
	}}, nil
}
