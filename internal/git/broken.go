package git

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/td"
)

// BrokenRefs are the references of a repository whose objects are missing, sorted by name. A git that goes through all of them stops there.
func BrokenRefs(ctx context.Context, repo string) ([]string, error) {
	out, err := run(ctx, call{dir: repo, args: []string{"for-each-ref", "--format=%(objectname) %(refname)"}})
	if err != nil {
		return nil, err
	}
	var ask strings.Builder
	var names []string
	for l := range strings.Lines(string(out)) {
		id, name, _ := strings.Cut(strings.TrimRight(l, "\n"), " ")
		names = append(names, name)
		ask.WriteString(id + "\n")
	}
	if len(names) == 0 {
		return nil, nil
	}
	out, err = run(ctx, call{dir: repo, args: []string{"cat-file", "--batch-check"}, stdin: strings.NewReader(ask.String())})
	if err != nil {
		return nil, err
	}
	answers := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
	if len(answers) != len(names) {
		return nil, td.Errorf(td.Internal, "look at references: git said %d things of %d", len(answers), len(names))
	}
	var broken []string
	for i, said := range answers {
		if strings.HasSuffix(said, " missing") {
			broken = append(broken, names[i])
		}
	}
	return broken, nil
}

// BrokenIndex reports whether the index of a task's worktree names an object that is missing: git goes through the indexes of all worktrees when it packs.
// mend removes such an index; the files stay as they are.
func (w Worktree) BrokenIndex(ctx context.Context) (broken bool, mend func() error, err error) {
	common, err := w.common()
	if err != nil {
		return false, nil, err
	}
	cond, p, err := w.look(ctx, common)
	if err != nil || cond != Good {
		return false, nil, err
	}
	_, err = run(ctx, call{dir: p.top, args: []string{"rev-list", "--objects", "--quiet", "--indexed-objects", "--single-worktree", "HEAD", "--not", "HEAD"}})
	if err == nil || !td.IsKind(err, td.Corrupt) && !td.IsKind(err, td.Internal) || lacking.FindString(err.Error()) == "" {
		return false, nil, err
	}
	return true, func() error {
		folder, err := beneath.Open(p.git)
		if err != nil {
			return fmt.Errorf("open %s: %w", filepath.Base(p.git), err)
		}
		defer folder.Close()
		return folder.Remove("index")
	}, nil
}
