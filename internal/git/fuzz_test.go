package git

import (
	"bufio"
	"strings"
	"testing"
)

func FuzzParseStatus(f *testing.F) {
	f.Add("# branch.oid 0123\x00# branch.head main\x001 .M N... 100644 100644 100644 a b main.go\x00")
	f.Add("# branch.oid (initial)\x00# branch.head (detached)\x00? new\x00")
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) { parseStatus(s) })
}

func FuzzReadObject(f *testing.F) {
	f.Add("0123 blob 5\nhello\n")
	f.Add("refs/heads/x missing\n")
	f.Add("0123 blob 99999999999999999999\n")
	f.Add("0123 blob -1\n")
	f.Add("0123 blob 10\nshort")
	f.Fuzz(func(t *testing.T, s string) {
		content, id, err := readObject(bufio.NewReader(strings.NewReader(s)))
		if err != nil && (content != nil || id != "") {
			t.Errorf("an error and an object: %q %q", content, id)
		}
		if len(content) > len(s) {
			t.Errorf("%d bytes out of %d", len(content), len(s))
		}
	})
}

func FuzzTips(f *testing.F) {
	f.Add(":1 0123\n:2 4567\n")
	f.Add(":0 0123\n")
	f.Add("garbage")
	f.Fuzz(func(t *testing.T, s string) {
		im := &Import{refs: []string{"refs/heads/a", "refs/heads/b", "refs/heads/a"}}
		tips, err := im.tips(s)
		if err == nil && len(tips) > 2 {
			t.Errorf("tips of refs nobody named: %v", tips)
		}
	})
}

func FuzzStepRefs(f *testing.F) {
	f.Add("1700000000 0123 4567 refs/taskdaemon/steps/t-1 t-1 t6.0: sing\n")
	f.Add("1700000000 0123 4567 refs/taskdaemon/steps/t-1 \n")
	f.Add("0123   refs/taskdaemon/steps/t-1 a tag\n")
	f.Fuzz(func(t *testing.T, s string) {
		refs, err := parseStepRefs(s)
		if err == nil && len(refs) > strings.Count(s, "\n")+1 {
			t.Errorf("%d refs out of %q", len(refs), s)
		}
	})
}
