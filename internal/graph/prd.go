package graph

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/jsonl"
	"taskdaemon/internal/td"
)

// slugged are the PRDs whose documents are in the folder of this name: one, or several after a merge.
func (s *Store) slugged(slug string) (found []td.TaskID) {
	for id, h := range s.heads {
		if h.slug != "" && h.slug == slug {
			found = append(found, id)
		}
	}
	slices.Sort(found)
	return found
}

// giveSlug names the folder of a new PRD's documents. No other one may have it.
func (s *Store) giveSlug(t *Task) (err error) {
	if t.Kind != td.KindPRD {
		t.Slug = ""
		return nil
	}
	if t.Slug, err = td.Slug(t.Title); err != nil {
		return err
	}
	if others := s.slugged(t.Slug); len(others) > 0 {
		return s.taken(t.Slug, others)
	}
	return nil
}

func (s *Store) taken(slug string, by []td.TaskID) error {
	h := s.heads[by[0]]
	return td.Errorf(td.Conflict, "the folder %s/%s is that of %s (%s)", PRDFolder, slug, h.handle, h.title).
		WithHint("choose another name, or: taskdaemon prd show %s", h.handle)
}

// AddPRD writes down a PRD, or finds the one of that name. It may be called by its slug, too.
func (s *Store) AddPRD(ctx context.Context, t Task) (_ Task, added bool, err error) {
	t.Kind = td.KindPRD
	slug, err := td.Slug(t.Title)
	if err != nil {
		return Task{}, false, err
	}
	err = s.write(ctx, "", func() ([]change, error) {
		added = false
		if found := s.slugged(slug); len(found) > 0 {
			name := strings.Join(strings.Fields(t.Title), " ")
			is := slices.IndexFunc(found, func(id td.TaskID) bool { return name == slug || name == s.heads[id].title })
			if is < 0 {
				return nil, s.taken(slug, found)
			}
			t.ID = found[is]
			return nil, nil
		}
		added = true
		if t.ID == "" {
			t.ID = td.NewTaskID()
		}
		if err := s.fitting(&t); err != nil {
			return nil, err
		}
		c, err := created(t)
		return []change{c}, err
	})
	if err != nil {
		return Task{}, false, fmt.Errorf("add the PRD %q: %w", brief([]byte(t.Title)), err)
	}
	got, err := s.Task(ctx, t.ID)
	return got, added, err
}

// PRDs are all there are, the oldest first.
func (s *Store) PRDs(ctx context.Context) (ids []td.TaskID, err error) {
	err = s.with(ctx, func() error {
		for id, h := range s.heads {
			if h.slug != "" {
				ids = append(ids, id)
			}
		}
		slices.Sort(ids)
		return nil
	})
	return ids, err
}

// PRDOf is the nearest PRD that a task is in.
func (s *Store) PRDOf(ctx context.Context, id td.TaskID) (prd Task, ok bool, err error) {
	err = s.with(ctx, func() error {
		for seen := map[td.TaskID]bool{}; id != "" && !seen[id]; {
			seen[id] = true // what is in itself is in no tree
			t, err := s.read(id)
			if td.IsKind(err, td.NotFound) {
				return nil
			}
			if err != nil {
				return err
			}
			if t.Kind == td.KindPRD {
				prd, ok = *t, true
				return nil
			}
			id = t.Parent
		}
		return nil
	})
	return prd, ok, err
}

// WorkOnItself says that a PRD is worked on as one task. It needs a spec for that, and no tasks of its own: false where that
// is not so.
func (s *Store) WorkOnItself(ctx context.Context, id td.TaskID) (direct bool, err error) {
	err = s.write(ctx, "", func() ([]change, error) {
		prd, err := s.prd(id)
		if err != nil || len(s.graph.Children(id)) > 0 {
			return nil, err
		}
		if direct = prd.Direct; direct {
			return nil, nil
		}
		if err := s.inFolder(func(root *beneath.Folder) error {
			text, _, err := readDocument(root, documentFile(prd.Slug, td.DocSpec))
			direct = strings.TrimSpace(text) != ""
			return err
		}); err != nil || !direct {
			return nil, err
		}
		c := change{jsonl.Change{Task: id}}
		return []change{c}, c.set(fieldDirect, true)
	})
	return direct && err == nil, err
}

// DeletePRD takes a PRD out of the graph, with all in it that is open, and removes its documents. What has ended stays,
// and is in nothing then. It is refused while somebody keeps account of one of them, because it runs.
//
// The documents go first: whoever is cut off before the log is written finds the PRD, and deletes it again.
func (s *Store) DeletePRD(ctx context.Context, id td.TaskID) error {
	return s.write(ctx, "", func() ([]change, error) {
		prd, err := s.prd(id)
		if err != nil {
			return nil, err
		}
		var changes []change
		left := map[string]int{} // by slug: of how many that stay the documents are
		for _, h := range s.heads {
			left[h.slug]++
		}
		for t := range s.graph.Within(id) {
			st, _ := s.graph.Standing(t)
			if state, live := s.live[t]; live && !state.Terminal() && !st.Container {
				return nil, td.Errorf(td.Conflict, "delete %s: %s in it is %s", prd.Handle, s.name(t), state).WithHint("taskdaemon task cancel %s", s.name(t))
			}
			if t != id && st.State.Terminal() && !st.Container {
				continue
			}
			c := change{jsonl.Change{Task: t}}
			if err := c.set(jsonl.FieldDeleted, true); err != nil {
				return nil, err
			}
			changes = append(changes, c)
			left[s.heads[t].slug]--
		}
		for _, c := range changes {
			if slug := s.heads[c.Task].slug; slug != "" && left[slug] == 0 {
				if err := s.removeDocuments(slug); err != nil {
					return nil, err
				}
			}
		}
		fpDocumentsGone.Hit()
		return changes, nil
	})
}

// prd is a PRD of the index.
func (s *Store) prd(id td.TaskID) (*Task, error) {
	t, err := s.read(id)
	if err != nil {
		return nil, err
	}
	if t.Kind != td.KindPRD {
		return nil, td.Errorf(td.Conflict, "%s is no PRD, but a %s", t.Handle, t.Kind).WithHint("taskdaemon prd list")
	}
	return t, nil
}

// misplaced is what is wrong with documents: folders that two PRDs share, or none has, and versions that a merge kept.
func (s *Store) misplaced() (out []Problem) {
	owners := map[string][]td.TaskID{}
	for id, h := range s.heads {
		if h.slug != "" {
			owners[h.slug] = append(owners[h.slug], id)
		}
	}
	for slug, ids := range owners {
		slices.Sort(ids)
		for _, id := range ids[1:] {
			out = append(out, Problem{id, s.name(id), fmt.Sprintf("it has its documents in %s/%s, and so has %s", PRDFolder, slug, s.name(ids[0]))})
		}
	}
	_ = s.inFolder(func(root *beneath.Folder) error { // what cannot be read is said when it is asked for
		for _, slug := range entries(root, path.Join(Folder, PRDFolder)) {
			ids, here := owners[slug], Problem{Handle: path.Join(PRDFolder, slug)}
			if strings.HasPrefix(slug, ".") {
				continue
			}
			if len(ids) == 0 {
				here.Why = "it holds documents of no PRD"
				out = append(out, here)
				continue
			}
			for _, file := range entries(root, path.Join(Folder, PRDFolder, slug)) {
				if strings.Contains(file, ".conflict-") {
					out = append(out, Problem{ids[0], s.name(ids[0]), fmt.Sprintf("of a document two versions were kept, the other in %s/%s", here.Handle, file)})
				}
			}
		}
		return nil
	})
	slices.SortFunc(out, func(a, b Problem) int { return strings.Compare(a.Handle+a.Why, b.Handle+b.Why) })
	return out
}
