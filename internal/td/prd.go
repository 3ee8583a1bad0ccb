package td

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// DocName names a document of a PRD. Values are on disk.
type DocName string

// The documents.
const (
	DocSpec DocName = "spec" // what is wanted, and how one can tell that it is there
	DocPlan DocName = "plan" // how it is done
)

// DocNames are all documents of a PRD, in the order in which they are written.
var DocNames = []DocName{DocSpec, DocPlan}

// File is the name of the document's file.
func (n DocName) File() string { return string(n) + ".md" }

// PRDPhase is how far a PRD is. It follows from its documents and tasks, and is never stored.
type PRDPhase string

// The phases.
const (
	PRDDraft   PRDPhase = "draft"   // a document is missing
	PRDPlanned PRDPhase = "planned" // both are there, and no tasks
	PRDReady   PRDPhase = "ready"   // it has tasks, of which none was begun
	PRDRunning PRDPhase = "running" // one of them was
	PRDDone    PRDPhase = "done"
	PRDFailed  PRDPhase = "failed"
)

// AuthorPhase is what an agent does for a PRD before there is anything to run. Values are on disk, in keys of tasks.
type AuthorPhase string

// The phases of authoring, in their order.
const (
	AuthorSpec AuthorPhase = "spec" // asks a person what is wanted, and writes the spec
	ReviewSpec AuthorPhase = "review-spec"
	AuthorPlan AuthorPhase = "plan"
	ReviewPlan AuthorPhase = "review-plan"
	AuthorWork AuthorPhase = "tasks" // makes tasks of the plan
)

// AuthorPhases are all of them.
var AuthorPhases = []AuthorPhase{AuthorSpec, ReviewSpec, AuthorPlan, ReviewPlan, AuthorWork}

// Document is the one that the phase writes or reviews; empty: none.
func (p AuthorPhase) Document() DocName {
	switch p {
	case AuthorSpec, ReviewSpec:
		return DocSpec
	case AuthorPlan, ReviewPlan:
		return DocPlan
	}
	return ""
}

// Interview reports whether the phase needs a person.
func (p AuthorPhase) Interview() bool { return p == AuthorSpec || p == AuthorPlan }

// Author says what a task does for a PRD. The task itself is planned nowhere.
type Author struct {
	PRD   TaskID      `json:"prd"`
	Phase AuthorPhase `json:"phase"`
	// Document is the one file that it may write, absolute and free of symlinks; empty: none.
	Document string `json:"document,omitempty"`
}

// maxSlug is how many characters a slug has at most: no more than 240 bytes, which every file system takes as a name.
const maxSlug = 60

// Slug is the name of a PRD's folder: letters and digits of the name, of any script, in lower case, and a single dash
// for whatever stands between them, slashes and dots included. A long one is cut, between words where it can be.
func Slug(name string) (string, error) {
	var out []rune
	cut := 0 // where the last word that fits ends
	for _, r := range name {
		// A mark belongs to the letter before it.
		if unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) && len(out) > 0 && out[len(out)-1] != '-' {
			out = append(out, unicode.ToLower(r))
		} else if len(out) > 0 && out[len(out)-1] != '-' {
			if len(out) <= maxSlug {
				cut = len(out)
			}
			out = append(out, '-')
		}
	}
	if len(out) > maxSlug+1 || len(out) > maxSlug && out[maxSlug] != '-' {
		if cut < maxSlug/2 {
			cut = maxSlug
		}
		out = out[:cut]
	}
	slug := strings.TrimRight(string(out), "-")
	if slug == "" {
		return "", Errorf(Invalid, "the name %q has no letter and no digit", clipped(name, 60)).WithHint("choose a name with a word in it")
	}
	return slug, nil
}

// IsSlug reports whether s is what Slug makes, so that it can be a folder's name.
func IsSlug(s string) bool {
	slug, err := Slug(s)
	return err == nil && slug == s && utf8.ValidString(s)
}

// MatchesSlug reports whether ref, as a person typed it, means the PRD with this slug.
func MatchesSlug(ref, slug string) bool {
	return slug != "" && strings.ToLower(strings.TrimSpace(ref)) == slug
}

func clipped(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}
