package redact

import (
	"bytes"
	"encoding/ascii85"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// waysToWrite are the encodings in which a known value must not come out, each in a text around it.
var waysToWrite = map[string]func(v string) string{
	"as it is": func(v string) string { return "a " + v + " b" },
	"base64":   func(v string) string { return base64.StdEncoding.EncodeToString([]byte(v)) },
	"base64 after one byte": func(v string) string {
		return base64.StdEncoding.EncodeToString([]byte(":" + v + "!"))
	},
	"base64 after two bytes": func(v string) string { return base64.RawStdEncoding.EncodeToString([]byte("u:" + v + "\n")) },
	"base64 in words":        func(v string) string { return base64.StdEncoding.EncodeToString([]byte("user:" + v)) },
	"base64 for addresses":   func(v string) string { return base64.URLEncoding.EncodeToString([]byte("x" + v)) },
	"base64 without padding": func(v string) string { return base64.RawURLEncoding.EncodeToString([]byte(v)) },
	"base64 in lines":        func(v string) string { return wrap(base64.StdEncoding.EncodeToString([]byte("user:"+v+v)), 12, "\n") },
	"base64 in lines of JSON": func(v string) string {
		return strconv.Quote(wrap(base64.StdEncoding.EncodeToString([]byte(v)), 10, "\r\n"))
	},
	"hex":                      func(v string) string { return hex.EncodeToString([]byte(v)) },
	"hex in capitals":          func(v string) string { return strings.ToUpper(hex.EncodeToString([]byte(v))) },
	"hex with spaces":          func(v string) string { return fmt.Sprintf("% x", v) },
	"hex with colons":          func(v string) string { return wrap(hex.EncodeToString([]byte(v)), 2, ":") },
	"percent":                  url.QueryEscape,
	"percent in a path":        url.PathEscape,
	"every byte percent":       func(v string) string { return percent(v, "%%%02x") },
	"percent in capitals":      func(v string) string { return percent(v, "%%%02X") },
	"percent twice":            func(v string) string { return url.QueryEscape(percent(v, "%%%02X")) },
	"JSON":                     func(v string) string { b, _ := json.Marshal(map[string]string{"k": v}); return string(b) },
	"JSON in JSON":             func(v string) string { b, _ := json.Marshal(v); b, _ = json.Marshal(string(b)); return string(b) },
	"every character escaped":  func(v string) string { return escaped(v) },
	"C":                        func(v string) string { return percent(v, `\x%02x`) },
	"Go":                       func(v string) string { return strconv.QuoteToASCII(v) },
	"shell, single quotes":     func(v string) string { return "'" + strings.ReplaceAll(v, "'", `'\''`) + "'" },
	"shell, other quotes":      func(v string) string { return "'" + strings.ReplaceAll(v, "'", `'"'"'`) + "'" },
	"shell, every byte quoted": func(v string) string { return percent(v, `\%c`) },
	"octal":                    func(v string) string { return percent(v, `\%03o`) },
	"octal of echo":            func(v string) string { return percent(v, `\0%03o`) },
	"a list of bytes":          func(v string) string { return strings.TrimSuffix(percent(v, "0x%02x, "), ", ") },
	"a list in capitals":       func(v string) string { return strings.TrimSuffix(percent(v, "0x%02X,"), ",") },
	"base64 twice":             func(v string) string { return b64(b64(v)) },
	"base64 twice in words":    func(v string) string { return b64("a:" + b64("user:"+v) + "\n") },
	"hex of base64":            func(v string) string { return hex.EncodeToString([]byte(b64(v))) },
	"base64 of hex":            func(v string) string { return b64(hex.EncodeToString([]byte(v))) },
	"base64 of an address":     func(v string) string { return b64(url.QueryEscape(b64(v))) },
	"hex twice":                func(v string) string { return hex.EncodeToString([]byte(hex.EncodeToString([]byte(v)))) },
	"base64 twice in lines":    func(v string) string { return wrap(b64(b64(v)), 10, "\n") },
	"base64 twice in JSON":     func(v string) string { b, _ := json.Marshal(b64(b64(v)) + "\n"); return string(b) },
	"base32":                   func(v string) string { return base32.StdEncoding.EncodeToString([]byte(v)) },
	"base32 in words":          func(v string) string { return base32.StdEncoding.EncodeToString([]byte("a:" + v + "\n")) },
	"base32 in small letters":  func(v string) string { return strings.ToLower(base32.StdEncoding.EncodeToString([]byte("abcd" + v))) },
	"ascii85":                  func(v string) string { return ascii85Of(v) },
	"ascii85 in lines":         func(v string) string { return wrap(ascii85Of(v), 7, "\n") },
	"base85 of git":            func(v string) string { return string(base85([]byte(v), git85)) },
	"base85 of ZeroMQ":         func(v string) string { return string(base85([]byte(v), zeromq85)) },
	"split by nothing to see":  func(v string) string { return wrap(v, 1, "\u200b") },
	"split by several":         func(v string) string { return wrap(v, 2, "\u2060\ufeff\u00ad\U000e0061") },
	"split by unknown bytes":   func(v string) string { return wrap(v, 1, "\ufffd") },
	"split and in base64":      func(v string) string { return wrap(b64(v), 3, "\u200d") },
	"HTML":                     html.EscapeString,
	"HTML by names":            func(v string) string { return strings.NewReplacer("&", "&amp;", "<", "&lt;", `"`, "&quot;").Replace(v) },
	"HTML by numbers":          func(v string) string { return byRune(v, "&#%d;") },
	"HTML in hex":              func(v string) string { return byRune(v, "&#x%02x;") },
	"HTML in JSON":             func(v string) string { b, _ := json.Marshal(html.EscapeString(v)); return string(b) },
	"wrapped":                  func(v string) string { return "a " + wrap(v, 9, "\n") + " b" },
	"wrapped and indented":     func(v string) string { return wrap(v, 7, "\r\n    ") },
	"quoted in a mail":         func(v string) string { return "> " + wrap(v, 7, "\n> ") },
	"quoted twice":             func(v string) string { return ">> " + wrap(v, 7, "\r\n> > ") },
	"in a comment":             func(v string) string { return "# " + wrap(v, 6, "\n# ") },
	"in a comment of C":        func(v string) string { return "// " + wrap(v, 8, "\n\t// ") },
	"in a difference":          func(v string) string { return "+" + wrap(v, 12, "\n+") },
	"with numbers of lines":    func(v string) string { return "1:" + wrap(v, 9, "\n23:") },
	"numbered by nl":           func(v string) string { return "     1\t" + wrap(v, 9, "\n     2\t") },
	"quoted in JSON": func(v string) string {
		return strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace("> " + wrap(v, 7, "\n> "))
	},
	"numbered and quoted":       func(v string) string { return "     1\t> " + wrap(v, 8, "\n     2\t> ") },
	"spaced out":                func(v string) string { return "a " + wrap(v, 1, " ") },
	"spaced out by tabs":        func(v string) string { return wrap(v, 1, "\t") + "\n" },
	"UTF-16":                    func(v string) string { return string(utf16Of([]byte(v))[0]) },
	"UTF-16, the other order":   func(v string) string { return string(utf16Of([]byte(v))[1]) },
	"UTF-16 in hex":             func(v string) string { return hex.EncodeToString(utf16Of([]byte(v))[0]) },
	"UTF-16 in base64":          func(v string) string { return b64("\xff\xfe" + string(utf16Of([]byte(v))[0])) },
	"UTF-16 in base64, again":   func(v string) string { return b64("\xfe\xff" + string(utf16Of([]byte(v))[1])) },
	"overprinted":               func(v string) string { return v[:4] + "X\b" + v[4:] },
	"bold of man":               func(v string) string { return byRune(v, "%[1]c\b%[1]c") },
	"underlined":                func(v string) string { return byRune(v, "_\b%c") },
	"quoted-printable":          func(v string) string { return percent(v, "=%02X") },
	"quoted-printable in lines": func(v string) string { return wrap(percent(v, "=%02X"), 9, "=\n") },
	"percent in JSON":           func(v string) string { b, _ := json.Marshal(percent(v, "%%%02X") + "\n"); return string(b) },
}

func b64(v string) string { return base64.StdEncoding.EncodeToString([]byte(v)) }

func percent(v, format string) string {
	var out strings.Builder
	for _, c := range []byte(v) {
		fmt.Fprintf(&out, format, c)
	}
	return out.String()
}

func byRune(v, format string) string {
	var out strings.Builder
	for _, r := range v {
		fmt.Fprintf(&out, format, r)
	}
	return out.String()
}

func escaped(v string) string {
	var out strings.Builder
	for _, r := range v {
		if r > 0xffff {
			r -= 0x10000
			fmt.Fprintf(&out, `\u%04x\u%04X`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		} else {
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

func wrap(s string, n int, with string) string {
	var out []string
	for ; len(s) > n; s = s[n:] {
		out = append(out, s[:n])
	}
	return strings.Join(append(out, s), with)
}

var knownValues = []string{
	"hunter2hunter2", "abcdef", "sk/with+signs==", `quo"ted'and<angled>&`, "three secret words", "ümläut-pässword", "emoji-😀-secret",
	"100%25-sure", `back\slash\nback`, "lines\nof\na key", strings.Repeat("long-secret-0123456789/", 40),
}

func TestFormsOfKnownValues(t *testing.T) {
	for _, v := range knownValues {
		r := New(v)
		for name, write := range waysToWrite {
			if strings.HasPrefix(name, "shell, every") && (strings.ContainsAny(v, "\n") || !isASCII(v)) || name == "shell, every byte quoted" && strings.ContainsAny(v, "nrtbfxu") {
				continue // a shell reads no escapes of letters
			}
			text := write(v)
			out := r.String("before " + text + " after")
			if !strings.HasPrefix(out, "before ") || !strings.HasSuffix(out, " after") || !strings.Contains(out, "[redacted]") {
				t.Errorf("%s of %.40q: %.300q became %.300q", name, v, text, out)
			}
			if holds := r.Holds([]byte(text)); !holds {
				t.Errorf("%s of %.40q is not held", name, v)
			}
			if left := len(out) - len("before [redacted] after"); left > 16 && len(v) < 100 && !strings.Contains(name, "in lines") && !strings.Contains(name, "words") {
				t.Errorf("%s of %q leaves %q", name, v, out)
			}
		}
	}
}

func isASCII(s string) bool { return !strings.ContainsFunc(s, func(r rune) bool { return r > '~' }) }

// Text that only resembles a form stays.
func TestFormsOfOtherValues(t *testing.T) {
	r := New("hunter2hunter2")
	for _, text := range []string{
		base64.StdEncoding.EncodeToString([]byte("hunter3hunter3")), hex.EncodeToString([]byte("hunter2hunter")), "hunter%32hunter%33",
		"100 % of C:\\new\\table\\x and \\u12 %zz", "%", "\\", "\\u", "hunter2 hunter2",
	} {
		if out := r.String(text); out != text {
			t.Errorf("%q became %q", text, out)
		}
	}
}

// However a text is cut into pieces, no form of a value comes out of a stream, in either mode.
func FuzzStreamOfForms(f *testing.F) {
	names := make([]string, 0, len(waysToWrite))
	for n := range waysToWrite {
		names = append(names, n)
	}
	for i := range names {
		f.Add("hunter2hunter2", "text ", uint8(i), uint8(i*7))
	}
	f.Add("ababab", "ab", uint8(0), uint8(1))
	f.Fuzz(func(t *testing.T, value, around string, way, cut uint8) {
		v := strings.TrimSpace(value)
		if len(v) < MinLength {
			return
		}
		for _, write := range []func(string) string{waysToWrite["as it is"], waysToWrite[names[int(way)%len(names)]]} {
			r := New(v)
			form := write(v)
			if !r.Holds([]byte(form)) {
				continue // an encoding that does not hold it, such as quotes of a shell around a letter
			}
			text := around + form + around
			for _, only := range []bool{false, true} {
				s := Stream{Redactor: r, Known: only}
				var out bytes.Buffer
				for rest, step := []byte(text), int(cut)%17+1; len(rest) > 0; {
					n := min(step, len(rest))
					out.Write(s.Write(rest[:n]))
					rest, step = rest[n:], (step*5+1)%13+1
				}
				out.Write(s.Close())
				if r.Holds(out.Bytes()) {
					t.Fatalf("%q in %q, in pieces: %q", v, text, out.String())
				}
			}
		}
	})
}

func FuzzTwiceIsOnce(f *testing.F) {
	f.Add("hunter2hunter2", "password=hunter2hunter2 postgres://a:b@c token: 'abc123def456'")
	f.Add("redacted", "[redacted]")
	for _, c := range assigned {
		f.Add("some-value", c)
	}
	f.Fuzz(func(t *testing.T, value, text string) {
		r := New(value)
		once := r.String(text)
		if twice := r.String(once); twice != once {
			t.Errorf("%q became %q and then %q", text, once, twice)
		}
		if r.Holds([]byte(once)) {
			t.Errorf("%q is held by %q", value, once)
		}
		r.Known([]byte(text))
		r.JSON([]byte(text))
	})
}

func ascii85Of(v string) string {
	out := make([]byte, ascii85.MaxEncodedLen(len(v)))
	return string(out[:ascii85.Encode(out, []byte(v))])
}
