package redact

import (
	"bytes"
	"regexp"
	"sync"
)

// shape is what a kind of key looks like. The hints are found in one pass over the text; only the lines that hold one
// are looked at, and of those only what near, if there is one, lets pass. When the expression has a group, only the
// group is the secret.
//
// A shape must be one that nothing else has: hashes, ids of commits, UUIDs and pictures in base64 are what
// work consists of, and a model that cannot read them cannot work.
type shape struct {
	hints []string
	expr  func() *regexp.Regexp
	near  func(b []byte, end int) bool               // whether the text after a hint is worth a look
	read  func(b []byte, from, end int) (span, bool) // in place of an expression: what a hint is followed by
}

// when compiles an expression when it is first tried: every command and every shim would wait for all of them.
func when(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

var shapes = append([]shape{
	// Providers of models.
	{hints: []string{"sk-"}, expr: when(`\bsk-(?:ant-[A-Za-z0-9_-]{8,}|[A-Za-z0-9_-]*[0-9][A-Za-z0-9_-]{19,}|[A-Za-z0-9_-]{19,}[0-9][A-Za-z0-9_-]*|(?:proj|svcacct|admin|or)-[A-Za-z0-9_-]{16,})`)},
	{hints: []string{"hf_"}, expr: when(`\bhf_[A-Za-z0-9]{30,}\b`)},
	{hints: []string{"gsk_"}, expr: when(`\bgsk_[A-Za-z0-9]{20,}`)},
	{hints: []string{"xai-"}, expr: when(`\bxai-[A-Za-z0-9]{20,}`)},
	{hints: []string{"pplx-"}, expr: when(`\bpplx-[A-Za-z0-9]{32,}`)},
	{hints: []string{"nvapi-"}, expr: when(`\bnvapi-[A-Za-z0-9_-]{32,}`)},
	{hints: []string{"r8_"}, expr: when(`\br8_[A-Za-z0-9]{37}\b`)},
	{hints: []string{"lsv2_"}, expr: when(`\blsv2_(?:pt|sk)_[A-Za-z0-9_]{32,}`)},
	// Places where code, packages and images are kept.
	{hints: []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_"}, expr: when(`\bgh[pousr]_[A-Za-z0-9]{16,}`)},
	{hints: []string{"github_pat_"}, expr: when(`\bgithub_pat_[A-Za-z0-9_]{16,}`)},
	{hints: []string{"glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glsoat-"}, expr: when(`\bgl(?:pat|dt|rt|ptt|cbt|soat)-[A-Za-z0-9_-]{16,}`)},
	{hints: []string{"npm_"}, expr: when(`\bnpm_[A-Za-z0-9]{36}\b`)},
	{hints: []string{"_authToken="}, expr: when(`_authToken=["']?([^\s"'$]{8,})`)},
	{hints: []string{"pypi-AgE"}, expr: when(`\bpypi-AgE[A-Za-z0-9_-]{32,}`)},
	{hints: []string{"rubygems_"}, expr: when(`\brubygems_[a-f0-9]{48}\b`)},
	{hints: []string{"dckr_pat_", "dckr_oat_"}, expr: when(`\bdckr_[po]at_[A-Za-z0-9_-]{20,}`)},
	{hints: []string{"ATATT3x", "ATBB"}, expr: when(`\bAT(?:ATT3x[A-Za-z0-9_=-]{40,}|BB[A-Za-z0-9]{32,})`)},
	// Services.
	{hints: []string{"xox"}, expr: when(`\bxox[abeoprs][.-][A-Za-z0-9.-]{10,}`)},
	{hints: []string{"xapp-"}, expr: when(`\bxapp-[0-9]-[A-Za-z0-9-]{10,}`)},
	{hints: []string{"hooks.slack.com/"}, expr: when(`\bhooks\.slack\.com/(?:services|workflows)/([A-Za-z0-9/_-]{16,})`)},
	{hints: []string{":AA"}, expr: when(`\b[0-9]{8,10}:AA[A-Za-z0-9_-]{32,34}\b`)}, // Telegram
	{hints: []string{"/api/webhooks/"}, expr: when(`\bdiscord(?:app)?\.com/api/webhooks/[0-9]+/([A-Za-z0-9_-]{32,})`)},
	{hints: []string{"."}, near: nearDiscord, expr: when(`\b[MNO][A-Za-z0-9_-]{22,28}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,45}`)},
	{hints: []string{"sk_live_", "sk_test_", "rk_live_", "rk_test_"}, expr: when(`\b[sr]k_(?:live|test)_[A-Za-z0-9]{16,}`)},
	{hints: []string{"whsec_"}, expr: when(`\bwhsec_[A-Za-z0-9+/=]{24,}`)},
	{hints: []string{"SG."}, expr: when(`\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}`)},
	{hints: []string{"shpat_", "shpca_", "shppa_", "shpss_", "shpua_"}, expr: when(`\bshp(?:at|ca|pa|ss|ua)_[A-Za-z0-9]{24,}`)},
	{hints: []string{"lin_api_"}, expr: when(`\blin_api_[A-Za-z0-9]{32,}`)},
	{hints: []string{"ntn_"}, expr: when(`\bntn_[A-Za-z0-9]{40,}`)},
	{hints: []string{"sntrys_", "sntryu_"}, expr: when(`\bsntry[su]_[A-Za-z0-9+/=_-]{32,}`)},
	{hints: []string{"PMAK-", "NRAK-"}, expr: when(`\b(?:PMAK|NRAK)-[A-Za-z0-9-]{24,}`)},
	{hints: []string{"glsa_", "glc_"}, expr: when(`\bgl(?:sa|c)_[A-Za-z0-9+/=_]{32,}`)},
	{hints: []string{"figd_"}, expr: when(`\bfigd_[A-Za-z0-9_-]{32,}`)},
	{hints: []string{"ey-"}, near: nearHex, expr: when(`\bkey-[0-9a-f]{32}\b`)}, // Mailgun
	{hints: []string{"SK"}, near: nearHex, expr: when(`\bSK[0-9a-f]{32}\b`)},    // Twilio
	{hints: []string{"tvly-"}, expr: when(`\btvly-[A-Za-z0-9-]{16,}`)},
	{hints: []string{"dp.pt.", "dp.st.", "dp.ct.", "dp.sa.", "dp.scim.", "dp.audit."}, expr: when(`\bdp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{20,}`)},
	{hints: []string{"tskey-"}, expr: when(`\btskey-[a-z]+-[A-Za-z0-9-]{16,}`)},
	// Clouds and vaults.
	{hints: []string{"hvs.", "hvb.", "hvr."}, expr: when(`\bhv[sbr]\.[A-Za-z0-9_-]{20,}`)},
	{hints: []string{".atlasv1."}, expr: when(`\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{40,}`)},
	{hints: []string{"AGE-SECRET-KEY-"}, expr: when(`\bAGE-SECRET-KEY-(?:PQ-)?1[0-9A-Z]{32,}`)},
	{hints: []string{"AKIA", "ASIA"}, expr: when(`\bA(?:KI|SI)A[0-9A-Z]{16}\b`)},
	{hints: []string{"ecret", "ECRET"}, near: nearAssignment, expr: when(`(?i:aws_?secret(?:_?access)?_?key|secret_?access_?key)["']?[ \t]*[:=][ \t]*["']?([A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+]|$)`)},
	{hints: []string{"AIza"}, expr: when(`\bAIza[0-9A-Za-z_-]{35}`)},
	{hints: []string{"ya29."}, expr: when(`\bya29\.[0-9A-Za-z_-]{20,}`)},
	{hints: []string{"GOCSPX-"}, expr: when(`\bGOCSPX-[0-9A-Za-z_-]{20,}`)},
	{hints: []string{"AccountKey="}, expr: when(`\bAccountKey=([A-Za-z0-9+/=]{40,})`)},
	{hints: []string{"dop_v1_", "doo_v1_", "dor_v1_"}, expr: when(`\bdo[por]_v1_[0-9a-f]{64}`)},
	{hints: []string{"dapi"}, expr: when(`\bdapi[0-9a-f]{32}\b`)},
	{hints: []string{"_blob_rw_"}, expr: when(`\bvercel_blob_rw_[A-Za-z0-9_]{16,}`)},
	{hints: []string{"pul-"}, near: nearHex, expr: when(`\bpul-[0-9a-f]{40}\b`)},
	{hints: []string{"pscale_tkn_", "pscale_pw_", "pscale_oauth_"}, expr: when(`\bpscale_(?:tkn|pw|oauth)_[A-Za-z0-9._=-]{20,}`)},
	{hints: []string{"lyV1 "}, expr: when(`\bFlyV1 ([A-Za-z0-9+/=_,-]{16,})`)},
	{hints: []string{"sbp_", "sb_secret_"}, expr: when(`\bsb(?:p_[0-9a-f]{40}\b|_secret_[A-Za-z0-9_-]{20,})`)},
	// What stands in headers, addresses and connection strings.
	{hints: []string{"eyJ"}, expr: when(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`)},
	{hints: []string{"earer", "EARER"}, near: nearSpace, expr: when(`\b[Bb](?:earer|EARER)[ \t]+([A-Za-z0-9._~+/=-]{8,})`)},
	{hints: []string{"asic"}, near: nearSpace, expr: when(`\b[Bb]asic[ \t]+([A-Za-z0-9+/]*[A-Z0-9+/][A-Za-z0-9+/]{11,}={0,2})`)},
	{hints: []string{"://"}, near: nearUser, expr: when(`\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@"'<>]*:([^\s/@"'<>$]+)@`)},
	{hints: []string{"@tcp(", "@unix("}, expr: when(`[A-Za-z0-9_.-]+:([^\s:@"'<>$]+)@(?:tcp|unix)\(`)},
	{hints: []string{"assword", "ASSWORD", "pwd", "Pwd", "PWD"}, near: nearAssignment, expr: when(`(?i)\b(?:host|server|data source|dbname|database|user(?: id)?|uid)\s*=[^\n"']*\b(?:password|pwd)\s*=\s*([^\s;"'$]+)`)},
}, assignments...)

// hintTable finds the hints of all shapes.
var hintTable = sync.OnceValue(func() (out struct {
	*automaton
	hints [][]byte
	shape []int // that a hint is of
}) {
	for i, s := range shapes {
		for _, h := range s.hints {
			out.hints, out.shape = append(out.hints, []byte(h)), append(out.shape, i)
		}
	}
	out.automaton = newAutomaton(out.hints)
	return out
})

// nearUser reports whether an address after "://" names a user and a password.
func nearUser(b []byte, end int) bool {
	colon := false
	for _, c := range b[end:] {
		switch c {
		case ':':
			colon = true
		case '@':
			return colon
		case '/', ' ', '\t', '\n', '\r', '"', '\'', '<', '>':
			return false
		}
	}
	return false
}

// nearHex reports whether a hint is followed by the first of a row of digits in hex.
func nearHex(b []byte, end int) bool {
	_, digits := readHex(b[end:], 32)
	return digits == 32
}

func nearSpace(b []byte, end int) bool { return end < len(b) && (b[end] == ' ' || b[end] == '\t') }

// nearAssignment reports whether a name that is not over yet is followed by a sign that gives it a value.
func nearAssignment(b []byte, end int) bool {
	for end < len(b) && wordByte(b[end]) {
		end++
	}
	_, ok := sign(b, end)
	return ok
}

// nearDiscord reports whether a dot is the first of two, six characters apart.
func nearDiscord(b []byte, end int) bool {
	return end+7 < len(b) && b[end+6] == '.' && end > 23 && wordByte(b[end-2]) && wordByte(b[end-23]) && wordByte(b[end+7])
}

func wordByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

var (
	keyBegin = when(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----`)
	keyEnd   = when(`-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----`)
)

func appendShapes(found []span, b []byte) []span { return appendKeys(found, b, len(shapes)) }

// keyShapes is how many of the shapes, the first, are those of keys.
var keyShapes = len(shapes) - len(assignments)

// appendKeys finds the first so many shapes.
func appendKeys(found []span, b []byte, most int) []span {
	t := hintTable()
	looked := map[int]int{} // how far a shape was looked for
	t.scan(b, func(hint int32, end int) {
		i := t.shape[hint]
		if i >= most {
			return
		}
		s := &shapes[i]
		if s.read != nil {
			if one, is := s.read(b, end-len(t.hints[hint]), end); is {
				found = append(found, one)
			}
			return
		}
		if end <= looked[i] || s.near != nil && !s.near(b, end) {
			return
		}
		from := bytes.LastIndexByte(b[:end], '\n') + 1
		to := len(b)
		if n := bytes.IndexByte(b[end:], '\n'); n >= 0 {
			to = end + n
		}
		looked[i] = to
		for _, m := range s.expr().FindAllSubmatchIndex(b[from:to], -1) {
			if len(m) > 2 {
				m = m[2:]
			}
			found = append(found, span{from + m[0], from + m[1]})
		}
	})
	return appendKeyBlocks(found, b)
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
