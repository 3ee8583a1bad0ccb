package mem

import (
	"context"
	"fmt"
	"slices"

	"taskdaemon/internal/store/rule"
	"taskdaemon/internal/td"
)

// Post puts a command into the task's inbox.
func (s *Store) Post(ctx context.Context, id td.TaskID, cmd td.Command) error {
	cmd, _, err := rule.PrepareCommand(id, cmd)
	if err != nil {
		return err
	}
	leave, err := s.enter(ctx.Done())
	if err != nil {
		return err
	}
	defer leave()
	t, err := s.task(id)
	if err != nil {
		return fmt.Errorf("post to %s: %w", id.Handle(), err)
	}
	if !slices.ContainsFunc(t.inbox, func(c *command) bool { return c.Key == cmd.Key }) {
		t.inbox = append(t.inbox, &command{Command: cmd})
	}
	return nil
}

// Posted reports whether a command with this key was ever put into the task's inbox.
func (s *Store) Posted(ctx context.Context, id td.TaskID, key string) (cmd td.Command, ok bool, err error) {
	leave, err := s.enter(ctx.Done())
	if err != nil {
		return td.Command{}, false, err
	}
	defer leave()
	if t := s.tasks[id]; t != nil {
		if i := slices.IndexFunc(t.inbox, func(c *command) bool { return c.Key == key }); i >= 0 {
			return t.inbox[i].Command, true, nil
		}
	}
	return td.Command{}, false, nil
}

// Take returns the commands of the claimed task that no event has consumed, oldest first.
func (s *Store) Take(ctx context.Context, c td.Claim) ([]td.Command, error) {
	leave, err := s.enter(ctx.Done())
	if err != nil {
		return nil, err
	}
	defer leave()
	t, err := s.fenced(c)
	if err != nil {
		return nil, fmt.Errorf("take the commands of %s: %w", c.Task.Handle(), err)
	}
	var out []td.Command
	for _, cmd := range t.inbox {
		if cmd.consumed == 0 {
			out = append(out, cmd.Command)
		}
	}
	return out, nil
}

// Pending are the tasks whose inbox is not empty.
func (s *Store) Pending(ctx context.Context) ([]td.TaskID, error) {
	leave, err := s.enter(ctx.Done())
	if err != nil {
		return nil, err
	}
	defer leave()
	var out []td.TaskID
	for _, id := range append([]td.TaskID{td.DaemonStream}, s.order...) {
		if slices.ContainsFunc(s.tasks[id].inbox, func(c *command) bool { return c.consumed == 0 }) {
			out = append(out, id)
		}
	}
	return out, nil
}
