package git

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"taskdaemon/internal/td"
)

// peer is a remote on this machine. The graph is exchanged with it object by object: git's own way would start programs through a shell, and
// run hooks, by what the other repository says.
type peer struct {
	name string // of the remote
	git  string // what git keeps of it
}

// peerAt finds the repository of a remote.
func peerAt(name, path string) (*peer, error) {
	for _, dir := range []string{filepath.Join(path, ".git"), path + ".git", path} {
		if dir = real(dir); isFile(filepath.Join(dir, "HEAD")) && isDir(filepath.Join(dir, "objects")) {
			return &peer{name: name, git: dir}, nil
		}
	}
	return nil, td.Errorf(td.Unavailable, "reach %s: there is no repository in %s", name, path).WithHint("git remote -v")
}

// call prepares a git that works on the peer.
func (p *peer) call(keep bool, args ...string) call {
	return call{dir: p.git, keep: keep, env: []string{"GIT_DIR=" + p.git}, args: args}
}

// tip is where the peer's branch is, empty when it has none.
func (p *peer) tip(ctx context.Context) (string, error) {
	out, err := line(ctx, p.call(false, "rev-parse", "--verify", "--quiet", "--end-of-options", graphRef+"^{commit}"))
	if err != nil && out == "" && td.IsKind(err, td.Internal) {
		return "", nil
	}
	return out, err
}

// knows reports whether the peer has a commit.
func (p *peer) knows(ctx context.Context, commit string) bool {
	_, err := run(ctx, p.call(false, "cat-file", "-e", commit+"^{commit}"))
	return err == nil
}

// fetchFrom takes in what a peer's branch has and returns its commit, empty when there is none.
func (g *Graph) fetchFrom(ctx context.Context, p *peer, at string) (string, error) {
	tip, err := p.tip(ctx)
	if err != nil || tip == "" {
		return "", err
	}
	head, err := g.tip(ctx, graphRef)
	if err != nil {
		return "", err
	}
	var have []string
	for _, commit := range []string{at, head} {
		if commit == tip {
			return tip, nil
		}
		if commit != "" && p.knows(ctx, commit) {
			have = append(have, commit)
		}
	}
	return tip, transfer(ctx, p.call(false), g.call(true), tip, have)
}

// pushTo gives a peer a commit for its branch. It is not done when the branch has something that the commit has not.
func (g *Graph) pushTo(ctx context.Context, p *peer, commit string) (done bool, err error) {
	if err := p.hookless(ctx); err != nil {
		return false, err
	}
	tip, err := p.tip(ctx)
	if err != nil {
		return false, err
	}
	var have []string
	if tip != "" {
		known, err := resolve(ctx, g.root, tip+"^{commit}")
		if err != nil || known == "" {
			return false, err
		}
		if onward, err := g.descends(ctx, commit, tip); err != nil || !onward {
			return false, err
		}
		have = []string{tip}
	}
	if err := p.vacant(ctx); err != nil {
		return false, err
	}
	if err := transfer(ctx, g.call(false), p.call(true), commit, have); err != nil {
		return false, err
	}
	if tip == "" {
		tip = strings.Repeat("0", len(commit))
	}
	_, err = run(ctx, p.call(true, "update-ref", "-m", "taskdaemon sync", graphRef, commit, tip))
	if td.IsKind(err, td.Conflict) || td.IsKind(err, td.Locked) {
		return false, nil // somebody else was first
	}
	return err == nil, err
}

// receiveHooks are those that a push to the peer would run.
var receiveHooks = []string{"pre-receive", "update", "proc-receive", "post-receive", "post-update", "reference-transaction"}

// hookless fails if the peer has hooks: they are not run here, and what they would have said is not known.
func (p *peer) hookless(ctx context.Context) error {
	said, err := configs.of(ctx, siteOf(p.call(false)))
	if err != nil {
		return err
	}
	if has := said.hooks(p.git, p.git, receiveHooks); len(has) > 0 {
		return td.Errorf(td.Refused, "%s has the hook %s, which taskdaemon does not run", p.name, has[0]).
			WithHint("git push %s %s", p.name, graphBranch)
	}
	return nil
}

// vacant fails if the branch is checked out at the peer's: its files would stay behind.
func (p *peer) vacant(ctx context.Context) error {
	at, err := line(ctx, p.call(false, "for-each-ref", "--format=%(worktreepath)", graphRef))
	if err == nil && at != "" {
		err = td.Errorf(td.Refused, "push %s to %s: the branch is checked out there, in %s", graphBranch, p.name, at).
			WithHint("share the graph through a bare repository: git init --bare")
	}
	return err
}

// transfer copies the objects that a commit leads to, but for those that the other has, from one repository to another.
func transfer(ctx context.Context, from, to call, commit string, have []string) error {
	temp, err := scratch()
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	pack, err := os.Create(filepath.Join(temp, "pack"))
	if err != nil {
		return td.Errorf(td.Storage, "copy objects: %w", err)
	}
	defer func() { _ = pack.Close() }()
	want := commit + "\n"
	for _, h := range have {
		want += "^" + h + "\n"
	}
	from.args, from.stdin = []string{"pack-objects", "--quiet", "--revs", "--thin", "--stdout"}, strings.NewReader(want)
	if err := pipe(ctx, from, pack); err != nil {
		return err
	}
	if _, err := pack.Seek(0, 0); err != nil {
		return td.Errorf(td.Storage, "copy objects: %w", err)
	}
	to.args, to.stdin = []string{"index-pack", "--stdin", "--fix-thin", "--strict"}, pack
	_, err = run(ctx, to)
	return err
}
