package config

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/td"
)

// ProjectFile is the file in a workspace in which a project keeps rules. They can only tighten.
const ProjectFile = ".taskdaemon.yaml"

// Rule is one entry of `rules:`: exactly one of Allow, Ask and Deny, as package policy reads them.
type Rule struct {
	Allow string    `yaml:"allow"`
	Ask   string    `yaml:"ask"`
	Deny  string    `yaml:"deny"`
	In    string    `yaml:"in"`  // the folder it holds in; empty: everywhere
	Why   string    `yaml:"why"` // told to the model and to people
	By    string    `yaml:"by"`
	At    time.Time `yaml:"at"`
	// Untrusted says that an allow holds for tasks as well that have read untrusted text: see permissions.untrusted.
	Untrusted bool   `yaml:"untrusted"`
	Where     string `yaml:"-"`
	Line      int    `yaml:"-"`
}

// Verdict is which of the three it is, and what it matches.
func (r Rule) Verdict() (verdict, match string) {
	switch {
	case r.Deny != "":
		return "deny", r.Deny
	case r.Ask != "":
		return "ask", r.Ask
	}
	return "allow", r.Allow
}

// MaxRate is the largest limit of a rate: so many calls of a task are remembered for sure.
const MaxRate = 256

// Rate is one entry of `rates:`: how often a tool may be called.
type Rate struct {
	Tool  string        `yaml:"tool"`
	Limit int           `yaml:"limit"`
	Per   time.Duration `yaml:"per"`
	Where string        `yaml:"-"`
}

// ReadProjectRules reads the project file of a workspace, whose path was resolved. Whoever wrote the repository decides what has
// that name: a symbolic link is refused, since what is wrong with the file that it leads to would be told to the model.
func ReadProjectRules(dir string) ([]Rule, error) {
	path := filepath.Join(dir, ProjectFile)
	folder, err := beneath.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, td.Errorf(td.Invalid, "read rules of %s: %w", dir, err)
	}
	defer folder.Close()
	data, _, err := folder.Read(ProjectFile, MaxFileSize)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, beneath.ErrLink):
		return nil, td.Errorf(td.Invalid, "%s is a symbolic link; rules must be in a file of the project", path).
			WithHint("put the file itself there")
	case errors.Is(err, beneath.ErrNotRegular):
		return nil, td.Errorf(td.Invalid, "read rules: %s is not a file", path)
	case errors.Is(err, beneath.ErrTooLarge):
		return nil, td.Errorf(td.Invalid, "%s: larger than %s", path, Size(MaxFileSize))
	case err != nil:
		return nil, td.Errorf(td.Invalid, "read rules: %w", err).WithHint("chmod u+r %s", path)
	}
	return ParseRules(path, data)
}

// ReadRules reads a file that holds rules and nothing else. One that does not exist holds none.
func ReadRules(path string) ([]Rule, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, td.Errorf(td.Invalid, "read rules: %w", err).WithHint("chmod u+r %s", path)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, td.Errorf(td.Invalid, "read rules: %s is not a file", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	if err != nil {
		return nil, td.Errorf(td.Invalid, "read rules: %w", err)
	}
	return ParseRules(path, data)
}

// ParseRules reads the text of such a file.
func ParseRules(path string, data []byte) ([]Rule, error) {
	if len(data) > MaxFileSize {
		return nil, td.Errorf(td.Invalid, "%s: larger than %s", path, Size(MaxFileSize))
	}
	c := Default()
	c.sources = map[string]Source{}
	if err := parse(&c, path, data); err != nil {
		return nil, err
	}
	for _, k := range Keys {
		if c.sources[k.Name] == FromFile {
			return nil, td.Errorf(td.Invalid, "%s: %s does not belong here: the file holds rules only", path, k.Name).
				WithHint("move %s to the file of: taskdaemon config path", k.Name)
		}
	}
	if len(c.Hooks)+len(c.MCP)+len(c.Providers)+len(c.Fallback)+len(c.Windows)+len(c.Rates)+len(c.Resources)+len(c.Projects) > 0 {
		return nil, td.Errorf(td.Invalid, "%s: it may hold rules only", path).WithHint("move the rest to the file of: taskdaemon config path")
	}
	return c.Rules, nil
}

// rules reads `rules:`.
func rules(r *reader, n ast.Node) error {
	before := len(r.c.Rules)
	var at []*token.Token
	if seq, ok := n.(*ast.SequenceNode); ok {
		for _, item := range seq.Values {
			at = append(at, item.GetToken())
		}
	}
	read := list("rules", func(c *Config) *[]Rule { return &c.Rules }, func(u *Rule, at string) { u.Where = at })
	if err := read(r, n); err != nil {
		return err
	}
	for i := range r.c.Rules[before:] {
		u := &r.c.Rules[before+i]
		if t := at[i]; t != nil && t.Position != nil {
			u.Line = t.Position.Line
		}
		set := 0
		for _, s := range []string{u.Allow, u.Ask, u.Deny} {
			if s != "" {
				set++
			}
		}
		if set != 1 {
			return r.fail(at[i], "a rule has one of allow, ask and deny, such as: {deny: \"Bash(git push *)\"}")
		}
		if u.Untrusted && u.Allow == "" {
			return r.fail(at[i], "untrusted belongs to allow: ask and deny hold for every task")
		}
		if u.In != "" {
			if u.In = resolvePath(u.In, filepath.Dir(r.path)); !filepath.IsAbs(u.In) {
				return r.fail(at[i], "in: %s is no folder's path", clip(u.In))
			}
		}
	}
	return nil
}

// rates reads `rates:`.
func rates(r *reader, n ast.Node) error {
	before := len(r.c.Rates)
	if err := list("rates", func(c *Config) *[]Rate { return &c.Rates }, func(u *Rate, at string) { u.Where = at })(r, n); err != nil {
		return err
	}
	for i := range r.c.Rates[before:] {
		u := &r.c.Rates[before+i]
		if u.Per == 0 {
			u.Per = time.Minute
		}
		if u.Tool == "" || u.Limit < 1 || u.Limit > MaxRate || u.Per < time.Second {
			return r.fail(n.GetToken(), "a rate names a tool and how often it may be called, at most %d times, such as: {tool: Bash, limit: 30, per: 1m}", MaxRate)
		}
	}
	return nil
}

func permissionModes() []string {
	names := make([]string, len(td.PermissionModes))
	for i, m := range td.PermissionModes {
		names[i] = string(m)
	}
	return names
}
