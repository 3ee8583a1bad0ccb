package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/gitfile"
)

// A person's settings of git say who they are, which a commit needs, and may hold tokens: in the address of a proxy or a remote, in an
// extra header, in an alias. So their files are closed like the rest of the home, and commands find a file with the settings of the
// list below, named by GIT_CONFIG_GLOBAL. The file is each command's own, and another command can neither see nor change it: git runs what it names. Not in the
// temp folder, which the commands of a task share: a job could put another file there at any time, for a git that has the network.

// gitSettings are what commands see of a person's settings: who they are and how they want their commits and lines to be. A name
// that ends with a dot is a whole section.
var gitSettings = []string{
	"user.", "author.", "committer.", "init.defaultbranch", "filter.", "diff.algorithm", "diff.renames", "diff.renamelimit", "diff.mnemonicprefix", "diff.noprefix",
	"core.autocrlf", "core.eol", "core.safecrlf", "core.filemode", "core.ignorecase", "core.precomposeunicode", "core.quotepath", "core.symlinks", "core.abbrev",
	"core.excludesfile", "core.attributesfile", "core.whitespace", "core.longpaths", "core.commentchar", "apply.whitespace",
	"commit.gpgsign", "commit.cleanup", "commit.verbose", "tag.gpgsign", "gpg.format", "pull.rebase", "pull.ff", "merge.ff", "merge.conflictstyle", "merge.renames",
	"rebase.autosquash", "rebase.autostash", "rebase.updaterefs", "rebase.missingcommitscheck", "rerere.enabled", "branch.sort", "tag.sort", "push.default", "push.autosetupremote",
	"fetch.prune", "fetch.prunetags", "status.showuntrackedfiles", "status.short", "status.branch", "log.date", "log.abbrevcommit", "color.ui", "column.ui",
	"index.version", "feature.manyfiles", "submodule.recurse", "safe.directory", "advice.", "i18n.commitencoding", "i18n.logoutputencoding",
}

// The names of the folder and the file in it. git makes a file beside the one that it changes.
const (
	gitSettingsDir  = "git"
	gitSettingsFile = "config"
)

// maxGitSettings bounds what is read of a person's settings.
const maxGitSettings = 256 << 10

// gitSetting is one setting: section and variable in small letters, and the subsection between them as it is.
type gitSetting struct{ section, subsection, variable, value string }

func (s gitSetting) allowed() bool {
	return slices.ContainsFunc(gitSettings, func(name string) bool {
		section, variable, _ := strings.Cut(name, ".")
		return section == s.section && (variable == "" || variable == s.variable && s.subsection == "")
	}) && !holdsSecret(s.value)
}

// gitSettingsFiles are where git looks for the settings of the machine and of the person, in its order.
func gitSettingsFiles(getenv func(string) string) []string {
	files := []string{"/etc/gitconfig"}
	home, xdg := getenv("HOME"), getenv("XDG_CONFIG_HOME")
	if xdg == "" && filepath.IsAbs(home) {
		xdg = filepath.Join(home, ".config")
	}
	if filepath.IsAbs(xdg) {
		files = append(files, filepath.Join(xdg, "git", "config"))
	}
	if filepath.IsAbs(home) {
		files = append(files, filepath.Join(home, ".gitconfig"))
	}
	return files
}

// Person is who commits, as the person's own git would say in the workspace.
type Person struct {
	Name  string `json:"name,omitempty"`
	Email string `json:"email,omitempty"`
}

// toldSettings is the text of the file of settings that commands may see. It says who the person is, whatever told git so: a variable, or a file that another one includes.
func toldSettings(getenv func(string) string, person Person) string {
	var settings []gitSetting
	for _, path := range gitSettingsFiles(getenv) {
		some, _ := parseGitSettings(readUpTo(path, maxGitSettings))
		settings = append(settings, some...)
	}
	if person.Name != "" && person.Email != "" {
		settings = append(settings, gitSetting{"user", "", "name", person.Name}, gitSetting{"user", "", "email", person.Email})
	}
	return formatGitSettings(settings, gitSetting.allowed)
}

// tellGit makes the folder of settings of a command that has no mounts, in its spool folder, and returns it. Landlock opens it to this command alone.
func tellGit(spool string, getenv func(string) string, person Person) (dir string, err error) {
	dir = filepath.Join(spool, gitSettingsDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make folder for git settings: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, gitSettingsFile), []byte(toldSettings(getenv, person)), 0o600); err != nil {
		return "", fmt.Errorf("write git settings: %w", err)
	}
	return dir, nil
}

// settingsPlace is where a command that has mounts finds its folder of settings: in one of the folders that hold for it nothing but what it needs,
// and that none can write. Empty: there is none.
func (p Profile) settingsPlace() string {
	sifted := p.sifted()
	for _, dir := range append([]string{"/run", "/etc"}, sifted...) {
		if slices.Contains(sifted, dir) {
			return filepath.Join(dir, "taskdaemon-"+gitSettingsDir)
		}
	}
	return ""
}

// mountSettings gives the calling thread's namespace a folder of settings that is in no other one.
func (p Profile) mountSettings(place, text string) error {
	if err := unix.Mount("tmpfs", place, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=700,size=4m,nr_inodes=64"); err != nil {
		return fmt.Errorf("cover %s: %w", place, err)
	}
	if err := os.WriteFile(filepath.Join(place, gitSettingsFile), []byte(text), 0o600); err != nil {
		return fmt.Errorf("write git settings: %w", err)
	}
	if !p.Outside {
		return nil
	}
	return unix.MountSetattr(unix.AT_FDCWD, place, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

func readUpTo(path string, most int64) string {
	raw, _ := gitfile.Read(path, most)
	return string(raw)
}

// GitSetting is the last value of a setting without a subsection in the text of a file of them; empty when there is none.
func GitSetting(text, section, variable string) string { return GitSection(text, section)[variable] }

// GitSection are the settings of a section in the text of a file of them, each with its last value. Names are in lower case, and begin with the subsection if there is one.
func GitSection(text, section string) map[string]string {
	settings, _ := parseGitSettings(text)
	found := map[string]string{}
	for _, s := range settings {
		switch {
		case s.section != section:
		case s.subsection != "":
			found[s.subsection+"."+s.variable] = s.value
		default:
			found[s.variable] = s.value
		}
	}
	return found
}

// parseGitSettings reads a file of settings as git does, up to the first thing that git would not understand; complete says that there is none. What git would understand in a way that
// has no place in a gitSetting is not complete either: a section without a name, a name cut by a zero byte. Other files that it includes are left out.
func parseGitSettings(text string) (out []gitSetting, complete bool) {
	text = strings.TrimPrefix(strings.ReplaceAll(text, "\r\n", "\n"), "\ufeff")
	if strings.ContainsRune(text, 0) {
		text, _, _ = strings.Cut(text, "\x00")
		out, _ = parseGitSettings(text)
		return out, false
	}
	var at gitSetting
	for {
		text = strings.TrimLeft(text, gitSpace+"\n")
		switch {
		case text == "":
			return out, true
		case text[0] == '#' || text[0] == ';':
			_, text, _ = strings.Cut(text, "\n")
		case text[0] == '[':
			var ok bool
			if at, text, ok = parseGitSection(text[1:]); !ok {
				return out, false
			}
		default:
			one, rest, ok := parseGitVariable(at, text)
			if !ok {
				return out, false
			}
			out, text = append(out, one), rest
		}
	}
}

// gitSpace is what git takes for space within a line.
const gitSpace = " \t\r"

// parseGitVariable reads a name and its value, in a section.
func parseGitVariable(at gitSetting, text string) (one gitSetting, rest string, ok bool) {
	end := strings.IndexFunc(text, func(r rune) bool { return !nameRune(r) })
	if end < 0 {
		end = len(text)
	}
	if end == 0 || at.section == "" || text[0] == '-' || text[0] >= '0' && text[0] <= '9' {
		return one, "", false
	}
	one = at
	one.variable, text = strings.ToLower(text[:end]), strings.TrimLeft(text[end:], " \t")
	if rest, is := strings.CutPrefix(text, "="); is {
		one.value, rest, ok = parseGitValue(rest)
		return one, rest, ok
	}
	one.value = "true" // a name alone
	return one, text, text == "" || text[0] == '\n'
}

func nameRune(r rune) bool {
	return r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) || r == '-'
}

// parseGitSection reads what follows the bracket: name], or name "subsection"]. A dot in the name begins the subsection.
func parseGitSection(text string) (at gitSetting, rest string, ok bool) {
	end := strings.IndexFunc(text, func(r rune) bool { return !nameRune(r) && r != '.' })
	if end <= 0 {
		return at, "", false
	}
	section, sub, dotted := strings.Cut(strings.ToLower(text[:end]), ".")
	if section == "" || dotted && sub == "" {
		return at, "", false
	}
	at.section, at.subsection = section, sub
	text = text[end:]
	if rest, ok := strings.CutPrefix(text, "]"); ok {
		return at, rest, true
	}
	quoted := strings.TrimLeft(text, gitSpace)
	if quoted == text || !strings.HasPrefix(quoted, `"`) {
		return at, "", false
	}
	text = quoted[1:]
	var name strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			if dotted {
				sub += "."
			}
			at.subsection = sub + name.String()
			rest, ok := strings.CutPrefix(text[i+1:], "]")
			return at, rest, ok && at.subsection != ""
		case '\n':
			return at, "", false
		case '\\':
			if i++; i == len(text) || text[i] == '\n' {
				return at, "", false
			}
			name.WriteByte(text[i])
		default:
			name.WriteByte(c)
		}
	}
	return at, "", false
}

// parseGitValue reads a value to the end of its line, which a backslash continues.
func parseGitValue(text string) (value, rest string, ok bool) {
	var out strings.Builder
	quoted, pending := false, 0 // spaces that count only if something follows
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\n':
			return out.String(), text[i+1:], !quoted
		case !quoted && (c == '#' || c == ';'):
			_, rest, _ = strings.Cut(text[i:], "\n")
			return out.String(), rest, true
		case !quoted && strings.IndexByte(gitSpace, c) >= 0:
			if out.Len() > 0 {
				pending++
			}
			continue
		}
		out.WriteString(strings.Repeat(" ", pending))
		pending = 0
		switch c {
		case '"':
			quoted = !quoted
		case '\\':
			if i++; i == len(text) {
				return out.String(), "", !quoted // as if a line followed
			}
			plain, known := map[byte]string{'t': "\t", 'b': "\b", 'n': "\n", '\\': `\`, '"': `"`, '\n': ""}[text[i]]
			if !known {
				return "", "", false
			}
			out.WriteString(plain)
		default:
			out.WriteByte(c)
		}
	}
	return out.String(), "", !quoted
}

var gitQuote = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\b", `\b`)

// oddInSetting are letters that are not written to a file of settings.
const oddInSetting = "\x00\r\v\f"

// formatGitSettings is a file of those of the settings that are allowed.
func formatGitSettings(settings []gitSetting, allowed func(gitSetting) bool) string {
	var out strings.Builder
	for _, s := range settings {
		if !allowed(s) || strings.ContainsAny(s.subsection+s.value, oddInSetting) || strings.Contains(s.subsection, "\n") {
			continue
		}
		out.WriteString("[" + s.section)
		if s.subsection != "" {
			out.WriteString(` "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s.subsection) + `"`)
		}
		out.WriteString("]\n\t" + s.variable + ` = "` + gitQuote.Replace(s.value) + "\"\n")
	}
	return out.String()
}
