package builtin

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"taskdaemon/internal/redact"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
	"taskdaemon/internal/webfetch"
)

const cutKey = "zqSEKRETvalue98765xyz"

// partOf is a part of the key that a text shows, or nothing. A few letters may be.
func partOf(text string) string {
	const most = redact.MinLength
	for i := range len(cutKey) - most {
		if part := cutKey[i : i+most+1]; strings.Contains(text, part) {
			return part
		}
	}
	return ""
}

// across are texts of n characters with a key at the end that goes beyond n by every part of it, and more words behind.
func across(n int, after string) (texts []string) {
	for beyond := range len(cutKey) + 1 {
		texts = append(texts, strings.Repeat(".", n+beyond-len(cutKey))+cutKey+after)
	}
	return texts
}

// No tool that cuts shows a part of a known value on either side of its cut, wherever that goes through the value.
func TestCutsLeaveNoPartOfAKey(t *testing.T) {
	more := strings.Repeat(".", 5*tool.MaxOutput)
	page := ""
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprint(w, page)
	}))
	defer web.Close()
	b := newBench(t)
	b.env.Secrets = redact.New(cutKey)
	fetcher, err := webfetch.New(webfetch.Options{AllowPrivate: []string{"127.0.0.1"}, Secrets: b.env.Secrets})
	if err != nil {
		t.Fatal(err)
	}
	b.env.Ask = func(context.Context, string, int) (td.SideResult, error) {
		return td.SideResult{Error: "nobody is there"}, nil
	}
	for _, rg := range []string{"", NoRipgrep} {
		b.tools = tool.NewRegistry(Tools(Options{Ripgrep: rg, Web: fetcher})...)
		for i, text := range across(maxGrepLine, more[:1000]) {
			b.put("f", text+"\n")
			if res := b.ok("Grep", args{"pattern": `\.\.`, "mode": "content"}); partOf(res.Content) != "" || !strings.Contains(res.Content, "[cut]") {
				t.Errorf("Grep, %d beyond: %q", i, partOf(res.Content))
			}
		}
	}
	for _, most := range []int{tool.MaxOutput - 7, 4 * tool.MaxOutput} { // of what is shown, with its number, and of what is read
		for i, text := range across(most, more) {
			b.put("f", text)
			if res := b.ok("Read", args{"path": "f"}); partOf(res.Content) != "" {
				t.Errorf("Read, %d beyond %d: %q", i, most, partOf(res.Content))
			}
		}
	}
	for i, text := range across(webfetch.MaxText, more) {
		page = text
		res := b.ok("WebFetch", args{"url": fmt.Sprintf("%s/%d", web.URL, i)})
		if partOf(res.Content) != "" {
			t.Errorf("WebFetch, %d beyond: %q", i, partOf(res.Content))
		}
	}
	for _, n := range []int{tool.MaxOutput / 2, 32 << 10} { // of what is shown, and of what the shim keeps
		for _, beyond := range []int{1, 10, 20} {
			for name, text := range map[string]string{
				"head": across(n, more[:80_000])[beyond],
				"tail": more[:80_000] + cutKey + more[:n+beyond-len(cutKey)],
				"both": more[:n+beyond-len(cutKey)] + cutKey + more[:9000] + cutKey + more[:n+beyond-len(cutKey)],
			} {
				b.put("f", text)
				b.env.Step = td.StepKey(fmt.Sprintf("%s.%d.%d", name, n, beyond))
				if res := b.do("Bash", args{"command": "cat f"}); partOf(res.Content) != "" || !strings.Contains(res.Content, "truncated") {
					t.Errorf("Bash, %s, %d beyond %d: %q", name, beyond, n, partOf(res.Content))
				}
			}
		}
	}
}

// A job's output is read in parts. None of them begins or ends within a known value, whatever offset is asked for, and nothing else is lost.
func TestJobOutputIsNotCutWithinAKey(t *testing.T) {
	b := newBench(t)
	b.env.Secrets = redact.New(cutKey)
	for _, beyond := range []int{1, 10, 20} {
		text := across(outputBytes, strings.Repeat("-", 3*outputBytes))[beyond]
		b.put("f", text)
		b.env.Step = td.StepKey(fmt.Sprintf("job.%d", beyond))
		started := b.ok("Bash", args{"command": "cat f", "background": true})
		job := started.Job.ID
		eventually(t, "it has ended", func() bool { return strings.Contains(b.ok("BashOutput", args{"job": job}).Content, "has ended") })
		first := b.do("BashOutput", args{"job": job})
		var next int64
		if _, err := fmt.Sscanf(first.Content[strings.LastIndex(first.Content, "offset ")+len("offset "):], "%d", &next); err != nil || partOf(first.Content) != "" {
			t.Fatalf("%d beyond: %v, %q", beyond, err, partOf(first.Content))
		}
		for at := int64(strings.Index(text, cutKey)); at < int64(strings.Index(text, cutKey)+len(cutKey)); at++ {
			if res := b.do("BashOutput", args{"job": job, "offset": at}); partOf(res.Content) != "" {
				t.Errorf("from %d: %q", at, partOf(res.Content))
			}
		}
		rest := b.do("BashOutput", args{"job": job, "offset": next})
		if partOf(rest.Content) != "" || strings.Count(first.Content, ".")+strings.Count(first.Content+rest.Content, b.env.Secrets.Mark()) != strings.Count(text, ".")+1 || strings.Count(rest.Content, "-") < 100 {
			t.Errorf("%d beyond: %.80q", beyond, rest.Content)
		}
	}
}
