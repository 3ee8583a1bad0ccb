package git

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"taskdaemon/internal/gitfile"
	"taskdaemon/internal/td"
)

// bridge is a repository of ours through which the graph is exchanged with a remote over the network. It has no settings but those of the person that say how to
// reach one, so that nothing that the person's repository says has a part in it; objects are read from and written to that one.
type bridge struct {
	dir     string
	objects string
	url     string
}

const (
	bridgeHave = "refs/heads/have-"
	bridgeGot  = "refs/heads/got"
)

// bridge makes one to a remote. Commits that are here already need not be fetched.
func (g *Graph) bridge(ctx context.Context, url string, have ...string) (b *bridge, err error) {
	said, err := configs.of(ctx, siteOf(g.call(false)))
	if err != nil {
		return nil, err
	}
	b = &bridge{objects: filepath.Join(g.common, "objects"), url: url}
	if _, err = said.lenders(siteOf(g.call(false))); err != nil {
		return nil, err
	}
	if b.dir, err = apart(); err != nil { // its settings name programs of the person's, which are run
		return nil, err
	}
	defer func() {
		if err != nil {
			b.remove()
		}
	}()
	if _, err := run(ctx, call{dir: b.dir, own: true, args: []string{
		"init", "--quiet", "--bare", "--template=", "--initial-branch=main", "--object-format=" + formatOf(g.format), ".",
	}}); err != nil {
		return nil, err
	}
	return b, b.fill(g.common, said, have)
}

func formatOf(letters int) string {
	if letters == 64 {
		return "sha256"
	}
	return "sha1"
}

func (b *bridge) remove() { _ = os.RemoveAll(filepath.Dir(b.dir)) }

// fill gives the bridge the settings to reach a remote with, and refs that say what is here.
func (b *bridge) fill(common string, said *settings, have []string) error {
	f, err := os.OpenFile(filepath.Join(b.dir, "config"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return td.Errorf(td.Storage, "make bridge: %w", err)
	}
	_, err = f.WriteString(said.wayOut())
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	for i, commit := range have {
		if commit != "" && err == nil {
			err = os.WriteFile(filepath.Join(b.dir, fmt.Sprintf("%s%d", bridgeHave, i)), []byte(commit+"\n"), 0o600)
		}
	}
	if shallow, rerr := gitfile.Read(filepath.Join(common, "shallow"), mostShallow); rerr == nil && err == nil {
		err = os.WriteFile(filepath.Join(b.dir, "shallow"), shallow, 0o600)
	}
	if err != nil {
		return td.Errorf(td.Storage, "make bridge: %w", err)
	}
	return nil
}

// wayOut are the person's own settings that say how to reach remotes, as a file of settings. Programs are among them: they are the person's.
func (s *settings) wayOut() string {
	var b strings.Builder
	for _, one := range s.person {
		section, rest, _ := strings.Cut(one.key, ".")
		if !slices.Contains([]string{"credential", "http", "url", "ssh"}, section) && one.key != "core.sshcommand" && one.key != "core.gitproxy" && one.key != "core.askpass" {
			continue
		}
		name, sub := rest, ""
		if at := strings.LastIndexByte(rest, '.'); at >= 0 {
			name, sub = rest[at+1:], ` "`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(rest[:at])+`"`
		}
		if !strings.ContainsAny(rest+one.value, "\x00") && !strings.Contains(rest, "\n") {
			fmt.Fprintf(&b, "[%s%s]\n\t%s = \"%s\"\n", section, sub, name, quoteSetting.Replace(one.value))
		}
	}
	return b.String()
}

// localRemote is the folder of a remote on this machine, empty for one that is reached over a network.
func localRemote(top, url string) (string, error) {
	if scheme, rest, is := strings.Cut(url, "://"); is {
		if scheme != "file" {
			return "", nil
		}
		return real(strings.TrimPrefix(rest, "localhost")), nil
	}
	before, _, colon := strings.Cut(url, ":")
	switch {
	case colon && strings.HasPrefix(url, before+"::"):
		return "", td.Errorf(td.Refused, "the address %.100q names a program to run", url).WithHint("use a file, ssh or https address")
	case colon && !strings.Contains(before, "/"):
		return "", nil // host:path
	case strings.HasPrefix(url, "-") || url == "":
		return "", td.Errorf(td.Invalid, "%.100q is no address of a repository", url).WithHint("git remote -v")
	}
	return real(gitfile.Beside(top, url)), nil
}

// run runs a git that speaks with the remote over the network. It needs the person's keys and programs, and gets them, without a view; of a
// repository's own it has nothing.
func (b *bridge) run(ctx context.Context, name string, args ...string) ([]byte, error) {
	env := append([]string{"GIT_DIR=" + b.dir, "GIT_OBJECT_DIRECTORY=" + b.objects}, farEnviron()...)
	c := call{dir: b.dir, own: true, far: true, keep: true, env: env, args: args}
	at := site{git: b.dir, common: b.dir}
	out, err := runIn(ctx, c, at)
	if err == nil || td.IsKind(err, td.Interrupted) {
		return out, err
	}
	for _, s := range farSigns {
		if strings.Contains(err.Error(), s.words) {
			return out, &td.Error{Kind: s.kind, Hint: s.hint, Err: fmt.Errorf("reach %s: %s: %w", name, s.why, err)}
		}
	}
	return out, err
}

// farPassed are the variables that a git gets that speaks with a remote over the network: where the person's keys and programs are, and how to get there.
var farPassed = []string{
	"PATH", "HOME", "USER", "LOGNAME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
}

func farEnviron() []string {
	// Addresses of other kinds are commands, and one on this machine is a peer.
	env := []string{"GIT_ALLOW_PROTOCOL=git:http:https:ssh"}
	for _, name := range farPassed {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}
