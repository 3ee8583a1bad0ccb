package builtin

import (
	"strings"
	"testing"

	"taskdaemon/internal/redact"
)

// What the model is shown of a file with secrets must not come back into the file.
func TestMarksAreNotWritten(t *testing.T) {
	const file = "user: bob\npassword: hunter2hunter2\nport: 1\n"
	b := newBench(t)
	b.env.Secrets = redact.New("hunter2hunter2")
	b.put("conf", file)
	b.ok("Read", args{"path": "conf"})
	const why = "stands for a secret"
	b.bad("Edit", args{"path": "conf", "old_string": "password: [redacted]", "new_string": "password: x"}, why)
	b.bad("Edit", args{"path": "conf", "old_string": "port: 1", "new_string": "password: [redacted]\nport: 2"}, why)
	b.bad("MultiEdit", args{"path": "conf", "edits": []args{{"old_string": "bob", "new_string": "eve"}, {"old_string": "port", "new_string": "[redacted]"}}}, why)
	b.bad("Write", args{"path": "conf", "content": "user: eve\npassword: [redacted]\n"}, why)
	if got := b.get("conf"); got != file {
		t.Fatalf("the file is now %q", got)
	}
	res := b.ok("Edit", args{"path": "conf", "old_string": "port: 1", "new_string": "port: 2"})
	if got := b.get("conf"); got != strings.Replace(file, "port: 1", "port: 2", 1) {
		t.Errorf("the file is now %q", got)
	}
	if strings.Contains(res.Content, "hunter2") {
		t.Errorf("the diff tells the secret: %s", res.Content)
	}
	if call := b.prepare("Edit", args{"path": "conf", "old_string": "bob", "new_string": "eve"}); strings.Contains(string(call.Evidence), "hunter2") {
		t.Errorf("the evidence holds the secret: %s", call.Evidence)
	}
	// Where there is no secret the mark is a word.
	b.ok("Write", args{"path": "doc", "content": "a key is shown as [redacted]"})
	b.ok("Edit", args{"path": "doc", "old_string": "[redacted]", "new_string": "`[redacted]`"})
}
