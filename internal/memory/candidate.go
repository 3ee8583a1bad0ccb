package memory

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"taskdaemon/internal/redact"
	"taskdaemon/internal/td"
)

// Indicator says why a passage of a conversation may be worth keeping. Values are on disk.
type Indicator string

// The indicators.
const (
	Realised  Indicator = "realised"  // "I learned", "turns out"
	Cause     Indicator = "cause"     // "the root cause was", "the bug was in"
	Fix       Indicator = "fix"       // "the fix was"
	Note      Indicator = "note"      // "note for next time"
	Surprise  Indicator = "surprise"  // "expected … but got"
	Recovered Indicator = "recovered" // a command failed and later passed
	Corrected Indicator = "corrected" // a person said that it was wrong
)

// Candidate is a passage that may hold a learning.
type Candidate struct {
	Indicator Indicator `json:"indicator"`
	Text      string    `json:"text"`
	Files     []File    `json:"files,omitempty"` // what was changed around it, without hashes: see Cite
}

const (
	maxCandidates = 20
	maxPassage    = 600       // characters
	maxSaid       = 256 << 10 // bytes of one message that are looked at
	maxSentence   = 2 << 10
)

// when compiles an expression when it is first tried: every command and every shim would wait for all of them.
func when(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// said are the words that give a learning away. An agent's own words are looked at, never what a tool
// printed: that may be anybody's.
var said = []struct {
	indicator Indicator
	expr      func() *regexp.Regexp
}{
	{Note, when(`(?i)\b(?:notes? for (?:next time|the future|future tasks)|for future reference|(?:worth|good to) (?:knowing|know|remember(?:ing)?)|remember (?:that|to)|next time,? )`)},
	{Cause, when(`(?i)\b(?:root cause|the (?:bug|problem|issue|culprit|failure) (?:was|is) (?:that|in|caused|because|due)|was caused by|this (?:fails|failed) because)`)},
	{Fix, when(`(?i)\b(?:the (?:fix|solution|workaround) (?:was|is)\b|(?:fixed|solved|resolved) (?:it|this|that) by|what worked was)`)},
	{Realised, when(`(?i)\b(?:I(?:'ve)? (?:learn(?:ed|t)|realised|realized|discovered)|turns out|turned out|lesson learned|it seems that|apparently)\b`)},
	{Surprise, when(`(?i)\b(?:expect(?:ed|s)\b[^.!?]{1,200}\bbut\b[^.!?]{0,60}\b(?:got|was|received|is)\b|contrary to|surprisingly|unexpectedly)`)},
}

// corrects is how people say that something is wrong or must be done otherwise.
var corrects = when(`(?i)(?:^\s*(?:no|nope|wrong|stop|actually)\b|\bthat(?:'s| is) (?:wrong|not (?:right|correct|what))|\bnot what I (?:meant|asked|wanted)|\b(?:please )?(?:don't|do not|never) (?:use|do|touch|edit|run|change|add|commit)\b|\balways (?:use|run|write|add|check)\b|\binstead of\b|\byou (?:should(?:n't| not)? have|forgot|missed)\b|\bwe (?:always|never)\b)`)

// Candidates finds the passages of a conversation that may hold a learning, the oldest first, each once
// and at most 20. It calls no model: the same conversation gives the same candidates. Secrets that
// secrets knows, and what looks like one, are not in them. Effect: none.
func Candidates(messages []td.Message, secrets *redact.Redactor) []Candidate {
	c := collector{secrets: secrets, seen: map[string]bool{}, failed: map[string]failure{}}
	for i, m := range messages {
		switch m.Role {
		case td.Assistant:
			c.assistant(m)
		case td.User:
			if i > 0 { // the first is the task
				c.person(m.Text())
			}
			c.results(m)
		}
	}
	return c.found
}

type collector struct {
	secrets *redact.Redactor
	found   []Candidate
	seen    map[string]bool
	calls   map[string]string  // the command of each call of the last message, by its id
	changed []string           // files, in the order they were changed
	failed  map[string]failure // by command
}

type failure struct {
	complaint string
	changed   int // files that had been changed then
}

func (c *collector) add(why Indicator, text string, files []string) {
	text = shorten(oneLine(c.secrets.String(text)), maxPassage)
	key := paragraphKey(text)
	if text == "" || c.seen[key] || len(c.found) == maxCandidates {
		return
	}
	c.seen[key] = true
	cand := Candidate{Indicator: why, Text: text}
	for _, f := range files[max(0, len(files)-5):] {
		cand.Files = append(cand.Files, File{Path: f})
	}
	c.found = append(c.found, cand)
}

// assistant looks at what an agent said, and remembers what it called.
func (c *collector) assistant(m td.Message) {
	sentences := sentencesOf(m.Text())
	for i := 0; i < len(sentences); i++ {
		for _, s := range said {
			if !s.expr().MatchString(sentences[i]) {
				continue
			}
			passage := sentences[i]
			if i+1 < len(sentences) { // the reason is often in the next one
				passage += " " + sentences[i+1]
				i++
			}
			c.add(s.indicator, passage, c.changed)
			break
		}
	}
	c.calls = map[string]string{}
	for _, use := range m.ToolUses() {
		var in struct {
			Command string `json:"command"`
			Path    string `json:"path"`
		}
		if json.Unmarshal(use.Input, &in) != nil {
			continue
		}
		if in.Command != "" {
			c.calls[use.ID] = strings.Join(strings.Fields(in.Command), " ")
		}
		if p := path.Clean(in.Path); (use.Name == "Write" || use.Name == "Edit" || use.Name == "MultiEdit") && localPath(p) {
			c.changed = append(slices.DeleteFunc(c.changed, func(o string) bool { return o == p }), p)
		}
	}
}

// results looks for a command that failed before and passes now.
func (c *collector) results(m td.Message) {
	for _, b := range m.Blocks {
		command := c.calls[b.ID]
		if b.Type != td.ToolResultBlock || command == "" {
			continue
		}
		was, failed := c.failed[command]
		switch {
		case b.IsError && !failed:
			c.failed[command] = failure{c.complaint(b.Text), len(c.changed)}
		case !b.IsError && failed:
			delete(c.failed, command)
			c.recovered(command, was)
		}
	}
}

func (c *collector) recovered(command string, was failure) {
	text := fmt.Sprintf("`%s` failed", shorten(command, 200))
	if was.complaint != "" {
		text += fmt.Sprintf(" (%s)", was.complaint)
	}
	text += " and passed later"
	files := c.changed[min(was.changed, len(c.changed)):]
	if len(files) > 0 {
		text += ", after a change of " + strings.Join(files[max(0, len(files)-5):], ", ")
	}
	c.add(Recovered, text+".", files)
}

// secretive is a line that may show a secret no one has registered and no shape gives away.
var secretive = when(`(?i)pass(?:word|wd|phrase)|secret|token|api[-_ ]?key|credential|private[-_ ]key|authorization|cookie`)

// telling is a line that says what went wrong.
var telling = when(`(?i)\b(?:error|fail(?:ed|ure)?|panic|cannot|can't|undefined|not found|no such|denied|expected|fatal|exception)\b`)

// complaint is the line of a failed command's output that says most, or nothing when it may show a
// secret.
func (c *collector) complaint(output string) string {
	lines := strings.Split(output[max(0, len(output)-maxSaid):], "\n")
	best := ""
	for _, line := range slices.Backward(lines) {
		if line = oneLine(line); line == "" {
			continue
		}
		if best == "" {
			best = line
		}
		if len(line) >= 12 && telling().MatchString(line) { // a bare FAIL says nothing
			best = line
			break
		}
	}
	if secretive().MatchString(best) || c.secrets.String(best) != best {
		return ""
	}
	return shorten(best, 160)
}

func (c *collector) person(text string) {
	for _, s := range sentencesOf(text) {
		if corrects().MatchString(s) {
			c.add(Corrected, s, nil)
		}
	}
}

var ends = when(`[.!?](?:["')\]]*\s+)|\n+`)

// sentencesOf cuts prose into sentences. Code blocks and quotations are somebody else's words.
func sentencesOf(text string) []string {
	text = text[:min(len(text), maxSaid)]
	var prose strings.Builder
	fenced := false
	for line := range strings.SplitSeq(text, "\n") {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "```") || strings.HasPrefix(trimmed, "~~~") {
			fenced = !fenced
			continue
		}
		if !fenced && !strings.HasPrefix(trimmed, ">") {
			prose.WriteString(strings.TrimLeft(trimmed, "#-*• "))
			prose.WriteByte('\n')
		}
	}
	var out []string
	rest := prose.String()
	for rest != "" {
		at := ends().FindStringIndex(rest)
		sentence := rest
		if at == nil {
			rest = ""
		} else {
			sentence, rest = rest[:at[1]], rest[at[1]:]
		}
		if sentence = oneLine(sentence[:min(len(sentence), maxSentence)]); sentence != "" {
			out = append(out, sentence)
		}
	}
	return out
}

// Learning is the candidate as it stands, for when no model refines it. What it is about is told by
// the files around it.
func (c Candidate) Learning(source string, at time.Time) Learning {
	l := Learning{Title: titleOf(c.Text), Text: c.Text, Files: c.Files, Sources: []string{source}, CreatedAt: at}
	for _, f := range c.Files {
		base := path.Base(f.Path)
		l.Tags = append(l.Tags, strings.TrimSuffix(base, path.Ext(base)))
	}
	l.Tags = cleanTags(l.Tags)
	return l
}
