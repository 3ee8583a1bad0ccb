package policy

import (
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/idna"
)

// fetch judges the programs that talk to hosts. Every word is looked at by itself: which one is a host is not always known, and one that is does not speak for the others.
func fetch(w *walker, c *call) bool {
	w.judgeArgs(*c)
	var written []string
	for i, a := range c.args {
		if (a == "-o" || a == "--output" || a == "-O" && c.name == "wget" || a == "--output-document" || a == "-D" || a == "-c" || a == "--cookie-jar" || a == "-P") && i+1 < len(c.args) {
			written = append(written, c.args[i+1])
			w.touch(c.args[i+1], Write, c.at, false, false)
		}
	}
	switch c.name {
	case "nc", "ncat", "netcat", "socat":
		if flag(c.args, "ec", "--exec", "--sh-exec", "--lua-exec") || strings.Contains(strings.ToUpper(strings.Join(c.args, " ")), "EXEC") || strings.Contains(strings.ToUpper(strings.Join(c.args, " ")), "SYSTEM:") {
			w.r.add(Ask, askRuns, "%s runs a command for whoever is connected.", c.name)
		}
	}
	words := c.addresses()
	if !slices.ContainsFunc(words, address.clear) { // then what looks like one is taken for it
		for i, a := range words {
			words[i].surely = dotted.MatchString(a.word) && hostName.MatchString(hostOf(a.word)) && !slices.Contains(written, a.word)
		}
	}
	for _, a := range words {
		host := hostOf(a.word)
		if a.many {
			w.r.may.host(string(markWords))
		}
		if !a.clear() {
			w.r.may.host(a.word)
			continue
		}
		w.r.host(readable(host))
		w.r.cmds[c.at].offline = w.r.cmds[c.at].offline || loopback(host)
	}
	return false
}

// address is a word that may be a host, or have one in it.
type address struct {
	word   string
	surely bool // it is no flag's value, and looks like one
	many   bool // it stands for several: curl takes {a,b} and [1-9] apart
}

// clear reports whether it is a host.
func (a address) clear() bool {
	return certain(a.word) && (a.surely || strings.Contains(a.word, "://") || loopback(hostOf(a.word)))
}

// valuedLetters are the flags of one letter whose value is the rest of the word, or the next one.
var valuedLetters = map[string]string{"curl": "AbcCdDeEFHKmoPQrtTuUwxXyYz", "wget": "aABDeGiIloOPQRtTUwX"}

// lonelyFlags are the long flags that take no value.
var lonelyFlags = strings.Fields(`--silent --show-error --fail --location --insecure --verbose --include --head --compressed --globoff --no-buffer --get --remote-name --remote-header-name
	--progress-bar --no-progress-meter --fail-with-body --ipv4 --ipv6 --http1.1 --http2 --quiet --no-verbose --no-check-certificate --continue --spider --server-response --recursive
	--mirror --no-parent --timestamping --page-requisites --convert-links`)

// hostFlags are those whose value is an address.
var hostFlags = []string{"-x", "--proxy", "--preproxy", "--url", "--socks4", "--socks4a", "--socks5", "--socks5-hostname"}

var (
	hostName     = regexp.MustCompile(`^[\p{L}\p{N}_:]([\p{L}\p{N}_.:-]*[\p{L}\p{N}_.])?$`)
	severalHosts = regexp.MustCompile(`\{|\[[^\]:]*-`)
	dotted       = regexp.MustCompile(`^[^./].*\.`)
)

// addresses are the words of a command that may be hosts, and which of them surely are.
func (c *call) addresses() []address {
	var out []address
	takes, names, rest := false, false, false // what the flag before does with this word: it is its value, and an address
	for _, a := range c.args {
		switch {
		case a == "--" && !rest:
			takes, names, rest = false, false, true
		case len(a) > 1 && a[0] == '-' && !rest:
			flag, val, attached := strings.Cut(a, "=")
			if !strings.HasPrefix(a, "--") {
				flag, val, attached = c.letter(a)
			}
			names = slices.Contains(hostFlags, flag) && c.name == "curl"
			takes = !attached && flag != "" && !slices.Contains(lonelyFlags, flag)
			if attached {
				out = append(out, address{word: val, surely: names})
			}
		default:
			out = append(out, address{word: a, surely: names || !takes && c.likely(a), many: !takes && c.name == "curl" && severalHosts.MatchString(a)})
			takes, names = false, false
		}
	}
	return out
}

// letter is the flag in a group of letters that takes a value, and the value where it stands in the same word.
func (c *call) letter(a string) (flag, val string, attached bool) {
	letters, known := valuedLetters[c.name]
	if !known {
		return a, "", false
	}
	at := strings.IndexAny(a, letters)
	if at < 0 {
		return "", "", false
	}
	return "-" + a[at:at+1], a[at+1:], at+1 < len(a)
}

// likely reports whether a word that no flag takes is a host. To curl and wget every such word is one.
func (c *call) likely(a string) bool {
	host := hostOf(a)
	switch c.name {
	case "curl", "wget":
		return hostName.MatchString(host)
	case "nc", "ncat", "netcat", "socat":
		return strings.Contains(a, ".") && !strings.Contains(a, "/") && hostName.MatchString(host)
	}
	return dotted.MatchString(a) && hostName.MatchString(host)
}

// hostOf is the host of an address, without what stands around it: scheme, user, port and path.
func hostOf(word string) string {
	if _, rest, ok := strings.Cut(word, "://"); ok {
		word = rest
	}
	if i := strings.IndexAny(word, "/?#"); i >= 0 {
		word = word[:i]
	}
	word = word[strings.LastIndexByte(word, '@')+1:]
	if inner, ok := strings.CutPrefix(word, "["); ok {
		word, _, _ = strings.Cut(inner, "]")
		return word
	}
	if strings.Count(word, ":") == 1 {
		word, _, _ = strings.Cut(word, ":")
	}
	return strings.ToLower(word)
}

// host notes a word that may be a host, or have one in it.
func (m *may) host(word string) {
	if word != "" && len(m.hosts) < maxUses && !slices.Contains(m.hosts, word) {
		m.hosts = append(m.hosts, word)
	}
}

// holdsHost reports whether a host that a pattern names may be in a word.
func holdsHost(pattern, word string) bool {
	if !certain(word) {
		return true
	}
	parts := strings.FieldsFunc(word, func(r rune) bool { return strings.ContainsRune(":/,;=@?#&[]{}() \t\n\"'", r) })
	return slices.ContainsFunc(append(parts, hostOf(word)), func(part string) bool {
		if ascii, err := idna.ToASCII(part); err == nil {
			part = ascii
		}
		return part != "" && matchesHost(pattern, part)
	})
}
