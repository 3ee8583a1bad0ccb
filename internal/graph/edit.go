package graph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"taskdaemon/internal/jsonl"
	"taskdaemon/internal/td"
	"taskdaemon/internal/workgraph"
)

// The most that a task may have.
const (
	maxTitle  = 300     // characters
	maxText   = 1 << 20 // bytes
	maxLabels = 64
	maxLabel  = 100 // characters
)

// Add writes down new tasks, all or none. One that has no id gets one. A task may name others of the same
// call, those before it. One whose key is known is not added again: the known one is returned in its place.
func (s *Store) Add(ctx context.Context, tasks ...Task) ([]Task, error) {
	added := make([]td.TaskID, len(tasks))
	if err := s.write(ctx, "", s.adding(tasks, added)); err != nil {
		return nil, err
	}
	out := make([]Task, len(added))
	for i, id := range added {
		var err error
		if out[i], err = s.Task(ctx, id); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// AddWith writes down a task that is to be known elsewhere, too: at both places or at none. Elsewhere is told the id and the
// handle while nobody can see the task yet; its error is returned, and takes the task back unless nobody knows whether it is
// there (td.Unknown).
func (s *Store) AddWith(ctx context.Context, t Task, elsewhere func(td.TaskID, string) error) error {
	added := make([]td.TaskID, 1)
	return s.writeWith(ctx, "", s.adding([]Task{t}, added), func() error { return elsewhere(added[0], s.name(added[0])) })
}

// adding are the changes that add tasks. It says which they are then.
func (s *Store) adding(tasks []Task, added []td.TaskID) func() ([]change, error) {
	return func() (changes []change, err error) {
		var trial []td.TaskID
		batch := map[td.TaskID]Task{}
		known := map[td.TaskID]td.TaskID{} // what those are called that were added before
		now := func(ids []td.TaskID) []td.TaskID {
			out := slices.Clone(ids)
			for i, id := range out {
				out[i] = cmp.Or(known[id], id)
			}
			return out
		}
		defer func() {
			for _, id := range trial { // the file says what is there, not the trial
				s.graph.Retract(id)
			}
		}()
		for i, t := range tasks {
			if id, again := s.keys[t.Key]; again && t.Key != "" {
				added[i], known[t.ID] = id, id
				continue
			}
			t.Parent, t.Blockers, t.Related = cmp.Or(known[t.Parent], t.Parent), now(t.Blockers), now(t.Related)
			if t.ID == "" {
				t.ID = td.NewTaskID()
			}
			if gone, err := s.gone(t.ID); err != nil {
				return nil, err
			} else if gone { // one that came from elsewhere and was deleted is another when it comes again
				known[t.ID] = td.NewTaskID()
				t.ID = known[t.ID]
			}
			if s.there(t.ID) {
				return nil, td.Errorf(td.Conflict, "add %q: the task %s exists already", t.Title, t.ID.Handle())
			}
			err := s.fitting(&t)
			if err == nil {
				err = s.placed(&t, batch)
			}
			if err != nil {
				return nil, fmt.Errorf("add %q: %w", t.Title, err)
			}
			batch[t.ID] = t
			s.graph.Put(t.node(t.State()))
			trial = append(trial, t.ID)
			c, err := created(t)
			if err != nil {
				return nil, err
			}
			changes, added[i] = append(changes, c), t.ID
		}
		return changes, nil
	}
}

// gone reports whether a task was in the graph and was deleted.
func (s *Store) gone(id td.TaskID) (bool, error) {
	r, err := s.index.record(id)
	if err != nil {
		return false, td.Errorf(td.Storage, "read the index of %s: %w", s.path, err)
	}
	return r != nil && r.Deleted(), nil
}

// there reports whether a task is in the graph, or on trial.
func (s *Store) there(id td.TaskID) bool {
	_, ok := s.graph.Standing(id)
	return ok
}

// created is the change that makes a task.
func created(t Task) (c change, err error) {
	c.Task = t.ID
	set := func(field, value string) {
		if value != "" {
			err = errors.Join(err, c.set(field, value))
		}
	}
	set(fieldTitle, t.Title)
	set(fieldText, t.Text)
	set(fieldKind, string(t.Kind))
	set(fieldParent, string(t.Parent))
	set(fieldValidator, t.Validator)
	set(fieldTier, string(t.Tier))
	set(fieldCreatedBy, t.CreatedBy)
	set(fieldHeld, t.Held)
	set(fieldKey, t.Key)
	set(fieldSlug, t.Slug)
	if t.Verdict != nil {
		err = errors.Join(err, c.set(fieldVerdict, t.Verdict))
	}
	c.add(setBlockers, names(t.Blockers)...)
	c.add(setRelated, names(t.Related)...)
	c.add(setLabels, t.Labels...)
	return c, errors.Join(err, c.set(fieldPriority, t.Priority))
}

// fitting fails unless a new task makes sense in the graph.
func (s *Store) fitting(t *Task) error {
	if t.Kind == "" {
		t.Kind = td.KindTask
	}
	if err := checkText(t); err != nil {
		return err
	}
	if err := s.giveSlug(t); err != nil {
		return err
	}
	if t.Parent != "" {
		if err := s.mayHold(t.Parent); err != nil {
			return err
		}
	}
	for _, id := range slices.Concat(t.Blockers, t.Related) {
		if !s.there(id) {
			return s.unknown(id)
		}
	}
	if err := s.graph.CheckNew(t.node(td.Queued)); err != nil {
		return s.circular(err, t.ID, t.Title)
	}
	return nil
}

// checkText bounds what people and models write.
func checkText(t *Task) error {
	title := strings.TrimSpace(t.Title)
	switch {
	case title == "":
		return td.Errorf(td.Invalid, "a task needs a title")
	case utf8.RuneCountInString(title) > maxTitle:
		return td.Errorf(td.Invalid, "the title has more than %d characters", maxTitle).WithHint("put the rest into the text")
	case len(t.Text) > maxText:
		return td.Errorf(td.Invalid, "the text has more than %d KiB", maxText>>10)
	case t.Priority < 0 || t.Priority > 4:
		return td.Errorf(td.Invalid, "the priority is %d", t.Priority).WithHint("0 is first, 4 is last")
	case len(t.Labels) > maxLabels:
		return td.Errorf(td.Invalid, "%d labels are too many", len(t.Labels))
	case !slices.Contains([]td.TaskKind{td.KindTask, td.KindSpec, td.KindPRD}, t.Kind):
		return td.Errorf(td.Invalid, "the kind %q is not known", string(t.Kind)).WithHint("task, spec or prd")
	}
	t.Title = strings.Join(strings.Fields(title), " ")
	for _, text := range append([]string{t.Title, t.Text, t.Validator, t.Key, t.Held}, t.Labels...) {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			return td.Errorf(td.Invalid, "it has bytes that are no text")
		}
	}
	for i, l := range t.Labels {
		if t.Labels[i] = strings.TrimSpace(l); t.Labels[i] == "" || utf8.RuneCountInString(l) > maxLabel {
			return td.Errorf(td.Invalid, "the label %q is empty or too long", l)
		}
	}
	return nil
}

// mayHold fails unless a task may have others in it: a container never runs.
func (s *Store) mayHold(id td.TaskID) error {
	st, ok := s.graph.Standing(id)
	_, started := s.live[id]
	switch {
	case !ok:
		return s.unknown(id)
	case started && !st.Container:
	case st.Container || st.State == td.Queued || st.State == td.Blocked:
		return nil
	}
	return td.Errorf(td.Conflict, "%s is %s: what runs or has ended holds no other tasks", s.name(id), st.State).
		WithHint("taskdaemon task reset %s", s.name(id))
}

func (s *Store) unknown(id td.TaskID) error {
	return td.Errorf(td.NotFound, "no task %s in the graph of %s", id.Handle(), s.root).WithHint("taskdaemon task list")
}

// name is what people call a task.
func (s *Store) name(id td.TaskID) string {
	if h := s.heads[id]; h != nil {
		return h.handle
	}
	return id.Handle()
}

// names are those of several, with a word between them.
func (s *Store) names(ids []td.TaskID, between string) string {
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = s.name(id)
	}
	return strings.Join(words, between)
}

// circular turns an error that names ids into one for people. One task may be new.
func (s *Store) circular(err error, id td.TaskID, title string) error {
	c, ok := errors.AsType[*workgraph.CircleError](err)
	if !ok {
		return err
	}
	words := make([]string, len(c.Circle))
	for i, t := range c.Circle {
		words[i] = s.name(t)
		if t == id && title != "" {
			words[i] = fmt.Sprintf("%q", title)
		}
	}
	return td.Errorf(td.Conflict, "dependency cycle: %s", strings.Join(words, " → ")).
		WithHint("taskdaemon task deps list %s", s.name(c.Circle[0]))
}

// Edit is what to change of a task. What is nil stays.
type Edit struct {
	Title, Text, Validator *string
	Kind                   *td.TaskKind
	Tier                   *td.Tier
	Priority               *int
	Parent                 *td.TaskID // empty: in nothing

	AddBlockers, RemoveBlockers []td.TaskID
	AddRelated, RemoveRelated   []td.TaskID
	AddLabels, RemoveLabels     []string
}

// Edit changes a task.
func (s *Store) Edit(ctx context.Context, id td.TaskID, e Edit) (Task, error) {
	return s.Once("").Edit(ctx, id, e)
}

func (s *Store) edited(t *Task, e Edit) (c change, err error) {
	c.Task = t.ID
	next := *t
	set := func(field string, value any) { err = errors.Join(err, c.set(field, value)) }
	if e.Title != nil {
		next.Title = *e.Title
	}
	if e.Text != nil {
		next.Text = *e.Text
		set(fieldText, next.Text)
	}
	if e.Validator != nil {
		next.Validator = *e.Validator
		set(fieldValidator, next.Validator)
	}
	if e.Kind != nil {
		next.Kind = *e.Kind
		set(fieldKind, next.Kind)
	}
	if e.Tier != nil {
		set(fieldTier, *e.Tier)
	}
	if e.Priority != nil {
		next.Priority = *e.Priority
		set(fieldPriority, next.Priority)
	}
	next.Labels = slices.Concat(slices.DeleteFunc(slices.Clone(t.Labels), func(l string) bool { return slices.Contains(e.AddLabels, l) }), e.AddLabels)
	if err := checkText(&next); err != nil {
		return c, err
	}
	if e.Title != nil {
		set(fieldTitle, next.Title)
	}
	c.add(setLabels, next.Labels[len(next.Labels)-len(e.AddLabels):]...)
	c.remove(setLabels, slices.DeleteFunc(slices.Clone(e.RemoveLabels), func(l string) bool { return slices.Contains(e.AddLabels, l) })...)
	if err := s.retied(t, e, &c); err != nil {
		return c, err
	}
	if e.Parent != nil {
		next.Parent = *e.Parent
	}
	if e.Kind != nil || e.Parent != nil {
		if err := s.placed(&next, nil); err != nil {
			return c, err
		}
		if next.Kind == td.KindSpec && len(s.graph.Children(t.ID)) > 0 {
			return c, td.Errorf(td.Conflict, "%s holds other tasks: a spec holds none", t.Handle).WithHint("taskdaemon task tree %s", t.Handle)
		}
	}
	return c, err
}

// retied is the part of an edit that changes what a task is tied to.
func (s *Store) retied(t *Task, e Edit, c *change) error {
	if e.Parent != nil && *e.Parent != t.Parent {
		if *e.Parent != "" {
			if err := s.mayHold(*e.Parent); err != nil {
				return err
			}
			if err := s.graph.CheckParent(t.ID, *e.Parent); err != nil {
				return s.circular(err, "", "")
			}
		}
		if err := c.set(fieldParent, *e.Parent); err != nil {
			return err
		}
	}
	for _, id := range slices.Concat(e.AddBlockers, e.AddRelated) {
		if !s.there(id) {
			return s.unknown(id)
		}
	}
	for _, b := range e.AddBlockers {
		if err := s.graph.CheckBlocker(t.ID, b); err != nil {
			return s.circular(err, "", "")
		}
	}
	if slices.Contains(e.AddRelated, t.ID) {
		return td.Errorf(td.Invalid, "%s cannot be related to itself", t.Handle)
	}
	c.add(setBlockers, names(e.AddBlockers)...)
	c.add(setRelated, names(e.AddRelated)...)
	c.remove(setBlockers, names(less(e.RemoveBlockers, e.AddBlockers))...)
	c.remove(setRelated, names(less(e.RemoveRelated, e.AddRelated))...)
	return nil
}

// unrelated are the changes of other tasks that an edit makes: what is related is so from both sides, and either may
// have been the one to say so.
func (s *Store) unrelated(t *Task, e Edit) (changes []change) {
	for _, other := range less(e.RemoveRelated, e.AddRelated) {
		if h := s.heads[other]; h != nil && slices.Contains(h.related, t.ID) {
			c := change{jsonl.Change{Task: other}}
			c.remove(setRelated, string(t.ID))
			changes = append(changes, c)
		}
	}
	return changes
}

func less(list, gone []td.TaskID) []td.TaskID {
	return slices.DeleteFunc(slices.Clone(list), func(id td.TaskID) bool { return slices.Contains(gone, id) })
}
