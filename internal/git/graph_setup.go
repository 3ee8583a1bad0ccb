package git

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/gitfile"
	"taskdaemon/internal/td"
)

var fpGraphBranch = failpoint.New("git.graph.before_branch")

// graphAttributes keep git from changing a byte of a file, and name the driver that merges GraphFile.
const graphAttributes = `# Files are kept byte by byte.
* -text
` + GraphFile + ` merge=` + graphDriver + `
`

const graphDriver = "taskdaemon-graph"

// SetupGraph makes the graph branch of the repository around dir, or takes the one that is here or was fetched,
// and checks it out in the folder .taskdaemon. What was in the folder is put back into it, beside the branch's
// where they differ (conflicts are the names it then has). It may be called again at any time, and ends what a crash has left half done. NotFound when
// dir is not under git; Conflict when something of the user's stands in the way.
//
// What the folder then holds is not committed yet.
func SetupGraph(ctx context.Context, dir string, o GraphOptions) (g *Graph, conflicts []string, err error) {
	g, err = locateGraph(ctx, dir, o)
	if err != nil {
		return nil, nil, err
	}
	unlock, err := g.lock(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	if g.Hold != nil {
		release, err := g.Hold(ctx)
		if err != nil {
			return nil, nil, err
		}
		defer release()
	}
	for _, step := range []func(context.Context) error{
		g.refuse, g.exclude, g.driver, g.branch, g.link, g.fit, g.fill,
	} {
		if err := step(ctx); err != nil {
			return nil, nil, err
		}
	}
	if conflicts, err = g.putBack(ctx); err != nil {
		return nil, nil, err
	}
	return g, conflicts, nil
}

func (g *Graph) fill(ctx context.Context) error {
	_, err := g.settle(ctx)
	return err
}

// refuse fails when something that is the user's stands in the way.
func (g *Graph) refuse(ctx context.Context) error {
	out, err := run(ctx, call{dir: g.root, args: []string{"ls-files", "-z", "--", ":(top,literal)" + graphFolder}})
	if err != nil {
		return err
	}
	if len(out) > 0 {
		return td.Errorf(td.Conflict, "%s is tracked by git in this checkout, but the graph has a branch of its own", graphFolder).
			WithHint("git rm -r --cached %s && git commit, then taskdaemon init: the files stay", graphFolder)
	}
	switch info, err := os.Lstat(g.dir); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return td.Errorf(td.Storage, "look at %s: %w", g.dir, err)
	case !info.IsDir():
		return td.Errorf(td.Conflict, "%s is no folder", g.dir).WithHint("move it away, then taskdaemon init")
	}
	if info, err := os.Lstat(filepath.Join(g.dir, ".git")); err == nil && !info.Mode().IsRegular() {
		return td.Errorf(td.Conflict, "%s is a repository of its own", g.dir).WithHint("move it away, then taskdaemon init")
	}
	return nil
}

// exclude keeps the graph and the worktrees of tasks out of the user's sight, in all checkouts and for nobody else.
func (g *Graph) exclude(context.Context) error {
	return exclude(g.common, "/"+graphFolder+"/", "/"+graphFolder+asideMark+"*/", "/"+worktreesFolder+"/")
}

// HideGraph keeps the folder of a graph out of the user's commits, for whoever makes it before there is a graph: what lies
// there goes to a branch of its own, and what the user's branch has of it stands in the way of that. Where there is no
// repository, or one that is gone, there is nothing to do.
func HideGraph(dir string) error {
	common := CommonDir(dir)
	if info, err := os.Stat(common); common == "" || err != nil || !info.IsDir() {
		return nil
	}
	return exclude(common, "/"+graphFolder+"/")
}

// maxExclude is more than anybody writes into such a list.
const maxExclude = 1 << 20

// exclude makes git ignore what the patterns match, in all checkouts of the repository, without a trace in any. A list that is a link is the person's to
// change: it leads anywhere.
func exclude(common string, patterns ...string) error {
	file := filepath.Join(common, "info", "exclude")
	raw, err := gitfile.Read(file, maxExclude)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return td.Errorf(td.Refused, "exclude %s: %w", patterns[0], err).WithHint("see what %s is: git reads it as a list of patterns", file)
	}
	more := excludeLines(string(raw), patterns...)
	if more == "" {
		return nil
	}
	err = addTo(common, "info", "exclude", more)
	switch {
	case errors.Is(err, beneath.ErrLink):
		return td.Errorf(td.Refused, "exclude %s: %s is, or lies behind, a symbolic link, and taskdaemon does not write through one", patterns[0], file).
			WithHint("add to it: %s", td.Words(strings.Join(patterns, " ")))
	case err != nil:
		return td.Errorf(td.Storage, "exclude %s: %w", patterns[0], err)
	}
	return nil
}

// addTo adds text to a file in a folder of git's, which is made if there is none.
func addTo(git, folder, name, text string) error {
	top, err := beneath.Open(real(git))
	if err != nil {
		return err
	}
	defer top.Close()
	in, err := top.Make(folder)
	if err != nil {
		return err
	}
	defer in.Close()
	f, err := in.Append(name, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// excludeLines is what to append to a list of patterns so that it has these.
func excludeLines(list string, patterns ...string) string {
	var have []string
	for l := range strings.Lines(list) {
		have = append(have, strings.TrimRight(l, " \r\n"))
	}
	var more strings.Builder
	for _, p := range patterns {
		if !slices.Contains(have, p) {
			more.WriteString(p + "\n")
		}
	}
	if more.Len() > 0 && list != "" && !strings.HasSuffix(list, "\n") {
		return "\n" + more.String()
	}
	return more.String()
}

// driver tells git how people who merge the branch by hand merge GraphFile.
func (g *Graph) driver(ctx context.Context) error {
	if g.Self == "" {
		return nil
	}
	for _, s := range [][2]string{
		{"merge." + graphDriver + ".name", "changes of taskdaemon's work graph"},
		{"merge." + graphDriver + ".driver", driverCommand(g.Self)},
	} {
		if err := g.configure(ctx, s[0], s[1]); err != nil {
			return err
		}
	}
	return nil
}

// driverCommand is a line for the shell, after git has put the files' names in.
func driverCommand(self string) string {
	quoted := "'" + strings.ReplaceAll(self, "'", `'\''`) + "'"
	return strings.ReplaceAll(quoted, "%", "%%") + " graph merge-driver %O %A %B"
}

// configure gives the repository a setting unless it has it.
func (g *Graph) configure(ctx context.Context, key, value string) error {
	file := filepath.Join(g.common, "config")
	list, err := fileSettings(ctx, file)
	if err != nil {
		return err
	}
	var was []string
	for _, one := range list {
		if one.key == key {
			was = append(was, one.value)
		}
	}
	if slices.Equal(was, []string{value}) {
		return nil
	}
	_, err = runIn(ctx, call{dir: "/", own: true, keep: true, args: []string{"config", "--file", file, "--replace-all", key, value}}, site{write: []string{g.common}})
	return err
}

// branch makes the branch if there is none: where the remote's is, if that was fetched, or anew.
func (g *Graph) branch(ctx context.Context) error {
	head, err := g.tip(ctx, graphRef)
	if err != nil || head != "" {
		return err
	}
	said, err := configs.of(ctx, siteOf(g.call(false)))
	if err != nil {
		return err
	}
	remote, err := remoteNamed(said)
	if err != nil {
		return err
	}
	start, err := g.tip(ctx, trackingRef(remote))
	if err != nil {
		return err
	}
	if start != "" {
		if _, err := g.readTree(ctx, start); err != nil {
			return err
		}
		if err := g.configure(ctx, "branch."+graphBranch+".remote", remote); err != nil {
			return err
		}
		if err := g.configure(ctx, "branch."+graphBranch+".merge", graphRef); err != nil {
			return err
		}
	} else if start, err = g.firstCommit(ctx); err != nil {
		return err
	}
	fpGraphBranch.Hit()
	err = g.moveRef(ctx, graphRef, start, "")
	if td.IsKind(err, td.Conflict) {
		return &td.Error{Kind: td.Conflict, Hint: "if you have a branch of that name: git branch -m taskdaemon <another name>", Err: err}
	}
	return err
}

// firstCommit is the commit that every graph begins with. It is the same everywhere, so that graphs that were made
// apart have something in common.
func (g *Graph) firstCommit(ctx context.Context) (string, error) {
	blob, err := g.putBlob(ctx, strings.NewReader(graphAttributes))
	if err != nil {
		return "", err
	}
	id, _, err := g.writeTree(ctx, tree{".gitattributes": {mode: modePlain, id: blob}})
	if err != nil {
		return "", err
	}
	return g.commitTree(ctx, id, "Work graph of taskdaemon\n", []string{"GIT_AUTHOR_DATE=@0 +0000", "GIT_COMMITTER_DATE=@0 +0000"})
}
