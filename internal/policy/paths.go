package policy

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// match says whether a path is what a rule is about. Paths with marks may be: that is never enough to
// deny, and always enough to ask.
type match int

const (
	no match = iota
	could
	yes
)

// parts are the names in a path, split once: the floor compares a path with many.
type parts []string

func split(paths []string) []parts {
	out := make([]parts, len(paths))
	for i, p := range paths {
		out[i] = segments(p)
	}
	return out
}

// under matches a path with a base folder or file: yes when it is the base or below it. Parts of the base
// may be globs.
func under(p, base string) match {
	if base == "" {
		return no
	}
	return segments(p).under(segments(base))
}

func (ps parts) under(base parts) match {
	result := yes
	for i, b := range base {
		if i >= len(ps) {
			return no
		}
		s := ps[i]
		switch {
		case s == b:
		case strings.ContainsRune(s, markBelow):
			return could
		case globbed(s):
			if !globMatches(s, b) {
				return no
			}
			result = could
		case !isGlob(b):
			return no
		default:
			if ok, err := path.Match(b, s); err != nil || !ok {
				return no
			}
		}
	}
	return result
}

func isGlob(s string) bool { return strings.ContainsAny(s, "*?[") }

// above matches a path with something that must not be destroyed: yes when it is that or a folder around
// it, or everything in such a folder.
func above(p, kept string) match {
	if kept == "" {
		return no
	}
	return segments(p).above(segments(kept))
}

func (ps parts) above(kept parts) match {
	all := false // it is written as everything in a folder
	for len(ps) > 0 && strings.Trim(ps[len(ps)-1], "\x02\x04") == "" {
		ps, all = ps[:len(ps)-1], true
	}
	if len(ps) > len(kept) {
		return no
	}
	result := yes
	for i, s := range ps {
		switch {
		case s == kept[i]:
		case !globbed(s) || !globMatches(s, kept[i]):
			return no
		default:
			result = could
		}
	}
	if all && len(ps) == len(kept)-1 && strings.HasPrefix(kept[len(kept)-1], ".") {
		return could // a glob leaves out names with a dot
	}
	return result
}

// segments are the parts of an absolute path; the root has none.
func segments(p string) parts {
	p = strings.Trim(p, "/")
	if p == "" {
		return nil
	}
	return strings.Split(p, "/")
}

// globMatches reports whether a part of a path with marks may be the name b, which may be a glob itself.
func globMatches(s, b string) bool {
	if isGlob(b) {
		return true
	}
	if strings.HasPrefix(b, ".") && (s[0] == markMany || s[0] == markOne) {
		return false // a glob leaves out names with a dot
	}
	esc := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, "\x02", "*", "\x03", "?", "\x04", "*").Replace(s)
	ok, err := path.Match(esc, b)
	return ok || err != nil
}

// canonical makes a path what the kernel would make of it: absolute in dir, symlinks followed before "..",
// the detours through /proc undone. From the first part with a mark on, nothing is followed.
func (p *Policy) canonical(dir, word string, links map[string]string) string {
	if !strings.HasPrefix(word, "/") {
		word = dir + "/" + word
	}
	if len(word) > maxPath {
		if word = path.Clean(word); len(word) > maxPath {
			return word // nothing opens it, and following each part of it would take long
		}
	}
	cur := "/"
	parts := segments(word)
	for i, s := range parts {
		switch {
		case s == "" || s == ".":
		case s == "..":
			cur = path.Dir(cur)
		case !certain(s):
			rest := path.Clean("/" + strings.Join(parts[i:], "/"))
			return path.Clean(p.follow(cur, dir, links, true) + rest)
		default:
			cur = p.follow(path.Join(cur, s), dir, links, slices.Contains(parts[i:], "..") || i == len(parts)-1)
		}
	}
	return cur
}

// follow resolves one step of a path.
func (p *Policy) follow(cur, dir string, links map[string]string, ask bool) string {
	if to, ok := links[cur]; ok {
		return to
	}
	if strings.HasPrefix(cur, "/proc/") {
		ps := segments(cur)
		last := ps[len(ps)-1]
		switch {
		case len(ps) >= 3 && last == "root":
			return "/"
		case last == "cwd" && len(ps) == 3 && (ps[1] == "self" || ps[1] == "thread-self"):
			return dir
		}
		return cur
	}
	if cur == "/dev/stdin" || cur == "/dev/stdout" || cur == "/dev/stderr" || strings.HasPrefix(cur, "/dev/fd") {
		return cur
	}
	if !ask {
		return cur
	}
	return filepath.Clean(p.place.Resolve(cur))
}

// inWorkspace reports whether a path may be written without asking where the mode allows edits.
func (p *Policy) inWorkspace(path string) bool {
	if under(path, p.place.Workspace) == yes {
		return true
	}
	return slices.ContainsFunc(p.place.Temp, func(t string) bool { return under(path, t) == yes })
}

// harmlessSink reports whether writing to a path changes nothing.
func harmlessSink(path string) bool {
	switch path {
	case "/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty", "/dev/full", "/dev/zero":
		return true
	}
	return strings.HasPrefix(path, "/dev/fd/")
}

// harmlessReads are folders outside the workspace whose content is the same on every machine, or says
// nothing of the person: programs, libraries, documentation, settings of the system. The floor takes the
// secrets among them out before.
var harmlessReads = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/etc", "/nix/store", "/snap",
	"/proc/cpuinfo", "/proc/meminfo", "/proc/version", "/proc/loadavg", "/proc/uptime", "/proc/filesystems",
	"/proc/mounts", "/proc/stat", "/proc/sys", "/sys/class", "/sys/devices", "/sys/fs/cgroup",
	"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/stdin", "/dev/fd",
}

var harmlessReadParts = split(harmlessReads)

// harmlessHome are folders of the home that only hold what was downloaded from public places.
var harmlessHome = []string{"go/pkg/mod", ".cargo/registry", ".rustup/toolchains", ".cache/go-build"}

func (p *Policy) mayRead(path string) bool {
	if p.inWorkspace(path) {
		return true
	}
	ps := segments(path)
	if slices.ContainsFunc(harmlessReadParts, func(base parts) bool { return ps.under(base) == yes }) {
		return true
	}
	return slices.ContainsFunc(harmlessHome, func(h string) bool { return under(path, p.place.Home+"/"+h) == yes })
}

// sensitive reports whether a file of the workspace is likely to hold secrets: it is asked about, and a
// rule may allow it.
func sensitive(p string) bool {
	base := strings.ToLower(path.Base(p))
	for _, end := range []string{".example", ".sample", ".template", ".dist", ".pub"} {
		if strings.HasSuffix(base, end) {
			return false
		}
	}
	for _, glob := range []string{".env", ".env.*", "*.pem", "*.key", "*.p12", "*.pfx", "*.kdbx", "id_rsa", "id_ed25519", "id_ecdsa", "id_dsa", ".netrc", ".npmrc", ".pypirc", ".git-credentials", "credentials.json", "*.tfstate"} {
		if ok, _ := path.Match(glob, base); ok || globbed(base) && strings.HasPrefix(base, ".") && globMatches(base, glob) {
			return true
		}
	}
	return false
}

// judgePath records the use of a path, with what the floor says of it. Soft turns a deny into an ask: the
// path is only one of those that may be meant.
func (p *Policy) judgePath(r *report, u use, soft bool) {
	f, kept := p.floorPath(u.path, u.access, u.destroys)
	if !kept && r.gitLeads(u) {
		kept = true
		f = finding{verdict: Deny, rule: floorHooks, why: readable(u.path) + " leads git to a repository whose hooks and settings it runs."}
	}
	if kept && soft {
		f.verdict = Ask
	}
	if kept {
		r.add(f.verdict, f.rule, "%s", f.why)
	}
	switch u.access {
	case Write:
		u.outside = !p.inWorkspace(u.path) && !harmlessSink(u.path)
	default:
		u.secret = sensitive(u.path)
		u.outside = u.secret || !p.mayRead(u.path) && !harmlessSink(u.path)
	}
	if slices.Contains(r.uses, u) {
		return
	}
	if len(r.uses) >= maxUses {
		r.full = true
		return
	}
	r.uses = append(r.uses, u)
}
