package rulebook

import (
	"fmt"
	"path/filepath"

	"taskdaemon/internal/config"
	"taskdaemon/internal/policy"
	"taskdaemon/internal/td"
)

// Problem is something about a rule that its author should know, though the rules can be used.
type Problem struct {
	Where string `json:"where"` // file and line
	Text  string `json:"text"`
}

// Check goes through all rules of a workspace. One that cannot be read is an error with its file and line; so
// is one of the project that loosens. Rules that others hide, that are there twice or that nothing can match
// are problems.
func (b *Book) Check(dir string) ([]Problem, error) {
	var rules []policy.Rule
	add := func(r policy.Rule, where string) error {
		if err := policy.Check(r); err != nil {
			return td.Errorf(td.Invalid, "%s: %w", where, err).WithHint("edit %s", where)
		}
		if err := policy.Tightens(r); err != nil {
			return td.Errorf(td.Invalid, "%s: %w", where, err)
		}
		rules = append(rules, r)
		return nil
	}
	for i, r := range b.fixed {
		r.From = b.wheres[i]
		if err := add(r, b.wheres[i]); err != nil {
			return nil, err
		}
	}
	project := filepath.Join(dir, config.ProjectFile)
	for _, file := range []string{b.file, project} {
		read, err := config.ReadRules(b.file)
		if file == project {
			read, err = config.ReadProjectRules(dir)
		}
		if err != nil {
			return nil, err
		}
		for _, r := range read {
			where := fmt.Sprintf("%s:%d", file, r.Line)
			rule := ruleOf(r, where)
			if file == project {
				rule.From = policy.FromProject
			}
			if err := add(rule, where); err != nil {
				return nil, err
			}
			rules[len(rules)-1].From = where
		}
	}
	var out []Problem
	for _, p := range policy.Contradictions(rules) {
		out = append(out, Problem{Where: p.Rule.From, Text: p.Text})
	}
	return out, nil
}
