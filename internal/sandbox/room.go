package sandbox

import (
	"errors"
	"os"
	"path/filepath"

	"taskdaemon/internal/disk"
	"taskdaemon/internal/td"
)

// A room is a temp folder and the layers over caches. Commands of a task share the task's, which is named after it; those that are to find nothing of the task's get
// one of their own. Rooms lie beside the spool.

// noTask names the room of commands that belong to no task.
const noTask = "none"

// tempDir makes the temp folder of a room.
func (s *Spool) tempDir(room string) (string, error) {
	if _, err := s.path(room); err != nil {
		return "", err
	}
	dir := filepath.Join(s.temps(), room)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", td.Errorf(td.Storage, "make temp folder: %w", err)
	}
	return dir, nil
}

func (s *Spool) temps() string { return s.Dir + ".tmp" }

// layerDirs is where the layers of all rooms are kept, and below it those of one boot: they are not synced to the disk.
func (s *Spool) layerDirs() string { return s.Dir + ".layers" }

// Room lets commands have a room of this name (Command.Room). Who leaves it removes it; one that a dead daemon did not leave is removed by Forget.
func (s *Spool) Room(name string) (leave func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rooms == nil {
		s.rooms = map[string]bool{}
	}
	s.rooms[name] = true
	return func() error {
		var failed error
		for _, dir := range []string{s.temps(), s.layerDirs()} {
			failed = errors.Join(failed, removeRoom(dir, name))
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.rooms, name)
		return failed
	}
}

func removeRoom(dir, name string) error {
	if err := disk.RemoveAll(filepath.Join(dir, name)); err != nil {
		return td.Errorf(td.Storage, "remove temp folder: %w", err)
	}
	return nil
}

// Forget removes the temp folders and layers of all tasks but those that keep says, and of rooms that nobody is in.
func (s *Spool) Forget(keep func(td.TaskID) bool) error {
	var failed error
	for _, dir := range []string{s.temps(), s.layerDirs()} {
		entries, err := os.ReadDir(dir)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return td.Errorf(td.Storage, "read temp folders: %w", err)
		}
		for _, e := range entries {
			s.mu.Lock()
			used := s.rooms[e.Name()]
			s.mu.Unlock()
			if !used && !keep(td.TaskID(e.Name())) {
				failed = errors.Join(failed, removeRoom(dir, e.Name()))
			}
		}
	}
	return failed
}
