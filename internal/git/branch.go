package git

import (
	"cmp"
	"context"
	"strings"

	"taskdaemon/internal/td"
)

const (
	runBranches     = "taskdaemon/run/"
	runRefs         = "refs/heads/" + runBranches
	worktreesFolder = ".worktrees"
)

// maxSlug keeps names of branches readable.
const maxSlug = 40

// BranchName is the branch of a run: taskdaemon/run/<handle>/<words of the title>. It is ASCII in lower case, so that no two
// differ only in what some file systems do not tell apart. Each task has a folder of its own among the references, and can write there alone.
func BranchName(handle, title string) string {
	return runBranches + cmp.Or(slug(handle), "task") + "/" + cmp.Or(slug(title), "work")
}

// slug is the letters and digits of a text, in lower case, with a dash for what is between them.
func slug(text string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(text) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	s := b.String()
	if len(s) > maxSlug {
		s = s[:maxSlug]
		if at := strings.LastIndexByte(s, '-'); at > maxSlug/2 {
			s = s[:at] // no half word
		}
	}
	return strings.Trim(s, "-")
}

// Free fails when a branch of this name cannot be made beside those that there are.
func Free(ctx context.Context, repo, branch string) error {
	return clash(ctx, repo, "refs/heads/"+branch)
}

// clash fails when there is a branch beside which one of the refs cannot be: a folder where it is a file, the other way round, or on a disk
// that does not tell case apart a name that differs only in it.
func clash(ctx context.Context, repo string, refs ...string) error {
	out, err := run(ctx, call{dir: repo, args: []string{"for-each-ref", "--format=%(refname)", "refs/heads/"}})
	if err != nil {
		return err
	}
	fold := func(s string) string { return s }
	said, err := configs.of(ctx, siteOf(call{dir: repo}))
	if err != nil {
		return err
	}
	if said.isTrue("core.ignorecase") {
		fold = strings.ToLower
	}
	for other := range strings.Lines(string(out)) {
		other = strings.TrimRight(other, "\n")
		theirs := fold(other)
		for _, ref := range refs {
			mine := fold(ref)
			if other == ref || theirs != mine && !strings.HasPrefix(theirs, mine+"/") && !strings.HasPrefix(mine, theirs+"/") {
				continue
			}
			return td.Errorf(td.Conflict, "the branch %s cannot be beside the branch %s", shortRef(ref), shortRef(other)).
				WithHint("git -C %s branch -m %s <another name>", repo, shortRef(other))
		}
	}
	return nil
}
