package git

import (
	"cmp"
	"context"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/td"
)

var (
	fpGraphFetched = failpoint.New("git.graph.after_fetch")
	fpGraphPush    = failpoint.New("git.graph.before_push")
	fpGraphPushed  = failpoint.New("git.graph.after_push")
)

// syncTries is how often a push is tried when others push in between.
const syncTries = 5

// SyncReport says what a Sync has done. Of one that failed it says what was done by then.
type SyncReport struct {
	Pulled, Pushed int  // commits
	Merged         bool // both sides had something new
	// Conflicts are files that a person should look at: second versions of files that could not be merged, which
	// lie beside the first, and files that one side changed and the other removed, which stay.
	Conflicts []string
}

// Sync commits what the worktree holds, takes in what the remote's branch has, and pushes. The remote is the one
// that the setting taskdaemon.remote names, or origin: NotFound without one. Unavailable or Auth when it cannot be
// reached: then everything is committed here and nothing else has happened. Conflict when others keep pushing.
func (g *Graph) Sync(ctx context.Context) (SyncReport, error) {
	var rep SyncReport
	if _, _, err := g.Commit(ctx, syncMessage); err != nil {
		return rep, err
	}
	remote, err := g.remote(ctx)
	if err != nil {
		return rep, err
	}
	for range syncTries {
		theirs, err := g.fetch(ctx, remote)
		if err != nil {
			return rep, err
		}
		fpGraphFetched.Hit()
		ours, err := g.join(ctx, theirs, &rep)
		if err != nil || ours == theirs {
			return rep, err
		}
		fpGraphPush.Hit()
		done, err := g.push(ctx, remote, ours)
		if err != nil {
			return rep, err
		}
		if done {
			fpGraphPushed.Hit()
			rep.Pushed, err = g.count(ctx, theirs, ours)
			return rep, err
		}
	}
	return rep, td.Errorf(td.Conflict, "push %s to %s: others pushed %d times in between", graphBranch, remote.name, syncTries).
		WithHint("taskdaemon sync")
}

const syncMessage = "Changes before sync\n"

// join takes a commit of the remote's into the branch and returns where the branch then is.
func (g *Graph) join(ctx context.Context, theirs string, rep *SyncReport) (string, error) {
	leave, err := g.enter(ctx)
	if err != nil {
		return "", err
	}
	defer leave()
	head, _, err := g.commit(ctx, syncMessage)
	if err != nil || theirs == "" || head == theirs {
		return head, err
	}
	if known, err := g.descends(ctx, head, theirs); err != nil || known {
		return head, err
	}
	onward, err := g.descends(ctx, theirs, head)
	if err != nil {
		return "", err
	}
	to, conflicts := theirs, []string(nil)
	if !onward {
		if to, conflicts, err = g.merge(ctx, head, theirs); err != nil {
			return "", err
		}
		rep.Merged = true
	}
	n, err := g.count(ctx, head, theirs)
	if err != nil {
		return "", err
	}
	more, err := g.goTo(ctx, to)
	if err != nil {
		return "", err
	}
	rep.Pulled += n
	rep.Conflicts = append(append(rep.Conflicts, conflicts...), more...)
	return to, nil
}

// count is how many commits to has that from has not.
func (g *Graph) count(ctx context.Context, from, to string) (int, error) {
	args := []string{"rev-list", "--count", to}
	if from != "" {
		args = append(args, "^"+from)
	}
	out, err := g.line(ctx, args...)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(out)
}

var remoteName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[\pL\pN_][\pL\pN_./@+-]*$`) })

// remote is where the graph is shared.
type remote struct {
	name string
	url  string // to fetch from
	push string
}

// peer is the repository of one of the remote's addresses if that is on this machine, else nil.
func (g *Graph) peer(r remote, url string) (*peer, error) {
	path, err := localRemote(g.root, url)
	if err != nil || path == "" {
		return nil, err
	}
	return peerAt(r.name, path)
}

// remote is the remote to share the graph with.
func (g *Graph) remote(ctx context.Context) (remote, error) {
	said, err := configs.of(ctx, siteOf(g.call(false)))
	if err != nil {
		return remote{}, err
	}
	r := remote{}
	if r.name, err = remoteNamed(said); err != nil {
		return remote{}, err
	}
	r.url = said.first("remote." + r.name + ".url")
	if r.url == "" {
		return remote{}, td.Errorf(td.NotFound, "the repository has no remote %q to share the graph with", r.name).
			WithHint("git remote add %s <url>, or git config taskdaemon.remote <name of another>", r.name)
	}
	r.push = cmp.Or(said.first("remote."+r.name+".pushurl"), r.url)
	return r, said.plainRemote()
}

// remoteNamed is the name of the remote, whether there is one or not.
func remoteNamed(said *settings) (string, error) {
	name, ok := said.get("taskdaemon.remote")
	switch {
	case !ok:
		return "origin", nil
	case !remoteName().MatchString(name):
		return "", td.Errorf(td.Invalid, "the setting taskdaemon.remote is no name of a remote: %.100q", name).
			WithHint("git config taskdaemon.remote origin")
	}
	return name, nil
}

// programSettings make git run a program of the setting's choice when it speaks with a remote.
var programSettings = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(core\.(sshcommand|gitproxy|askpass|alternaterefscommand)|credential\.(.*\.)?helper|remote\..*\.(uploadpack|receivepack|vcs))$`)
})

// plainRemote refuses settings of the repository itself that name programs: whoever wrote the repository may have written them, and without
// them the remote may not be reached. The person's own hold.
func (s *settings) plainRemote() error {
	for _, one := range s.local {
		if programSettings().MatchString(one.key) {
			return td.Errorf(td.Refused, "the repository's own setting %s names a program to run", one.key).
				WithHint("if it is yours: git config --global %s <value>, then git config --unset-all %s", one.key, one.key)
		}
	}
	return nil
}

// fetch gets the remote's branch and returns its commit, empty when there is none.
func (g *Graph) fetch(ctx context.Context, r remote) (string, error) {
	track := trackingRef(r.name)
	at, err := g.tip(ctx, track)
	if err != nil {
		return "", err
	}
	var got string
	p, err := g.peer(r, r.url)
	switch {
	case err != nil:
		return "", err
	case p != nil:
		got, err = g.fetchFrom(ctx, p, at)
	default:
		got, err = g.fetchFar(ctx, r, at)
	}
	if err != nil || got == "" || got == at {
		return got, err
	}
	return got, g.moveRef(ctx, track, got, at)
}

// fetchFar is fetch over the network.
func (g *Graph) fetchFar(ctx context.Context, r remote, at string) (string, error) {
	head, err := g.tip(ctx, graphRef)
	if err != nil {
		return "", err
	}
	b, err := g.bridge(ctx, r.url, at, head)
	if err != nil {
		return "", err
	}
	defer b.remove()
	_, err = b.run(ctx, r.name, "fetch", "--quiet", "--no-tags", "--no-prune", "--no-recurse-submodules", "--no-write-fetch-head", "--no-filter",
		"--refmap=", "--upload-pack=git-upload-pack", "--end-of-options", b.url, "+"+graphRef+":"+bridgeGot)
	if err != nil && strings.Contains(err.Error(), "couldn't find remote ref") {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return textOf(filepath.Join(b.dir, bridgeGot)), nil
}

func trackingRef(remote string) string { return "refs/remotes/" + remote + "/" + graphBranch }

// push sends a commit to the remote's branch. It is not done when the branch has something that the commit has not.
func (g *Graph) push(ctx context.Context, r remote, commit string) (done bool, err error) {
	p, err := g.peer(r, r.push)
	switch {
	case err != nil:
		return false, err
	case p != nil:
		done, err = g.pushTo(ctx, p, commit)
	default:
		done, err = g.pushFar(ctx, r, commit)
	}
	if err != nil || !done {
		return done, err
	}
	track := trackingRef(r.name)
	at, err := g.tip(ctx, track)
	if err == nil && at != commit {
		err = g.moveRef(ctx, track, commit, at)
	}
	return true, err
}

// pushFar is push over the network.
func (g *Graph) pushFar(ctx context.Context, r remote, commit string) (done bool, err error) {
	b, err := g.bridge(ctx, r.push, commit)
	if err != nil {
		return false, err
	}
	defer b.remove()
	out, err := b.run(ctx, r.name, "push", "--porcelain", "--no-verify", "--no-signed", "--no-follow-tags", "--recurse-submodules=no",
		"--receive-pack=git-receive-pack", "--end-of-options", b.url, commit+":"+graphRef)
	if err == nil {
		return true, nil
	}
	verdict := string(out)
	if late(verdict) {
		return false, nil
	}
	if strings.Contains(verdict, "[remote rejected]") {
		refused := td.Errorf(td.Refused, "push %s to %s: it said %.500q", graphBranch, r.name, verdict)
		if strings.Contains(verdict, "checked out") {
			return false, refused.WithHint("share the graph through a bare repository: git init --bare")
		}
		return false, refused.WithHint("ask who keeps %s why", r.name)
	}
	return false, err
}

// late reports whether a push was refused because somebody else pushed first.
func late(verdict string) bool {
	for l := range strings.Lines(verdict) {
		if !strings.HasPrefix(l, "!") {
			continue
		}
		if strings.Contains(l, "[rejected]") {
			return true
		}
		for _, race := range []string{"cannot lock ref", "failed to lock", "failed to update ref", "incorrect old value"} {
			if strings.Contains(l, race) {
				return true
			}
		}
	}
	return false
}

// farSigns are words of git and ssh that tell why a remote did not answer.
var farSigns = []struct {
	words string
	kind  td.Kind
	why   string
	hint  string
}{
	{"Authentication failed", td.Auth, "it did not accept who you are", "git fetch, and give the remote what it asks for"},
	{"could not read Username", td.Auth, "it asks who you are", "git fetch, and give the remote what it asks for"},
	{"Permission denied (", td.Auth, "it did not accept your key", "ssh-add, then try again"},
	{"Host key verification failed", td.Auth, "its host key is not known", "connect to it once with ssh"},
	{"does not appear to be a git repository", td.Unavailable, "there is no repository there", "git remote -v"},
	{"Repository not found", td.Unavailable, "there is no repository there", "git remote -v"},
	{"transport '", td.Refused, "its kind of address is not allowed", "use a file, ssh or https address"},
	{"Could not resolve host", td.Unavailable, "this machine seems to be offline", offlineHint},
	{"Could not read from remote repository", td.Unavailable, "it cannot be reached", offlineHint},
	{"unable to access", td.Unavailable, "it cannot be reached", offlineHint},
	{"unable to connect", td.Unavailable, "it cannot be reached", offlineHint},
	{"early EOF", td.Unavailable, "the connection broke", offlineHint},
	{"hung up", td.Unavailable, "the connection broke", offlineHint},
}

const offlineHint = "everything is committed here; taskdaemon sync when the remote can be reached"
