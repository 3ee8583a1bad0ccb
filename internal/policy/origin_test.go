package policy

import "testing"

// An allow rule counts for the tools of one origin: a name that looks like another's gains nothing.
func TestRulesAreForOneOrigin(t *testing.T) {
	const bound = "sha256:0123456789012345678901234567890123456789"
	for _, tt := range []struct {
		rule, in, tool string
		origin         Origin
		want           Verdict
	}{
		{"mcp__*", "", "mcp__notes__write", Server, Allow},
		{"mcp*", "", "mcp__notes__write", Server, Allow},
		{"mcp__notes__write", "", "mcp__notes__write", Server, Allow},
		{"*", "", "mcp__notes__write", Server, Allow},
		{"tea__*", "", "tea__boil", UserSkill, Allow},
		{"*", "", "tea__boil", UserSkill, Allow},
		{"tea__*", "/src", "tea__boil", ProjectSkill, Allow},
		{"tea__boil(" + bound + ")", "", "tea__boil", ProjectSkill, Allow},

		{"mcp__*", "", "mcp__notes", ProjectSkill, Ask},
		{"mcp__*", "/src", "mcp__notes", ProjectSkill, Ask},
		{"mcp__notes*", "", "mcp__notes", ProjectSkill, Ask},
		{"mcp__notes", "", "mcp__notes", ProjectSkill, Ask},
		{"mcp*", "", "mcp__notes", UserSkill, Ask},
		{"{mcp,x}__*", "", "mcp__notes", UserSkill, Ask},
		{"[m]cp__*", "", "mcp__notes__write", Server, Ask},
		{"tea__*", "", "tea__boil", ProjectSkill, Ask}, // made for the person's own
		{"*", "", "tea__boil", ProjectSkill, Ask},
		{"t*", "", "tea__boil", UserSkill, Ask},
		{"tea__*", "", "tea__boil", Server, Ask},
		{"tea__*", "", "tea__boil", Builtin, Ask},
		{"Complete", "", "Complete", ProjectSkill, Ask},
		{"Complete", "", "Complete", Builtin, Allow},
	} {
		p := policyWith(t, Rule{Verdict: Allow, Match: tt.rule, In: tt.in})
		d := p.Decide(Action{Tool: tt.tool, Bound: bound, Origin: tt.origin})
		if d.Verdict != tt.want {
			t.Errorf("allow %s in %q, %s of %q: %s, want %s", tt.rule, tt.in, tt.tool, tt.origin, d.Verdict, tt.want)
		}
		// What tightens counts whoever brought the tool.
		if d := policyWith(t, Rule{Verdict: Deny, Match: tt.rule}).Decide(Action{Tool: tt.tool, Bound: bound, Origin: tt.origin}); d.Verdict != Deny && tt.want == Allow {
			t.Errorf("deny %s: %s of %q: %s", tt.rule, tt.tool, tt.origin, d.Verdict)
		}
	}
	offers := policyWith(t).Decide(Action{Tool: "mcp__notes", Bound: bound, Origin: ProjectSkill}).Offers
	if len(offers) != 1 || offers[0].Rule != "mcp__notes("+bound+")" {
		t.Errorf("a skill's tool with the name of a server's is kept as %v", offers)
	}
}
