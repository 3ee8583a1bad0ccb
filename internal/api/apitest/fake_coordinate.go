package apitest

import (
	"context"
	"strings"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// Tell puts a message into the conversations of its receivers.
func (f *Fake) Tell(_ context.Context, in api.Tell) (api.Told, error) {
	l := td.Letter{ID: "person/" + in.Key, To: in.To, Topic: in.Type, Text: in.Text}
	if err := l.Check(); err != nil {
		return api.Told{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	told := api.Told{ID: l.ID, To: []string{}}
	var to []td.TaskID
	for _, ref := range in.To {
		t, err := f.resolve(ref)
		if err != nil {
			return api.Told{}, err
		}
		if t.Status.State.Terminal() {
			return api.Told{}, td.Errorf(td.Conflict, "%s is %s and listens no more", t.Handle, t.Status.State).WithHint("taskdaemon resume %s", t.Handle)
		}
		to = append(to, t.ID)
	}
	for i := range f.tasks {
		if t := &f.tasks[i]; len(in.To) == 0 && t.Dir == in.Dir && !t.Status.State.Terminal() && t.Listens(in.Type) {
			to = append(to, t.ID)
		}
	}
	for _, id := range to {
		told.To = append(told.To, f.task(id).Handle)
		if key := string(id) + l.ID; !f.used[key] {
			f.used[key] = true
			f.append(id, "", td.Received{Mail: td.Mail{ID: l.ID, Kind: l.Kind(), Topic: l.Topic}, Text: l.Text, By: in.By})
		}
	}
	return told, nil
}

// Query knows the state of a task and nothing else.
func (f *Fake) Query(_ context.Context, ref string, in api.Query) (api.Answer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, err := f.resolve(ref)
	if err != nil {
		return api.Answer{}, err
	}
	if strings.TrimSpace(in.Question) == "" {
		return api.Answer{}, td.Errorf(td.Invalid, "the question is empty").WithHint(`taskdaemon loop query %s "status"`, t.Handle)
	}
	return api.Answer{Task: t.Handle, Kind: "state", Text: t.Handle + " is " + string(t.Status.State)}, nil
}
