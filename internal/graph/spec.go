package graph

import "taskdaemon/internal/td"

// placed fails unless a task may stand where it is to: a spec is a part of a PRD that one run can do, so that there is a PRD above it and nothing in
// it. Those of batch are on trial. What came from another clone is as it is.
func (s *Store) placed(t *Task, batch map[td.TaskID]Task) error {
	above := func(id td.TaskID) (Task, error) {
		if in, is := batch[id]; is {
			return in, nil
		}
		in, err := s.read(id)
		if err != nil {
			return Task{}, err
		}
		return *in, nil
	}
	for seen, id := map[td.TaskID]bool{}, t.Parent; id != "" && !seen[id]; {
		seen[id] = true
		in, err := above(id)
		switch {
		case err != nil:
			return err
		case id == t.Parent && in.Kind == td.KindSpec:
			return td.Errorf(td.Conflict, "%s is a spec: one run works on it, and it holds no other tasks", s.name(id)).
				WithHint("let it be a part of what %s is in, and wait for it with --after", s.name(id))
		case in.Kind == td.KindPRD || t.Kind != td.KindSpec:
			return nil
		}
		id = in.Parent
	}
	if t.Kind == td.KindSpec {
		return td.Errorf(td.Invalid, "a spec is a part of a PRD, and this one is in none").WithHint("taskdaemon prd list, then --parent; or leave out --kind")
	}
	return nil
}
