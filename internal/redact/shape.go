package redact

import (
	"bytes"
	"regexp"
	"sync"
)

// shape is what a kind of key looks like. The hints are cheap to look for: without one of them the
// expression is not tried. When the expression has a group, only the group is the secret.
//
// A shape must be one that nothing else has: hashes, ids of commits, UUIDs and pictures in base64 are what
// work consists of, and a model that cannot read them cannot work.
type shape struct {
	hints []string
	expr  func() *regexp.Regexp
}

// when compiles an expression when it is first tried: every command and every shim would wait for all of them.
func when(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

var shapes = []shape{
	// Providers of models.
	{[]string{"sk-"}, when(`\bsk-(?:ant-[A-Za-z0-9_-]{8,}|[A-Za-z0-9_-]*[0-9][A-Za-z0-9_-]{19,}|[A-Za-z0-9_-]{19,}[0-9][A-Za-z0-9_-]*|(?:proj|svcacct|admin|or)-[A-Za-z0-9_-]{16,})`)},
	{[]string{"hf_"}, when(`\bhf_[A-Za-z0-9]{30,}\b`)},
	// Places where code is kept.
	{[]string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_"}, when(`\bgh[pousr]_[A-Za-z0-9]{16,}`)},
	{[]string{"github_pat_"}, when(`\bgithub_pat_[A-Za-z0-9_]{16,}`)},
	{[]string{"glpat-", "gldt-", "glrt-", "glptt-"}, when(`\bgl(?:pat|dt|rt|ptt)-[A-Za-z0-9_-]{16,}`)},
	{[]string{"npm_"}, when(`\bnpm_[A-Za-z0-9]{36}\b`)},
	{[]string{"_authToken="}, when(`_authToken=["']?([^\s"'$]{8,})`)},
	{[]string{"pypi-AgE"}, when(`\bpypi-AgE[A-Za-z0-9_-]{32,}`)},
	// Services.
	{[]string{"xox"}, when(`\bxox[abeoprs]-[A-Za-z0-9-]{10,}`)},
	{[]string{"xapp-"}, when(`\bxapp-[0-9]-[A-Za-z0-9-]{10,}`)},
	{[]string{"hooks.slack.com/"}, when(`\bhooks\.slack\.com/(?:services|workflows)/([A-Za-z0-9/_-]{16,})`)},
	{[]string{"sk_live_", "sk_test_", "rk_live_", "rk_test_"}, when(`\b[sr]k_(?:live|test)_[A-Za-z0-9]{16,}`)},
	{[]string{"whsec_"}, when(`\bwhsec_[A-Za-z0-9+/=]{24,}`)},
	{[]string{"SG."}, when(`\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}`)},
	// Clouds.
	{[]string{"AKIA", "ASIA"}, when(`\bA(?:KI|SI)A[0-9A-Z]{16}\b`)},
	{[]string{"ecret", "ECRET"}, when(`(?i:aws_?secret(?:_?access)?_?key|secret_?access_?key)["']?\s*[:=]\s*["']?([A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+]|$)`)},
	{[]string{"AIza"}, when(`\bAIza[0-9A-Za-z_-]{35}`)},
	{[]string{"ya29."}, when(`\bya29\.[0-9A-Za-z_-]{20,}`)},
	{[]string{"GOCSPX-"}, when(`\bGOCSPX-[0-9A-Za-z_-]{20,}`)},
	{[]string{"AccountKey="}, when(`\bAccountKey=([A-Za-z0-9+/=]{40,})`)},
	{[]string{"dop_v1_"}, when(`\bdop_v1_[0-9a-f]{64}`)},
	// What stands in headers, addresses and connection strings.
	{[]string{"eyJ"}, when(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`)},
	{[]string{"earer", "EARER"}, when(`\b[Bb](?:earer|EARER)[ \t]+([A-Za-z0-9._~+/=-]{8,})`)},
	{[]string{"asic "}, when(`\b[Bb]asic[ \t]+([A-Za-z0-9+/]*[A-Z0-9+/][A-Za-z0-9+/]{11,}={0,2})`)},
	{[]string{"://"}, when(`\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@"'<>]*:([^\s/@"'<>$]+)@`)},
	{[]string{"@tcp(", "@unix("}, when(`[A-Za-z0-9_.-]+:([^\s:@"'<>$]+)@(?:tcp|unix)\(`)},
	{[]string{"assword=", "ASSWORD=", "wd="}, when(`(?i)\b(?:host|server|data source|dbname|database|user(?: id)?|uid)\s*=[^\n"']*\b(?:password|pwd)\s*=\s*([^\s;"'$]+)`)},
}

var (
	keyBegin = when(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----`)
	keyEnd   = when(`-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----`)
)

func appendShapes(found []span, b []byte) []span {
	for _, s := range shapes {
		if !s.hinted(b) {
			continue
		}
		for _, m := range s.expr().FindAllSubmatchIndex(b, -1) {
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
		begin := keyBegin().FindIndex(b[at:])
		if begin == nil {
			break
		}
		s := span{at + begin[0], len(b)}
		if end := keyEnd().FindIndex(b[at+begin[1]:]); end != nil {
			s.to = at + begin[1] + end[1]
		}
		found = append(found, s)
		at = s.to
	}
	return found
}
