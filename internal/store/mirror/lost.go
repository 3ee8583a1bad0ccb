package mirror

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"taskdaemon/internal/td"
)

// lostFile stands beside git's own files in the repository and names the branches of conversations that were not whole when they were written: retention had let
// records go, and the repository that had them was deleted or damaged. It is a person's to remove. A copy of the repository from before, put back, has none.
const lostFile = "taskdaemon-lost"

// mostLost bounds how much of the file is read.
const mostLost = 4 << 20

// LostFile is where the names of conversations are that are not whole in a repository.
func LostFile(path string) string { return filepath.Join(path, lostFile) }

// Lost are the branches of a repository whose conversations are not whole there, nor anywhere.
func Lost(path string) ([]string, error) {
	f, err := os.Open(LostFile(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, td.Errorf(td.Storage, "read which conversations are lost: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, mostLost))
	if err != nil {
		return nil, td.Errorf(td.Storage, "read which conversations are lost: %w", err)
	}
	return parseLost(raw), nil
}

// parseLost are the names in such a file, each once. What is no name is passed over.
func parseLost(raw []byte) (names []string) {
	for line := range strings.Lines(string(raw)) {
		if name := strings.TrimSpace(line); fitName(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// noteLost adds branches to the file, durably.
func noteLost(path string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	f, err := os.OpenFile(LostFile(path), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(strings.Join(names, "\n") + "\n")
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err != nil {
		return td.Errorf(td.Storage, "note which conversations are lost: %w", err)
	}
	return nil
}

// Branch is the name of the branch of a task, as git knows it.
func Branch(spec td.Spec) string { return (&state{Task: spec.ID, Spec: spec}).branch() }
