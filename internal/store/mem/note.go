package mem

import (
	"context"
	"slices"

	"taskdaemon/internal/store"
	"taskdaemon/internal/store/rule"
	"taskdaemon/internal/td"
)

// Notes are those that match: the newest first, or with words to match the best first.
func (s *Store) Notes(ctx context.Context, q store.NoteQuery) ([]store.Note, error) {
	leave, err := s.enter(ctx.Done())
	if err != nil {
		return nil, err
	}
	defer leave()
	search := rule.SearchNotes(q.Match)
	notes := map[uint64]store.Note{}
	var newest []uint64
	shown := 0
	for _, ev := range slices.Backward(s.events) {
		t := s.tasks[ev.Task]
		b, ok := ev.Body.(td.IterationEnded)
		if !ok || t.Project != q.Project {
			continue
		}
		wanted := (q.Run == "" || b.Run == q.Run) && !slices.Contains(q.Except, ev.Cursor)
		if shown++; q.Match != "" && shown <= rule.MaxSearched {
			search.Show(ev.Cursor, rule.NoteWords(t.Title, b), wanted)
		}
		if wanted {
			newest = append(newest, ev.Cursor)
			notes[ev.Cursor] = store.Note{
				IterationEnded: b, Cursor: ev.Cursor, At: ev.At, Task: ev.Task, Handle: t.Handle, Title: t.Title, Untrusted: t.Untrusted,
			}
		}
	}
	chosen := newest
	if q.Match != "" {
		chosen = search.Best(q.Limit)
	}
	var out []store.Note
	for _, cursor := range chosen {
		if q.Limit > 0 && len(out) == q.Limit {
			break
		}
		out = append(out, notes[cursor])
	}
	return out, nil
}
