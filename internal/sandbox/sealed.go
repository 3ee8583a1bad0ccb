package sandbox

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"

	"taskdaemon/internal/td"
)

// stoppedBy are the words of the system for a change of what is read-only, or of a mount.
var stoppedBy = [][]byte{[]byte("read-only file system"), []byte("device or resource busy"), []byte("permission denied")}

// sealedIn are the folders of hooks, files of settings and places of repositories that a command was kept from changing, by what it printed: a line that names one and has the system's words for it.
// Each is what sandbox.write has to name for commands to be able to.
func (p *Profile) sealedIn(outputs ...[]byte) (found []string) {
	if p == nil {
		return nil
	}
	for _, path := range slices.Concat(p.Hooks, p.Settings, p.unmade()) {
		name, err := filepath.Rel(p.Workspace, path)
		if err != nil || !filepath.IsLocal(name) {
			name = path
		}
		if slices.ContainsFunc(outputs, func(out []byte) bool { return stopped(out, []byte(name)) }) {
			found = append(found, p.asPersons(path))
		}
	}
	return found
}

// stopped reports whether a line of output names a path and says that it could not be changed.
func stopped(out, name []byte) bool {
	for line := range bytes.Lines(out) {
		if bytes.Contains(line, name) && slices.ContainsFunc(stoppedBy, func(words []byte) bool { return bytes.Contains(bytes.ToLower(line), words) }) {
			return true
		}
	}
	return false
}

// asPersons is the path in the person's checkout of what lies in a task's worktree.
func (p *Profile) asPersons(path string) string {
	if top, own := td.WorktreeAround(p.Workspace); own {
		if rel, err := filepath.Rel(top, path); err == nil && filepath.IsLocal(rel) {
			return filepath.Join(filepath.Dir(filepath.Dir(top)), rel)
		}
	}
	return path
}

// howToOpen is what is said of them.
func howToOpen(sealed []string) string {
	return "taskdaemon: commands may not change what the person's git runs or obeys. A person can allow it in config.yaml, sandbox.write: " + strings.Join(sealed, ", ") + "\n"
}
