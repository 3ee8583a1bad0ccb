package policy

import "strings"

// Origin is who brought a tool. The tool carries it: its name never tells.
type Origin string

// The origins.
const (
	Builtin      Origin = ""
	Server       Origin = "MCP server"    // one that the person's config names
	UserSkill    Origin = "user skill"    // of the person's own folder
	ProjectSkill Origin = "project skill" // it came with the repository
)

// ServerPrefix begins the names of all tools of MCP servers, and of no others.
const ServerPrefix = "mcp__"

// permits reports whether an allow rule is about this tool of this origin. A rule speaks of one origin, so that no tool
// is allowed by a rule that was made for those of another. A tool that came with the repository is allowed by
// what it runs, or by a rule for the folder that it is in.
func (c compiled) permits(tool, bound string, origin Origin) bool {
	if !c.names(tool, bound) {
		return false
	}
	all := strings.Trim(c.tool, "*") == ""
	switch origin {
	case Server:
		return all || c.speaks() == Server
	case UserSkill:
		return all || c.speaks() == UserSkill
	case ProjectSkill:
		return c.speaks() == UserSkill && (c.arg != "" || c.in != "")
	}
	return all || c.speaks() == Builtin
}

// speaks is whose tools the rule names, by its words up to the first that may stand for others. Rules do not tell the
// skills of a person from those of a project.
func (c compiled) speaks() Origin {
	fixed := c.tool
	if i := strings.IndexAny(fixed, `*?[{\`); i >= 0 {
		fixed = fixed[:i]
	}
	switch {
	case strings.HasPrefix(fixed, ServerPrefix), fixed != c.tool && len(fixed) >= len("mcp") && strings.HasPrefix(ServerPrefix, fixed):
		return Server
	case strings.Contains(fixed, "__"):
		return UserSkill
	}
	return Builtin
}
