package redact

import (
	"bytes"
	"regexp"
)

// shape is what a kind of key looks like. The hints are cheap to look for: without one of them the
// expression is not tried. When the expression has a group, only the group is the secret.
type shape struct {
	hints []string
	expr  *regexp.Regexp
}

var shapes = []shape{
	{[]string{"sk-"}, regexp.MustCompile(`\bsk-(?:ant-[A-Za-z0-9_-]{8,}|[A-Za-z0-9_-]{20,})`)},
	{[]string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_"}, regexp.MustCompile(`\bgh[pousr]_[A-Za-z0-9]{16,}`)},
	{[]string{"github_pat_"}, regexp.MustCompile(`\bgithub_pat_[A-Za-z0-9_]{16,}`)},
	{[]string{"glpat-"}, regexp.MustCompile(`\bglpat-[A-Za-z0-9_-]{16,}`)},
	{[]string{"xox"}, regexp.MustCompile(`\bxox[abeoprs]-[A-Za-z0-9-]{10,}`)},
	{[]string{"AKIA", "ASIA"}, regexp.MustCompile(`\bA(?:KI|SI)A[0-9A-Z]{16}\b`)},
	{[]string{"AIza"}, regexp.MustCompile(`\bAIza[0-9A-Za-z_-]{35}`)},
	{[]string{"eyJ"}, regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`)},
	{[]string{"earer", "EARER"}, regexp.MustCompile(`\b[Bb](?:earer|EARER)[ \t]+([A-Za-z0-9._~+/=-]{8,})`)},
	{[]string{"asic "}, regexp.MustCompile(`\b[Bb]asic[ \t]+([A-Za-z0-9+/]{12,}={0,2})`)},
	{[]string{"://"}, regexp.MustCompile(`\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@"'<>]*:([^\s/@"'<>]+)@`)},
}

var (
	keyBegin = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----`)
	keyEnd   = regexp.MustCompile(`-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----`)
)

func appendShapes(found []span, b []byte) []span {
	for _, s := range shapes {
		if !s.hinted(b) {
			continue
		}
		for _, m := range s.expr.FindAllSubmatchIndex(b, -1) {
			if len(m) > 2 {
				m = m[2:]
			}
			found = append(found, span{m[0], m[1]})
		}
	}
	return appendKeyBlocks(found, b)
}

func (s shape) hinted(b []byte) bool {
	for _, h := range s.hints {
		if bytes.Contains(b, []byte(h)) {
			return true
		}
	}
	return false
}

// appendKeyBlocks finds private keys; one without an end reaches to the end of the text.
func appendKeyBlocks(found []span, b []byte) []span {
	for at := 0; bytes.Contains(b[at:], []byte("-----BEGIN ")); {
		begin := keyBegin.FindIndex(b[at:])
		if begin == nil {
			break
		}
		s := span{at + begin[0], len(b)}
		if end := keyEnd.FindIndex(b[at+begin[1]:]); end != nil {
			s.to = at + begin[1] + end[1]
		}
		found = append(found, s)
		at = s.to
	}
	return found
}
