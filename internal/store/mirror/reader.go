package mirror

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"taskdaemon/internal/git"
	"taskdaemon/internal/td"
)

// Reader reads conversations back, for whoever has lost the journal. It is for one goroutine, and sees what was there
// when it was made.
type Reader struct {
	ctx     context.Context
	repo    *git.Repo
	objects *git.Objects
}

// Kept is a task that is in the repository.
type Kept struct {
	Spec td.Spec // without what is large
	Live td.Live // as its newest commit has it
	tip  string
}

// OpenReader opens a repository. NotFound: there is none.
func OpenReader(ctx context.Context, at string) (*Reader, error) {
	if _, err := os.Stat(at); errors.Is(err, fs.ErrNotExist) {
		return nil, td.Errorf(td.NotFound, "there are no conversations in %s", at)
	}
	repo, err := git.OpenBare(ctx, at)
	if err != nil {
		return nil, err
	}
	r := &Reader{ctx: ctx, repo: repo}
	if r.objects, err = repo.Objects(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// Close ends the reader.
func (r *Reader) Close() { r.objects.Close() }

// Tasks are the tasks that can be read, the oldest first, and what is wrong with the branches of the others.
func (r *Reader) Tasks() (kept []Kept, wrong []error, err error) {
	tips, err := r.repo.Branches(r.ctx)
	if err != nil {
		return nil, nil, err
	}
	for branch, tip := range tips {
		raw, _, err := r.objects.Get(tip + ":" + stateFile)
		if err != nil {
			return nil, nil, err
		}
		var s state
		if err := json.Unmarshal(raw, &s); err == nil && s.Spec.ID != "" {
			if _, err := parseState(raw, s.Spec.ID); err == nil {
				kept = append(kept, Kept{s.Spec, s.Live, tip})
				continue
			}
		}
		wrong = append(wrong, fmt.Errorf("read branch %s: it is none of a task", strings.TrimPrefix(branch, BranchPrefix)))
	}
	slices.SortFunc(kept, func(a, b Kept) int {
		return cmp.Or(a.Spec.CreatedAt.Compare(b.Spec.CreatedAt), cmp.Compare(a.Spec.ID, b.Spec.ID))
	})
	return kept, wrong, nil
}

// Task is the task with this spec. NotFound: the repository has none of it.
func (r *Reader) Task(spec td.Spec) (Kept, error) {
	branch := Branch(spec)
	tip, err := r.repo.Tip(r.ctx, branch)
	if err != nil {
		return Kept{}, err
	}
	if tip == "" {
		return Kept{}, td.Errorf(td.NotFound, "there is no conversation of %s", spec.Handle)
	}
	raw, _, err := r.objects.Get(tip + ":" + stateFile)
	if err != nil {
		return Kept{}, err
	}
	s, err := parseState(raw, spec.ID)
	if err != nil {
		return Kept{}, fmt.Errorf("read branch %s: %w", strings.TrimPrefix(branch, BranchPrefix), err)
	}
	return Kept{s.Spec, s.Live, tip}, nil
}

// Spec is the whole of what a person asked for.
func (r *Reader) Spec(k Kept) (td.Spec, error) {
	raw, _, err := r.objects.Get(k.tip + ":spec.json")
	if err != nil {
		return td.Spec{}, err
	}
	var s td.Spec
	if err := json.Unmarshal(raw, &s); err != nil || s.ID != k.Spec.ID {
		return k.Spec, nil //nolint:nilerr // the records of its creation are gone: what is repeated in every commit is left
	}
	return s, nil
}

// Records are the records of a task from its first on, as far as they are in the repository without a gap.
func (r *Reader) Records(k Kept) (out []td.Event, err error) {
	names, err := r.repo.Files(r.ctx, k.tip, recordsFolder)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		from, err := strconv.ParseUint(strings.TrimSuffix(path.Base(name), ".jsonl"), 10, 64)
		if err != nil || from != uint64(len(out))+1 {
			return out, nil //nolint:nilerr // what stands before the gap is whole
		}
		raw, _, err := r.objects.Get(k.tip + ":" + name)
		if err != nil {
			return nil, err
		}
		evs, err := parseRecords(raw, k.Spec.ID, from)
		if err != nil {
			return out, nil //nolint:nilerr // the same
		}
		out = append(out, evs...)
	}
	return out, nil
}

// StartOver has the repository followed from the beginning of the journal: its own has been replaced. What is in the
// repository is passed over.
func StartOver(at string) error {
	if err := os.Remove(filepath.Join(at, cursorFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return td.Errorf(td.Storage, "follow the journal from its beginning: %w", err)
	}
	return nil
}
