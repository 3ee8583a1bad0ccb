package rulebook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/config"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/policy"
	"taskdaemon/internal/td"
)

var (
	fpBeforeWrite = failpoint.New("rulebook.file.before_write")
	fpWritten     = failpoint.New("rulebook.file.written")
)

// rulesHead begins the file of answers.
const rulesHead = `# Rules that taskdaemon keeps for you: what you answered with always and never, and what you added with
# taskdaemon permissions add. You may edit it; the config's own rules stand in the config.
rules:
`

// Keep writes rules down, each once: keeping one that is there already changes nothing, so that a step cut
// off by a crash may be made again. Effect: keyed by the rule itself.
func (b *Book) Keep(_ context.Context, rules []td.KeptRule) error {
	unlock, err := b.lock()
	if err != nil {
		return err
	}
	defer unlock()
	data, have, err := b.load()
	if err != nil {
		return err
	}
	if len(data) == 0 {
		data = []byte(rulesHead)
	}
	if !bytes.HasSuffix(data, []byte("\n")) {
		data = append(data, '\n')
	}
	added := 0
	for _, r := range rules {
		if err := Valid(r); err != nil {
			return err
		}
		if slices.ContainsFunc(have, func(h config.Rule) bool { return sameRule(h, r) }) {
			continue
		}
		added++
		data = append(data, ruleLine(r)...)
	}
	if added == 0 {
		return nil
	}
	// What was edited by hand into another form must not be spoiled.
	now, err := config.ParseRules(b.file, data)
	if err != nil || len(now) != len(have)+added {
		return td.Errorf(td.Invalid, "no rule can be added at the end of %s: its last key must be rules, with one rule a line", b.file).
			WithHint("edit %s", b.file)
	}
	return b.write(data)
}

// lock keeps other processes from writing the file.
func (b *Book) lock() (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(b.file), 0o700); err != nil {
		return nil, td.Errorf(td.Storage, "keep rules: %w", err)
	}
	f, err := os.OpenFile(b.file+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, td.Errorf(td.Storage, "keep rules: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return nil, td.Errorf(td.Storage, "lock %s: %w", b.file, errors.Join(err, f.Close()))
	}
	return func() { _ = f.Close() }, nil
}

func (b *Book) load() ([]byte, []config.Rule, error) {
	data, err := os.ReadFile(b.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, td.Errorf(td.Storage, "read rules: %w", err)
	}
	have, err := config.ParseRules(b.file, data)
	return data, have, err
}

func sameRule(have config.Rule, r td.KeptRule) bool {
	verdict, match := have.Verdict()
	return verdict == r.Verdict && match == r.Match && have.In == r.In && have.Untrusted == r.Untrusted
}

// ruleLine is a rule as one line of the file.
func ruleLine(r td.KeptRule) string {
	parts := []string{fmt.Sprintf("%s: %s", r.Verdict, quoted(r.Match))}
	for _, f := range []struct{ key, value string }{{"in", r.In}, {"why", r.Why}, {"by", r.By}} {
		if f.value != "" {
			parts = append(parts, f.key+": "+quoted(f.value))
		}
	}
	if r.Untrusted {
		parts = append(parts, "untrusted: true")
	}
	if !r.At.IsZero() {
		parts = append(parts, "at: "+r.At.UTC().Format(time.RFC3339))
	}
	return "  - {" + strings.Join(parts, ", ") + "}\n"
}

// quoted is a text between single quotes as YAML has them; what no line can hold is left out.
func quoted(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\u0085' || r == '\u2028' || r == '\u2029' || r == '\ufeff' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}

// Valid says what is wrong with a rule that is to be kept.
func Valid(r td.KeptRule) error {
	if !slices.Contains([]policy.Verdict{policy.Allow, policy.Ask, policy.Deny}, policy.Verdict(r.Verdict)) {
		return td.Errorf(td.Invalid, "verdict %q: it is allow, ask or deny", r.Verdict)
	}
	if r.Untrusted && r.Verdict != string(policy.Allow) {
		return td.Errorf(td.Invalid, "only what is allowed can be so after untrusted text: ask and deny hold for every task")
	}
	if err := policy.Check(policy.Rule{Verdict: policy.Verdict(r.Verdict), Match: r.Match}); err != nil {
		return td.Errorf(td.Invalid, "%w", err).WithHint(`taskdaemon permissions add allow "Bash(go test *)"`)
	}
	return nil
}

// Remove takes a rule out of the file.
func (b *Book) Remove(_ context.Context, r td.KeptRule) error {
	unlock, err := b.lock()
	if err != nil {
		return err
	}
	defer unlock()
	data, have, err := b.load()
	if err != nil {
		return err
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	for i, h := range have {
		if !sameRule(h, r) {
			continue
		}
		end := len(lines)
		if i+1 < len(have) {
			end = have[i+1].Line - 1
		}
		if h.Line < 1 || h.Line > end || bytes.HasPrefix(bytes.TrimSpace(lines[h.Line-1]), []byte("rules")) {
			return td.Errorf(td.Invalid, "the rule does not stand on a line of its own").WithHint("edit %s", b.file)
		}
		cut := bytes.Join(append(slices.Clone(lines[:h.Line-1]), lines[end:]...), nil)
		now, err := config.ParseRules(b.file, cut)
		if err != nil || len(now) != len(have)-1 {
			return td.Errorf(td.Invalid, "the rule cannot be taken out without harm to the others").WithHint("edit %s", b.file)
		}
		return b.write(cut)
	}
	return td.Errorf(td.NotFound, "there is no rule %s %s", r.Verdict, r.Match).WithHint("taskdaemon permissions list")
}

// write replaces the file: whoever reads it sees the old one or the new one, also after a power cut.
func (b *Book) write(data []byte) (err error) {
	fpBeforeWrite.Hit()
	dir := filepath.Dir(b.file)
	f, err := os.CreateTemp(dir, ".permissions-*")
	if err != nil {
		return td.Errorf(td.Storage, "keep rules: %w", err)
	}
	defer func() {
		if err != nil {
			err = td.Errorf(td.Storage, "keep rules: %w", errors.Join(err, os.Remove(f.Name())))
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if err = os.Rename(f.Name(), b.file); err != nil {
		return err
	}
	fpWritten.Hit()
	d, derr := os.Open(dir)
	if derr != nil {
		return nil // the rename is done; that it lasts is as sure as the system makes it
	}
	defer d.Close()
	_ = d.Sync()
	return nil
}
